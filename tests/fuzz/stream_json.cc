// stream.json, damaged in every way: refused with a reason, or read to something that is written as it was read.

#include <nlohmann/json.hpp>
#include <string>

#include "base/crc32c.h"
#include "base/text.h"
#include "stream/stream_info.h"
#include "tests/fuzz/expect.h"

using namespace headrace;

namespace {

void Try(const std::string& text) {
  Result<StreamInfo> info = StreamInfo::FromJson(text);
  if (!info.ok()) {
    HR_EXPECT(info.code() == Code::kCorrupt || info.code() == Code::kUnsupported);
    HR_EXPECT(!info.status().message().empty());
    return;
  }
  HR_EXPECT(info->Check().ok());
  Result<StreamInfo> again = StreamInfo::FromJson(info->ToJson());
  HR_EXPECT(again.ok() && *again == *info);
  for (uint64_t block : {uint64_t{0}, uint64_t{1000}, UINT64_MAX}) HR_EXPECT(info->blocks.Steps(block) > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  Try(text);
  // With a checksum that fits, so that what lies behind it is tried too.
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return 0;
  json.erase("crc32c");
  std::string dumped = json.dump(2);
  uint32_t crc = Crc32c(std::as_bytes(std::span(dumped)));
  json["crc32c"] = Hex(&crc, sizeof(crc));
  Try(json.dump(2));
  return 0;
}
