// Which lanes of a stream a data-parallel rank reads: neighbouring ones, so that they are one range of every chunk.
#pragma once

#include <cstdint>

#include "headrace/result.h"

namespace headrace {

struct LaneRange {
  uint32_t first = 0;
  uint32_t end = 1;

  uint32_t count() const { return end - first; }
  friend bool operator==(const LaneRange&, const LaneRange&) = default;
};

// The lanes of `rank` among `size`. Every lane belongs to exactly one rank, whatever the size. If `size` does not divide the lanes,
// shares differ by one lane, and the caller must have said that it wants that (`uneven`).
Result<LaneRange> LanesOfRank(uint32_t lanes, uint64_t rank, uint64_t size, bool uneven);

}  // namespace headrace
