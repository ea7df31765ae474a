// A set of steps, as ranges: those that a person told the loader to leave out.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace headrace {

class StepRanges {
 public:
  // Adds [first, end); nothing if it is empty.
  void Add(uint64_t first, uint64_t end);
  bool Contains(uint64_t step) const { return NotIn(step) != step; }
  // The first step at or after `step` that is not in the set.
  uint64_t NotIn(uint64_t step) const;
  // How many steps of [first, end) are in the set.
  uint64_t CountIn(uint64_t first, uint64_t end) const;

  // Ascending, apart from each other, none empty.
  const std::vector<std::pair<uint64_t, uint64_t>>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }

 private:
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;
};

}  // namespace headrace
