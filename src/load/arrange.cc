#include "load/arrange.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "base/crc32c.h"
#include "base/size.h"
#include "base/text.h"

namespace headrace {
namespace {

uint64_t Aligned(uint64_t offset) { return (offset + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment; }

struct Source {
  Bytes bytes;
  std::optional<uint32_t> crc;  // what is still to be checked
  std::vector<Array> arrays;  // views into `bytes`
  std::vector<uint64_t> places;  // of the arrays, in the block's memory
};

// Copies the arrays to their places. False if the checksum does not fit.
bool Copy(const Source& source, std::byte* memory) {
  const std::byte* at = source.bytes.data();
  bool in_order = true;
  for (const Array& array : source.arrays) {
    in_order = in_order && (array.bytes.empty() || array.bytes.data() >= at);
    if (!array.bytes.empty()) at = array.bytes.data() + array.bytes.size();
  }
  if (!source.crc || !in_order) {  // out of order: nobody writes that, but it would not be wrong
    if (source.crc && Crc32c(source.bytes.span()) != *source.crc) return false;
    for (size_t i = 0; i < source.arrays.size(); ++i) {
      const Bytes& from = source.arrays[i].bytes;
      if (!from.empty()) std::memcpy(memory + source.places[i], from.data(), from.size());
    }
    return true;
  }
  uint32_t crc = 0;
  at = source.bytes.data();
  const std::byte* end = at + source.bytes.size();
  for (size_t i = 0; i < source.arrays.size(); ++i) {
    const Bytes& from = source.arrays[i].bytes;
    if (from.empty()) continue;
    crc = Crc32c({at, from.data()}, crc);
    crc = Crc32cCopy(from.span(), memory + source.places[i], crc);
    at = from.data() + from.size();
  }
  return Crc32c({at, end}, crc) == *source.crc;
}

}  // namespace

Status Arrange(std::span<const StreamReader::Block> pieces, const std::vector<Column>& columns,
               const std::function<std::string(uint64_t step, uint32_t lane)>& what, BufferPool& pool, LoadedBlock& block) {
  const uint32_t steps = block.entry.steps;
  const uint32_t lanes = block.lanes.count();
  std::vector<std::vector<Source>> sources(steps);
  uint64_t size = 0;
  for (uint32_t step = 0; step < steps; ++step) {
    std::vector<Source>& row = sources[step];
    row.reserve(lanes);
    for (const StreamReader::Block& piece : pieces) {
      for (size_t i = 0; i < piece.cells[step].size(); ++i) {
        Source source{piece.cells[step][i], piece.crcs[step][i], {}, {}};
        // Where arrays lie is believed before it is checked: `ReadCell` looks only inside of the cell, and a cell that lies fails below.
        Result<std::vector<Array>> arrays =
            ReadCell(source.bytes, columns, what(block.entry.first_step + step, piece.first_lane + static_cast<uint32_t>(i)));
        if (!arrays.ok()) return arrays.status();
        source.arrays = *std::move(arrays);
        source.places.resize(source.arrays.size());
        row.push_back(std::move(source));
      }
    }
    for (size_t i = 0; i < row.front().arrays.size(); ++i) {
      size = Aligned(size);
      for (Source& source : row) {
        source.places[i] = size;
        size += source.arrays[i].bytes.size();
      }
    }
  }
  try {
    Buffer memory = pool.Take(size);
    for (uint32_t step = 0; step < steps; ++step) {
      for (uint32_t i = 0; i < lanes; ++i) {
        if (!Copy(sources[step][i], memory.span().data())) {
          return Status(Code::kCorrupt, Cat(what(block.entry.first_step + step, block.lanes.first + i),
                                            " is damaged: its checksum does not fit"));
        }
      }
    }
    const Bytes whole = std::move(memory).Freeze();
    for (uint32_t step = 0; step < steps; ++step) {
      for (uint32_t i = 0; i < lanes; ++i) {
        Source& source = sources[step][i];
        for (size_t k = 0; k < source.arrays.size(); ++k)
          source.arrays[k].bytes = whole.Slice(source.places[k], source.arrays[k].bytes.size());
        block.cells[step][i] = std::move(source.arrays);
      }
    }
  } catch (const std::bad_alloc&) {
    return Status(Code::kFull, Cat("no memory for a block of ", FormatSize(static_cast<double>(size))));
  }
  block.bytes = size;
  return {};
}

Status CheckCells(const StreamReader::Block& piece, const std::vector<Column>& columns,
                  const std::function<std::string(uint64_t step, uint32_t lane)>& what, LoadedBlock& block) {
  for (uint32_t step = 0; step < block.entry.steps; ++step) {
    for (size_t i = 0; i < piece.cells[step].size(); ++i) {
      const Bytes& cell = piece.cells[step][i];
      const uint32_t lane = piece.first_lane + static_cast<uint32_t>(i);
      if (piece.crcs[step][i] && Crc32c(cell.span()) != *piece.crcs[step][i]) {
        return Status(Code::kCorrupt, Cat(what(block.entry.first_step + step, lane), " is damaged: its checksum does not fit"));
      }
      HR_ASSIGN_OR_RETURN(block.cells[step][lane - block.lanes.first],
                          ReadCell(cell, columns, what(block.entry.first_step + step, lane)));
    }
  }
  return {};
}

Status LayTogether(BufferPool& pool, LoadedBlock& block) {
  struct Apart {
    std::vector<std::vector<Array>>* row;
    size_t array;
    uint64_t place;
  };
  std::vector<Apart> apart;
  uint64_t size = 0;
  for (std::vector<std::vector<Array>>& row : block.cells) {
    for (size_t i = 0; i < row.front().size(); ++i) {
      std::optional<Bytes> joined = row.front()[i].bytes;
      uint64_t bytes = 0;
      for (size_t lane = 0; lane < row.size(); ++lane) {
        const Bytes& next = row[lane][i].bytes;
        if (joined && lane > 0) joined = joined->JoinedWith(next);
        bytes += next.size();
      }
      if (joined) continue;
      apart.push_back({&row, i, size});
      size = Aligned(size + bytes);
    }
  }
  if (apart.empty()) return {};
  try {
    Buffer memory = pool.Take(size);
    for (const Apart& column : apart) {
      std::byte* to = memory.span().data() + column.place;
      for (const std::vector<Array>& cell : *column.row) {
        const Bytes& from = cell[column.array].bytes;
        if (!from.empty()) std::memcpy(to, from.data(), from.size());
        to += from.size();
      }
    }
    const Bytes whole = std::move(memory).Freeze();
    for (const Apart& column : apart) {
      uint64_t at = column.place;
      for (std::vector<Array>& cell : *column.row) {
        Bytes& bytes = cell[column.array].bytes;
        bytes = whole.Slice(at, bytes.size());
        at += bytes.size();
      }
    }
  } catch (const std::bad_alloc&) {
    return Status(Code::kFull, Cat("no memory for a block of ", FormatSize(static_cast<double>(size))));
  }
  block.bytes += size;
  return {};
}

}  // namespace headrace
