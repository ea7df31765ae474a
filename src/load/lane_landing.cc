#include "load/lane_landing.h"

#include <algorithm>
#include <new>

#include "base/crc32c.h"

namespace headrace {
namespace {

constexpr uint64_t kSlabBytes = 1024 * 1024;

uint64_t Aligned(uint64_t offset) { return (offset + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment; }

}  // namespace

void BlockMemory::Plan(const CellTable& table, const std::vector<Column>& columns) {
  std::call_once(planned_, [&] {
    std::vector<Lying> arrays(table.entries.size());
    size_t at = 0;
    uint64_t step_bytes = 0;
    for (const Column& column : columns) {
      // Rows differ in length as a rule; where they do not, they are few.
      if (column.kind == Column::kArray && table.entries[at].size > 0) {
        arrays[at] = {step_bytes, table.entries[at].size};
        step_bytes = Aligned(step_bytes + table.entries[at].size * lanes_);
      }
      at += static_cast<size_t>(column.arrays());
    }
    // A first cell that is much larger than the others, or that lies.
    if (step_bytes == 0 || step_bytes > 2 * bytes_ / steps_ + Buffer::kAlignment * arrays.size()) return;
    memory_.emplace(pool_->Take(step_bytes * steps_));
    base_ = memory_->span().data();
    step_bytes_ = step_bytes;
    arrays_ = std::move(arrays);
  });
}

std::byte* BlockMemory::PlaceOf(uint32_t step, uint32_t lane, size_t array, uint64_t size) const {
  if (array >= arrays_.size() || arrays_[array].size != size || size == 0) return nullptr;
  return base_ + step * step_bytes_ + arrays_[array].offset + lane * size;
}

const Bytes& BlockMemory::Freeze() {
  if (memory_) {
    frozen_ = std::move(*memory_).Freeze();
    memory_.reset();
  }
  return frozen_;
}

LaneLanding::LaneLanding(std::shared_ptr<BlockMemory> memory, const Entry& entry, const StreamInfo& info,
                         const ChunkHeader* header, uint64_t begin, LaneRange lanes, LaneRange block_lanes)
    : memory_(std::move(memory)),
      entry_(entry),
      info_(info),
      told_(header != nullptr),
      begin_(begin),
      lanes_(lanes),
      block_lanes_(block_lanes) {
  if (told_) header_ = *header;
  Restart();
}

void LaneLanding::Restart() {
  gave_up_ = false;
  at_ = begin_;
  lane_ = 0;
  step_ = 0;
  gathered_.clear();
  places_.clear();
  cells_.clear();
  slabs_.clear();
  slab_used_ = 0;
  bytes_ = 0;
  stage_ = Stage::kHeader;
  if (told_) Enter();
}

void LaneLanding::Enter() {
  // More steps than its lanes have room for: nothing is made ready for those.
  for (uint32_t lane = lanes_.first; lane < lanes_.end; ++lane)
    gave_up_ = gave_up_ || header_.lane[lane + 1].offset - header_.lane[lane].offset < DirectoryBytes(entry_.steps);
  if (gave_up_) return;
  cells_.resize(static_cast<size_t>(lanes_.count()) * entry_.steps);
  stage_ = Stage::kSkip;
  until_ = header_.lane[lanes_.first].offset;
}

void LaneLanding::Take(uint64_t offset, std::span<const std::byte> piece) {
  if (offset == 0 && at_ != begin_) Restart();
  try {
    while (!piece.empty() && !gave_up_) {
      const size_t taken = Advance(piece);
      at_ += taken;
      piece = piece.subspan(taken);
    }
  } catch (const std::bad_alloc&) {
    gave_up_ = true;
  }
}

size_t LaneLanding::Advance(std::span<const std::byte> piece) {
  switch (stage_) {
    case Stage::kHeader: {
      const size_t taken = Gather(piece, entry_.header_bytes);
      if (gathered_.size() < entry_.header_bytes) return taken;
      Result<ChunkHeader> header = DecodeChunkHeader(gathered_, entry_, info_, "");
      gave_up_ = !header.ok();
      if (gave_up_) return taken;
      header_ = *std::move(header);
      Enter();
      return taken;
    }
    case Stage::kSkip: {
      const size_t skipped = std::min<uint64_t>(piece.size(), until_ - at_);
      if (at_ + skipped < until_) return skipped;
      gathered_.clear();
      stage_ = places_.empty() ? Stage::kDirectory : Stage::kTable;
      if (stage_ == Stage::kTable && place().codec != Codec::kNone) PreparePacked();
      return skipped;
    }
    case Stage::kDirectory: {
      const uint64_t bytes = DirectoryBytes(entry_.steps);
      const size_t taken = Gather(piece, bytes);
      if (gathered_.size() < bytes) return taken;
      Result<std::vector<CellPlace>> places = DecodeDirectory(gathered_, header_, lanes_.first + lane_, "");
      gave_up_ = !places.ok();
      if (gave_up_) return taken;
      places_ = *std::move(places);
      Next(at_ + taken);
      return taken;
    }
    case Stage::kTable: return TakeTable(piece);
    case Stage::kCell: return TakeCell(piece);
    case Stage::kEnd: break;  // the footer
  }
  return piece.size();
}

void LaneLanding::Next(uint64_t at) {
  if (step_ == entry_.steps) {
    places_.clear();
    step_ = 0;
    ++lane_;
  }
  if (lane_ == lanes_.count()) {
    stage_ = Stage::kEnd;
    return;
  }
  stage_ = Stage::kSkip;
  until_ = places_.empty() ? header_.lane[lanes_.first + lane_].offset : place().offset;
  gave_up_ = until_ < at;
  if (!places_.empty() && (place().stored == 0 || (place().codec == Codec::kNone && place().raw != place().stored)))
    gave_up_ = true;
}

size_t LaneLanding::Gather(std::span<const std::byte> piece, uint64_t up_to) {
  const size_t taken = std::min<uint64_t>(piece.size(), up_to - gathered_.size());
  gathered_.insert(gathered_.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(taken));
  return taken;
}

size_t LaneLanding::TakeTable(std::span<const std::byte> piece) {
  // As a rule it lies in one piece, with much of the cell behind it.
  if (gathered_.empty()) {
    Result<std::optional<CellTable>> table = ReadCellTable(piece, place().stored, info_.columns);
    gave_up_ = !table.ok();
    if (gave_up_) return 0;
    if (*table) return Prepare(**std::move(table)) ? TakeCell(piece) : 0;
  }
  // In steps that never go beyond the table, which ends at a multiple of the alignment.
  const size_t taken = Gather(piece, std::min<uint64_t>(Aligned(gathered_.size() + 1), place().stored));
  Result<std::optional<CellTable>> table = ReadCellTable(gathered_, place().stored, info_.columns);
  gave_up_ = !table.ok();
  if (!gave_up_ && *table && Prepare(**std::move(table))) TakeCell(gathered_);
  return taken;
}

bool LaneLanding::Prepare(CellTable table) {
  memory_->Plan(table, info_.columns);
  Begin();
  uint64_t end = table.bytes;
  for (size_t i = 0; i < table.entries.size(); ++i) {
    CellTable::Entry& entry = table.entries[i];
    Landed& landed = cell().arrays.emplace_back();
    landed.array = std::move(entry.array);
    if (entry.size == 0) continue;
    gave_up_ = entry.offset < end;
    if (gave_up_) return false;
    end = entry.offset + entry.size;
    std::byte* to = memory_->PlaceOf(step_, lanes_.first + lane_ - block_lanes_.first, i, entry.size);
    if (to == nullptr) to = PlaceElsewhere(landed, entry.size);
    landed.bytes = {to, entry.size};
    segments_.push_back({entry.offset, end, to});
  }
  return true;
}

void LaneLanding::PreparePacked() {
  Begin();
  cell().packed = place();
  Landed& landed = cell().arrays.emplace_back();
  std::byte* to = PlaceElsewhere(landed, place().stored);
  landed.bytes = {to, place().stored};
  segments_.push_back({0, place().stored, to});
}

void LaneLanding::Begin() {
  segments_.clear();
  segment_ = 0;
  cell_at_ = 0;
  crc_ = 0;
  stage_ = Stage::kCell;
}

std::byte* LaneLanding::PlaceElsewhere(Landed& landed, uint64_t size) {
  if (slabs_.empty() || slabs_.back().size() - slab_used_ < size) {
    slabs_.push_back(memory_->pool().Take(std::max(kSlabBytes, size)));
    slab_used_ = 0;
  }
  landed.slab = slabs_.size() - 1;
  std::byte* at = slabs_.back().span().data() + slab_used_;
  slab_used_ = std::min<uint64_t>(Aligned(slab_used_ + size), slabs_.back().size());
  return at;
}

size_t LaneLanding::TakeCell(std::span<const std::byte> piece) {
  size_t taken = 0;
  while (taken < piece.size() && cell_at_ < place().stored) {
    const Segment* segment = segment_ < segments_.size() ? &segments_[segment_] : nullptr;
    const bool inside = segment != nullptr && cell_at_ >= segment->begin;
    const uint64_t end = inside ? segment->end : segment != nullptr ? segment->begin : place().stored;
    const std::span<const std::byte> run = piece.subspan(taken, std::min<uint64_t>(piece.size() - taken, end - cell_at_));
    crc_ = inside ? Crc32cCopy(run, segment->to + (cell_at_ - segment->begin), crc_) : Crc32c(run, crc_);
    taken += run.size();
    cell_at_ += run.size();
    if (inside && cell_at_ == segment->end) ++segment_;
  }
  if (cell_at_ < place().stored) return taken;
  gave_up_ = crc_ != place().crc;
  if (gave_up_) return taken;
  const uint64_t end = place().offset + place().stored;
  bytes_ += place().stored;
  ++step_;
  Next(end);
  return taken;
}

Status LaneLanding::Check(const std::function<std::string(uint64_t step, uint32_t lane)>& what) {
  std::vector<Array> arrays;
  for (size_t i = 0; i < cells_.size(); ++i) {
    Cell& cell = cells_[i];
    const uint32_t lane = lanes_.first + static_cast<uint32_t>(i / entry_.steps);
    const uint64_t step = i % entry_.steps;
    arrays.clear();
    if (cell.packed) {
      HR_ASSIGN_OR_RETURN(
          Bytes raw, UnpackCell(Bytes::Borrow(cell.arrays.front().bytes), cell.packed->offset, *cell.packed, what(step, lane)));
      HR_ASSIGN_OR_RETURN(std::vector<Array> unpacked, ReadCell(raw, info_.columns, what(step, lane)));
      cell = {};
      for (Array& array : unpacked) cell.arrays.push_back({.array = std::move(array)});
      continue;
    }
    for (const Landed& landed : cell.arrays) {
      arrays.push_back(landed.array);
      arrays.back().bytes = Bytes::Borrow(landed.bytes);
    }
    // Words for what is wrong only where something is.
    if (!CheckCell(arrays, info_.columns, "").ok()) return CheckCell(arrays, info_.columns, what(step, lane));
  }
  return {};
}

void LaneLanding::Fill(LoadedBlock& block) {
  const Bytes& memory = memory_->Freeze();
  std::vector<Bytes> slabs;
  for (Buffer& slab : slabs_) slabs.push_back(std::move(slab).Freeze());
  slabs_.clear();
  for (size_t i = 0; i < cells_.size(); ++i) {
    const uint32_t lane = lanes_.first + static_cast<uint32_t>(i / entry_.steps);
    std::vector<Array>& arrays = block.cells[i % entry_.steps][lane - block_lanes_.first];
    arrays.clear();
    arrays.reserve(cells_[i].arrays.size());
    for (Landed& landed : cells_[i].arrays) {
      arrays.push_back(std::move(landed.array));
      if (landed.bytes.empty()) continue;
      const Bytes& from = landed.slab ? slabs[*landed.slab] : memory;
      arrays.back().bytes = from.Slice(static_cast<size_t>(landed.bytes.data() - from.data()), landed.bytes.size());
    }
  }
}

}  // namespace headrace
