// One lane of one step: the columns of the stream as raw arrays, each at a multiple of 64 bytes.
//
// A cell is built from arrays (`BuildCell`) and read as views into the bytes that were fetched (`Cell`): nothing is copied. docs/format/cell.md
// has the bytes.
#pragma once

#include <cstdint>
#include <span>
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

// The arrays of a cell, as views into `bytes`. `what` names the place, for the error.
Result<std::vector<Array>> ReadCell(const Bytes& bytes, const std::vector<Column>& columns, std::string_view what);

}  // namespace headrace
