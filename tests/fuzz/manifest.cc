// A manifest, damaged in every way: refused with its name, or read to something that is written as it was read.

#include "stream/manifest.h"

#include <string>

#include "base/codec.h"
#include "base/crc32c.h"
#include "tests/fuzz/expect.h"

using namespace headrace;

namespace {

void Try(std::span<const std::byte> bytes) {
  Result<Manifest> manifest = Manifest::Decode(bytes, "the-object");
  if (!manifest.ok()) {
    HR_EXPECT(manifest.code() == Code::kCorrupt || manifest.code() == Code::kUnsupported);
    HR_EXPECT(manifest.status().message().find("the-object") != std::string::npos);
    return;
  }
  std::string encoded = manifest->Encode();
  HR_EXPECT(encoded.size() == bytes.size());
  Result<Manifest> again = Manifest::Decode(std::as_bytes(std::span(encoded.data(), encoded.size())), "again");
  HR_EXPECT(again.ok() && again->Encode() == encoded);
  (void)manifest->sealed_block();
  (void)manifest->LowestPin();
  for (size_t v = 0; v < manifest->strands.size(); ++v) (void)manifest->LastChunk(static_cast<uint16_t>(v));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Try(std::as_bytes(std::span(data, size)));
  if (size < 4) return 0;
  // Nobody gets past the checksum by chance: here it is put right, so that what lies behind it is tried too.
  std::string fitting(reinterpret_cast<const char*>(data), size - 4);
  Encoder crc;
  crc.Put(Crc32c(std::as_bytes(std::span(fitting.data(), fitting.size()))));
  fitting += crc.text();
  Try(std::as_bytes(std::span(fitting.data(), fitting.size())));
  return 0;
}
