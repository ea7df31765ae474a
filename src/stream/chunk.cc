#include "stream/chunk.h"

#include <zstd.h>

#include <algorithm>

#include "base/codec.h"
#include "base/crc32c.h"
#include "base/text.h"

namespace headrace {
namespace {

constexpr std::string_view kMagic = "HRchunk1";
constexpr std::string_view kFooterMagic = "HRfoot_1";
constexpr size_t kAlign = 64;
constexpr size_t kFixedBytes = 128;
constexpr size_t kLaneBytes = 16;
constexpr size_t kPlaceBytes = 24;
constexpr size_t kFooterFixedBytes = 48;

uint64_t Aligned(uint64_t offset) { return (offset + kAlign - 1) / kAlign * kAlign; }

uint32_t CrcOf(const Body& body) {
  uint32_t crc = 0;
  for (const Bytes& part : body.parts()) crc = Crc32c(part.span(), crc);
  return crc;
}

uint32_t CrcOf(std::string_view text) { return Crc32c(std::as_bytes(std::span(text.data(), text.size()))); }

// The cell, packed if that makes it smaller.
Body Pack(const Body& cell, const ChunkOptions& options, Codec& codec) {
  codec = Codec::kNone;
  if (options.codec == Codec::kNone || cell.size() == 0) return cell;
  Bytes whole = cell.Join();
  Buffer packed(ZSTD_compressBound(whole.size()));
  size_t size = ZSTD_compress(packed.span().data(), packed.size(), whole.data(), whole.size(), options.zstd_level);
  if (ZSTD_isError(size) || size >= whole.size()) return cell;
  codec = Codec::kZstd;
  return Body(std::move(packed).Freeze(size));
}

void AppendPadding(Body& body) {
  static const Bytes zeros = Bytes::FromString(std::string(kAlign, '\0'));
  body.Append(zeros.Slice(0, Aligned(body.size()) - body.size()));
}

std::string EncodeFooter(const ChunkEdit& edit, const Bytes& state) {
  Encoder out;
  out.PutRaw(kFooterMagic);
  out.PutRaw(edit.uuid.data(), edit.uuid.size());
  out.Put(edit.name.seq);
  out.Put(edit.name.nonce);
  out.Put(edit.name.epoch);
  out.Put(static_cast<uint32_t>(state.size()));
  out.PutRaw(state.AsText());
  out.Put(CrcOf(out.text()));
  return out.Take();
}

}  // namespace

size_t ChunkHeader::Bytes(uint32_t lanes) { return Aligned(kFixedBytes + kLaneBytes * (lanes + 1) + 4); }

Status ChunkBuilder::AddStep(std::vector<Body> cells) {
  if (cells.size() != info_.lanes) {
    return Status(Code::kInvalidArgument, Cat("a step of this stream has ", info_.lanes, " lanes, not ", cells.size()));
  }
  for (const Body& cell : cells) {
    if (cell.size() > UINT32_MAX / 2) return Status(Code::kInvalidArgument, "a cell is larger than 2 GiB");
    bytes_ += cell.size();
  }
  steps_.push_back(std::move(cells));
  return {};
}

ChunkBuilder::Finished ChunkBuilder::Finish(ChunkEdit edit, Bytes state) {
  const uint32_t lanes = info_.lanes;
  edit.steps = steps();
  edit.header_bytes = static_cast<uint32_t>(ChunkHeader::Bytes(lanes));

  Body lanes_body;
  std::vector<ChunkHeader::Lane> table;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    uint64_t lane_offset = edit.header_bytes + lanes_body.size();
    uint64_t directory_bytes = Aligned(kPlaceBytes * steps_.size());
    uint64_t offset = lane_offset + directory_bytes;
    Encoder directory;
    Body cells;
    for (std::vector<Body>& step : steps_) {
      Codec codec;
      Body cell = Pack(step[lane], options_, codec);
      directory.Put(offset);
      directory.Put(static_cast<uint32_t>(cell.size()));
      directory.Put(static_cast<uint32_t>(step[lane].size()));
      directory.Put(CrcOf(cell));
      directory.Put(static_cast<uint32_t>(codec));
      for (const Bytes& part : cell.parts()) cells.Append(part);
      AppendPadding(cells);
      offset = lane_offset + directory_bytes + cells.size();
      step[lane] = {};
    }
    directory.PadTo(kAlign);
    table.push_back({lane_offset, CrcOf(directory.text())});
    lanes_body.Append(Bytes::FromString(directory.Take()));
    for (const Bytes& part : cells.parts()) lanes_body.Append(part);
  }
  uint64_t footer_offset = edit.header_bytes + lanes_body.size();
  table.push_back({footer_offset, 0});
  std::string footer = EncodeFooter(edit, state);
  edit.footer_bytes = static_cast<uint32_t>(footer.size());
  edit.bytes = footer_offset + footer.size();

  Encoder header;
  header.PutRaw(kMagic);
  header.PutRaw(edit.uuid.data(), edit.uuid.size());
  header.PutRaw(edit.prev.data(), edit.prev.size());
  header.Put(edit.name.seq);
  header.Put(edit.name.nonce);
  header.Put(edit.block);
  header.Put(footer_offset);
  header.Put(edit.name.epoch);
  header.Put(edit.steps);
  header.Put(lanes);
  header.Put(edit.mixture);
  header.Put(edit.footer_bytes);
  // The checksum that ends the footer, over everything before it.
  header.Put(CrcOf(std::string_view(footer).substr(0, footer.size() - 4)));
  header.Put(edit.name.strand);
  header.PutRaw(std::string(kFixedBytes - header.size(), '\0'));
  for (const ChunkHeader::Lane& lane : table) {
    header.Put(lane.offset);
    header.Put(lane.directory_crc);
    header.Put(uint32_t{0});
  }
  header.PutRaw(std::string(edit.header_bytes - 4 - header.size(), '\0'));
  edit.header_crc = CrcOf(header.text());
  header.Put(edit.header_crc);

  Body body(Bytes::FromString(header.Take()));
  for (const Bytes& part : lanes_body.parts()) body.Append(part);
  body.Append(Bytes::FromString(std::move(footer)));
  steps_.clear();
  bytes_ = 0;
  return {std::move(body), edit};
}

Result<ChunkHeader> DecodeChunkHeader(std::span<const std::byte> bytes, const Entry& entry, const StreamInfo& info,
                                      std::string_view what) {
  auto damaged = [&](std::string_view why) { return Status(Code::kCorrupt, Cat("the chunk ", what, " is damaged: ", why)); };
  if (entry.header_bytes != ChunkHeader::Bytes(info.lanes) || bytes.size() != entry.header_bytes) {
    return damaged(Cat("its header has ", bytes.size(), " bytes"));
  }
  Decoder crc(bytes.last(4));
  if (Crc32c(bytes.first(bytes.size() - 4)) != entry.header_crc || crc.Get<uint32_t>() != entry.header_crc) {
    return damaged("its header's checksum does not fit");
  }
  Decoder in(bytes);
  std::span<const std::byte> magic = in.GetRaw(kMagic.size());
  std::string_view seen(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (seen != kMagic) {
    if (seen.starts_with("HRchunk"))
      return Status(Code::kUnsupported, Cat("the chunk ", what, " has another format version: use a newer Headrace"));
    return damaged("it does not begin as one");
  }
  ChunkHeader header;
  ChunkEdit& edit = header.edit;
  in.GetInto(edit.uuid);
  in.GetInto(edit.prev);
  edit.name.seq = in.Get<uint64_t>();
  edit.name.nonce = in.Get<uint64_t>();
  edit.block = in.Get<uint64_t>();
  header.footer_offset = in.Get<uint64_t>();
  edit.name.epoch = in.Get<uint32_t>();
  edit.steps = in.Get<uint32_t>();
  header.lanes = in.Get<uint32_t>();
  edit.mixture = in.Get<uint32_t>();
  edit.footer_bytes = in.Get<uint32_t>();
  header.footer_crc = in.Get<uint32_t>();
  edit.name.strand = in.Get<uint16_t>();
  Decoder lanes(bytes.subspan(kFixedBytes));
  uint64_t before = entry.header_bytes;
  for (uint32_t i = 0; i <= info.lanes; ++i) {
    ChunkHeader::Lane& lane = header.lane.emplace_back();
    lane.offset = lanes.Get<uint64_t>();
    lane.directory_crc = lanes.Get<uint32_t>();
    lanes.Get<uint32_t>();
    if (lane.offset < before || lane.offset > entry.bytes || lane.offset % kAlign != 0)
      return damaged("a lane lies outside of it");
    before = lane.offset;
  }
  if (edit.uuid != info.uuid || edit.name != entry.name || edit.steps != entry.steps || header.lanes != info.lanes ||
      header.footer_offset != header.lane.back().offset || header.footer_offset + edit.footer_bytes != entry.bytes) {
    return damaged("it is not the chunk that the index names");
  }
  edit.bytes = entry.bytes;
  edit.header_bytes = entry.header_bytes;
  edit.header_crc = entry.header_crc;
  return header;
}

uint64_t DirectoryBytes(uint32_t steps) { return Aligned(kPlaceBytes * steps); }

Result<std::vector<CellPlace>> DecodeDirectory(std::span<const std::byte> lane, const ChunkHeader& header, uint32_t which,
                                               std::string_view what) {
  auto damaged = [&](std::string_view why) {
    return Status(Code::kCorrupt, Cat("lane ", which, " of the chunk ", what, " is damaged: ", why));
  };
  const uint64_t directory_bytes = DirectoryBytes(header.edit.steps);
  uint64_t first = header.lane[which].offset;
  uint64_t end = header.lane[which + 1].offset;
  if (lane.size() < directory_bytes || end - first < directory_bytes) return damaged("it is too short");
  if (Crc32c(lane.first(directory_bytes)) != header.lane[which].directory_crc)
    return damaged("its directory's checksum does not fit");
  Decoder in(lane.first(directory_bytes));
  std::vector<CellPlace> places(header.edit.steps);
  for (CellPlace& place : places) {
    place.offset = in.Get<uint64_t>();
    place.stored = in.Get<uint32_t>();
    place.raw = in.Get<uint32_t>();
    place.crc = in.Get<uint32_t>();
    place.codec = static_cast<Codec>(in.GetAtMost<uint32_t>(1));
    if (!in.ok() || place.offset < first + directory_bytes || place.offset > end || place.stored > end - place.offset) {
      return damaged("a cell lies outside of it");
    }
  }
  return places;
}

Result<Bytes> CellAsStored(const Bytes& lane, uint64_t lane_offset, const CellPlace& place, std::string_view what) {
  Bytes stored = lane.Slice(place.offset - lane_offset, place.stored);
  if (stored.size() != place.stored || place.raw != place.stored)
    return Status(Code::kCorrupt, Cat(what, " is damaged: its sizes differ"));
  return stored;
}

Result<Bytes> UnpackCell(const Bytes& lane, uint64_t lane_offset, const CellPlace& place, std::string_view what) {
  Bytes stored = lane.Slice(place.offset - lane_offset, place.stored);
  if (stored.size() != place.stored || Crc32c(stored.span()) != place.crc) {
    return Status(Code::kCorrupt, Cat(what, " is damaged: its checksum does not fit"));
  }
  if (place.codec == Codec::kNone) return CellAsStored(lane, lane_offset, place, what);
  // Nothing packs better than this, so a size beyond it is wrong; better to know before the memory is asked for.
  constexpr uint64_t kBestRatio = 1 << 15;
  if (place.raw > kBestRatio * place.stored || ZSTD_getFrameContentSize(stored.data(), stored.size()) != place.raw) {
    return Status(Code::kCorrupt, Cat(what, " is damaged: its sizes do not fit what is packed in it"));
  }
  Buffer raw(place.raw);
  size_t size = ZSTD_decompress(raw.span().data(), raw.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) || size != place.raw) return Status(Code::kCorrupt, Cat(what, " is damaged: it cannot be unpacked"));
  return std::move(raw).Freeze();
}

Result<Bytes> DecodeFooter(const Bytes& footer, const Uuid& uuid, const ChunkName& name, std::string_view what) {
  auto damaged = [&](std::string_view why) {
    return Status(Code::kCorrupt, Cat("the footer of the chunk ", what, " is damaged: ", why));
  };
  if (footer.size() < kFooterFixedBytes + 4) return damaged("it is too short");
  Decoder crc(footer.span().last(4));
  if (crc.Get<uint32_t>() != Crc32c(footer.span().first(footer.size() - 4))) return damaged("its checksum does not fit");
  Decoder in(footer.span().first(footer.size() - 4));
  std::span<const std::byte> magic = in.GetRaw(kFooterMagic.size());
  std::string_view begins(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (begins != kFooterMagic) {
    if (begins.starts_with("HRfoot_"))
      return Status(Code::kUnsupported,
                    Cat("the footer of the chunk ", what, " has another format version: use a newer Headrace"));
    return damaged("it does not begin as one");
  }
  Uuid seen{};
  in.GetInto(seen);
  auto seq = in.Get<uint64_t>();
  auto nonce = in.Get<uint64_t>();
  auto epoch = in.Get<uint32_t>();
  auto size = in.Get<uint32_t>();
  if (seen != uuid || seq != name.seq || nonce != name.nonce || epoch != name.epoch)
    return damaged("it belongs to another chunk");
  if (!in.ok() || in.left() != size) return damaged("its length is wrong");
  return footer.Slice(kFooterFixedBytes, size);
}

}  // namespace headrace
