// The key of an intent, damaged in every way: no intent at all, or one whose key is this one.

#include <cstring>
#include <string>

#include "base/crc32c.h"
#include "base/text.h"
#include "stream/edit.h"
#include "tests/fuzz/expect.h"

using namespace headrace;

namespace {

void Try(const std::string& key) {
  (void)ChunkName::FromKey(key);
  (void)SegmentRef::FromKey(key);
  std::optional<Intent> intent = ParseIntentKey(key);
  if (!intent) return;
  HR_EXPECT(intent->key == key);
  HR_EXPECT(IntentKey(intent->edit, intent->seq) == key);
  StreamInfo info;
  info.columns = {{"x", Dtype::kI32, Column::kArray}};
  Manifest manifest = Manifest::First(info, 1);
  std::string before = manifest.Encode();
  (void)Behind(*intent, manifest);
  if (!Apply(manifest, intent->edit, info).ok()) HR_EXPECT(manifest.Encode() == before);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  Try(text);
  // The bytes of an edit with a checksum and a beginning that fit them, so that what lies behind these is tried too.
  if (size < 24) return 0;
  uint16_t strand = 0;
  uint32_t epoch = 0;
  uint64_t seq = 0;
  std::memcpy(&strand, data + 17, 2);
  std::memcpy(&epoch, data + 19, 4);
  if (size >= 31) std::memcpy(&seq, data + 23, 8);
  uint32_t crc = Crc32c(std::as_bytes(std::span(text)));
  text.append(reinterpret_cast<const char*>(&crc), 4);
  Try(Cat("pending/", strand, "-", epoch, "-", seq, "-", Hex(text.data(), text.size())));
  return 0;
}
