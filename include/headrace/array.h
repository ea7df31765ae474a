// What stands in a cell: the arrays of the stream's columns.
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/bytes.h"
#include "headrace/stream_info.h"

namespace headrace {

// An array in memory: its type, shape and bytes, row after row. A view where `bytes` is one: nothing is copied.
struct Array {
  static constexpr size_t kMaxDims = 8;

  Dtype dtype = Dtype::kI32;
  std::vector<uint64_t> shape;
  Bytes bytes;

  uint64_t elements() const;
  friend bool operator==(const Array&, const Array&) = default;
};

// One lane of one step: the arrays of all columns in the stream's order. One for a plain column; values and offsets (int64, from 0, one more
// than there are rows) for the others.
using CellArrays = std::vector<Array>;

}  // namespace headrace
