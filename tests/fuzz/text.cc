// Escapes of URIs: what is encoded decodes to itself, and decoding never makes more than it was given.

#include "base/text.h"

#include <string>
#include <string_view>

#include "tests/fuzz/expect.h"

using namespace headrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  for (bool keep_slash : {false, true}) {
    std::string encoded = PercentEncode(text, keep_slash);
    std::string decoded;
    HR_EXPECT(PercentDecode(encoded, decoded));
    HR_EXPECT(decoded == text);
    HR_EXPECT(IsUtf8(encoded));
  }
  std::string decoded;
  if (PercentDecode(text, decoded)) HR_EXPECT(decoded.size() <= text.size());
  if (IsUtf8(text)) {
    for (char c : text) HR_EXPECT(static_cast<unsigned char>(c) < 0xF5);
  }
  HR_EXPECT(Trim(text).size() <= text.size());
  return 0;
}
