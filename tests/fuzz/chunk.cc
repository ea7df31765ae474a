// A chunk, damaged in every way: header, directories, cells and footer are refused with its name, or read from inside of its bytes.

#include "stream/chunk.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/crc32c.h"
#include "load/lane_landing.h"
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

// Takes it apart as it comes from a network: what lands is what is read as a whole.
void Land(const Bytes& chunk, const StreamInfo& info, const Entry& entry, const ChunkHeader& header, size_t piece) {
  const LaneRange lanes{0, info.lanes};
  auto memory = std::make_shared<BlockMemory>(entry.steps, info.lanes, chunk.size(), BufferPool::Make());
  LaneLanding landing(memory, entry, info, &header, 0, lanes, lanes);
  for (size_t at = 0; at < chunk.size(); at += piece) landing.Take(at, chunk.Slice(at, piece).span());
  if (!landing.whole()) return;
  Status status = landing.Check([](uint64_t, uint32_t) { return std::string("the-object"); });
  if (!status.ok()) return Named(status);
  LoadedBlock block;
  block.cells.assign(entry.steps, std::vector<std::vector<Array>>(info.lanes));
  landing.Fill(block);
  for (uint32_t lane = 0; lane < info.lanes; ++lane) {
    const uint64_t offset = header.lane[lane].offset;
    const Bytes bytes = chunk.Slice(offset, header.lane[lane + 1].offset - offset);
    const std::vector<CellPlace> places = *DecodeDirectory(bytes.span(), header, lane, "the-object");
    for (uint32_t step = 0; step < entry.steps; ++step) {
      const std::vector<Array> read =
          *ReadCell(*UnpackCell(bytes, offset, places[step], "the-object"), info.columns, "the-object");
      const std::vector<Array>& landed = block.cells[step][lane];
      HR_EXPECT(landed.size() == read.size());
      for (size_t i = 0; i < read.size(); ++i) {
        HR_EXPECT(landed[i].dtype == read[i].dtype && landed[i].shape == read[i].shape);
        HR_EXPECT(std::ranges::equal(landed[i].bytes.span(), read[i].bytes.span()));
      }
    }
  }
}

// `lenient`: with all checksums put right, so that what lies behind them is tried too.
void Try(const Bytes& chunk, const StreamInfo& info, const Entry& entry, bool lenient) {
  std::string mended = lenient ? chunk.ToString() : std::string();
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
    for (size_t i = 0; i < places->size(); ++i) {
      CellPlace place = (*places)[i];
      HR_EXPECT(place.offset >= offset && place.offset + place.stored <= offset + bytes.size());
      if (lenient) {
        place.crc = Crc32c(bytes.Slice(place.offset - offset, place.stored).span());
        std::memcpy(mended.data() + offset + 24 * i + 16, &place.crc, sizeof(place.crc));
      }
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
  if (lenient) {
    for (uint32_t lane = 0; lane < info.lanes; ++lane) {
      const auto all = std::as_bytes(std::span(mended));
      const uint64_t offset = header->lane[lane].offset;
      header->lane[lane].directory_crc =
          Crc32c(all.subspan(offset, std::min<size_t>(all.size() - offset, DirectoryBytes(entry.steps))));
    }
  }
  const Bytes whole = lenient ? Bytes::FromString(std::move(mended)) : chunk;
  Land(whole, info, entry, *header, 1 + chunk.size() % 97);
  Land(whole, info, entry, *header, chunk.size());
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
