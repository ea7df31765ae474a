// One lane of one step: the columns of the stream as raw arrays, each at a multiple of 64 bytes.
//
// A cell is built from arrays (`BuildCell`) and read as views into the bytes that were fetched (`Cell`): nothing is copied. docs/format/cell.md
// has the bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/array.h"
#include "headrace/bytes.h"
#include "headrace/result.h"
#include "headrace/store.h"
#include "stream/stream_info.h"

namespace headrace {

// The arrays of all columns in the stream's order: one for a plain column, values and offsets (int64, one more than rows) for the others.
// Refused if they do not fit the columns.
Result<Body> BuildCell(std::span<const Array> arrays, const std::vector<Column>& columns);

// What the beginning of a cell says of its arrays.
struct CellTable {
  struct Entry {
    Array array;  // without bytes
    uint64_t offset = 0;  // in the cell
    uint64_t size = 0;
  };
  std::vector<Entry> entries;
  uint64_t bytes = 0;  // of the table itself
};

// The table at the beginning of a cell of `cell_bytes`, from as much of it as there is: nothing if that is too little. What it says lies
// inside of the cell, and is not known to be true before the cell's checksum was.
Result<std::optional<CellTable>> ReadCellTable(std::span<const std::byte> beginning, uint64_t cell_bytes,
                                               const std::vector<Column>& columns);
// Ok if these can be the arrays of a cell. `what` names the place.
Status CheckCell(std::span<const Array> arrays, const std::vector<Column>& columns, std::string_view what);

// The arrays of a cell, as views into `bytes`. `what` names the place, for the error.
Result<std::vector<Array>> ReadCell(const Bytes& bytes, const std::vector<Column>& columns, std::string_view what);

}  // namespace headrace
