// A chunk, damaged in every way: header, directories, cells and footer are refused with its name, or read from inside of its bytes.

#include "stream/chunk.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/crc32c.h"
#include "stream/cell.h"
#include "tests/fuzz/expect.h"

using namespace headrace;

namespace {

template <typename T>
T At(const std::string& bytes, size_t offset) {
  T value{};
  if (offset + sizeof(T) <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

void Named(const Status& status) {
  HR_EXPECT(status.code() == Code::kCorrupt || status.code() == Code::kUnsupported);
  HR_EXPECT(status.message().find("the-object") != std::string::npos);
}

// `lenient`: with all checksums put right, so that what lies behind them is tried too.
void Try(const Bytes& chunk, const StreamInfo& info, const Entry& entry, bool lenient) {
  Result<ChunkHeader> header =
      DecodeChunkHeader(chunk.span().first(std::min<size_t>(chunk.size(), entry.header_bytes)), entry, info, "the-object");
  if (!header.ok()) return Named(header.status());
  for (uint32_t lane = 0; lane < info.lanes; ++lane) {
    uint64_t offset = header->lane[lane].offset;
    Bytes bytes = chunk.Slice(offset, header->lane[lane + 1].offset - offset);
    if (lenient) {
      size_t directory = std::min<size_t>(bytes.size(), (uint64_t{24} * header->edit.steps + 63) / 64 * 64);
      header->lane[lane].directory_crc = Crc32c(bytes.span().first(directory));
    }
    Result<std::vector<CellPlace>> places = DecodeDirectory(bytes.span(), *header, lane, "the-object");
    if (!places.ok()) {
      Named(places.status());
      continue;
    }
    HR_EXPECT(places->size() == entry.steps);
    for (CellPlace place : *places) {
      HR_EXPECT(place.offset >= offset && place.offset + place.stored <= offset + bytes.size());
      if (lenient) place.crc = Crc32c(bytes.Slice(place.offset - offset, place.stored).span());
      Result<Bytes> cell = UnpackCell(bytes, offset, place, "the-object");
      if (!cell.ok()) {
        Named(cell.status());
        continue;
      }
      HR_EXPECT(cell->size() == place.raw);
      Result<std::vector<Array>> arrays = ReadCell(*cell, info.columns, "the-object");
      if (!arrays.ok()) Named(arrays.status());
    }
  }
  Result<Bytes> state = DecodeFooter(chunk.Slice(header->footer_offset), info.uuid, entry.name, "the-object");
  if (!state.ok()) Named(state.status());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  StreamInfo info;
  info.lanes = 2;
  info.columns = {{"tokens", Dtype::kI32, Column::kArray},
                  {"weight", Dtype::kBf16, Column::kArray},
                  {"ids", Dtype::kU16, Column::kRagged},
                  {"text", Dtype::kU8, Column::kBytes}};
  if (size >= 24) std::memcpy(info.uuid.data(), data + 8, info.uuid.size());
  // The entry that would fit: it stands in the header.
  Entry entry;
  entry.name = {At<uint16_t>(bytes, 96), At<uint32_t>(bytes, 72), At<uint64_t>(bytes, 40), At<uint64_t>(bytes, 48)};
  entry.steps = At<uint32_t>(bytes, 76);
  entry.bytes = size;
  entry.header_bytes = static_cast<uint32_t>(ChunkHeader::Bytes(info.lanes));
  entry.header_crc = At<uint32_t>(bytes, entry.header_bytes - 4);
  Try(Bytes::FromString(bytes), info, entry, false);
  if (size < entry.header_bytes) return 0;
  entry.header_crc = Crc32c(std::as_bytes(std::span(bytes)).first(entry.header_bytes - 4));
  std::memcpy(bytes.data() + entry.header_bytes - 4, &entry.header_crc, 4);
  Try(Bytes::FromString(bytes), info, entry, true);
  return 0;
}
