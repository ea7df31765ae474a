// Sizes and times as people write them: whatever is understood can be printed, and what is printed is understood again.

#include <string_view>

#include "base/size.h"
#include "tests/fuzz/expect.h"

using namespace headrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (Result<uint64_t> bytes = ParseSize(text); bytes.ok()) {
    HR_EXPECT(ParseSize(FormatSize(static_cast<double>(*bytes) / 2)).ok());
  } else {
    HR_EXPECT(!bytes.status().message().empty());
  }
  if (Result<Duration> time = ParseDuration(text); time.ok()) {
    HR_EXPECT(*time >= Duration::zero());
    HR_EXPECT(ParseDuration(FormatDuration(*time)).ok());
  } else {
    HR_EXPECT(!time.status().message().empty());
  }
  return 0;
}
