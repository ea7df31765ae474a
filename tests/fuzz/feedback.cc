// What trainers reported, damaged in every way: refused with a reason, or read to something that is written as it was read.

#include <string>

#include "base/crc32c.h"
#include "base/text.h"
#include "feedback/read_feedback.h"
#include "feedback/report.h"
#include "tests/fuzz/expect.h"

using namespace headrace;

namespace {

void Try(const std::string& text) {
  Result<FeedbackObject> object = DecodeFeedback(text);
  if (!object.ok()) {
    HR_EXPECT(object.code() == Code::kCorrupt || object.code() == Code::kUnsupported);
    HR_EXPECT(!object.status().message().empty());
    return;
  }
  const std::string encoded = EncodeFeedback(object->session, object->number, object->reports, "u");
  Result<FeedbackObject> again = DecodeFeedback(encoded);
  HR_EXPECT(again.ok() && again->reports.size() == object->reports.size());
  HR_EXPECT(EncodeFeedback(again->session, again->number, again->reports, "u") == encoded);
  HR_EXPECT(MergeFeedback({*object, *again}, 0, UINT64_MAX).size() <= object->reports.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Try(text);
  std::optional<FeedbackKey> key = FeedbackKey::FromKey(text);
  HR_EXPECT(!key || FeedbackKey::FromKey(key->Key())->Key() == key->Key());
  // With a checksum that fits, so that what lies behind it is tried too.
  const size_t end = text.rfind('\n', text.size() < 2 ? 0 : text.size() - 2);
  if (end == std::string::npos) return 0;
  const std::string body = text.substr(0, end + 1);
  const uint32_t crc = Crc32c(std::as_bytes(std::span(body)));
  const std::string digits = Hex(&crc, sizeof(crc));  // the lowest byte first
  Try(Cat(body, "{\"crc32c\":\"", digits.substr(6, 2), digits.substr(4, 2), digits.substr(2, 2), digits.substr(0, 2), "\"}\n"));
  return 0;
}
