#include "load/step_ranges.h"

#include <algorithm>

namespace headrace {

void StepRanges::Add(uint64_t first, uint64_t end) {
  if (first >= end) return;
  std::vector<std::pair<uint64_t, uint64_t>> merged;
  for (const auto& range : ranges_) {
    if (range.second < first || range.first > end) {
      merged.push_back(range);
    } else {
      first = std::min(first, range.first);
      end = std::max(end, range.second);
    }
  }
  merged.emplace_back(first, end);
  std::ranges::sort(merged);
  ranges_ = std::move(merged);
}

uint64_t StepRanges::NotIn(uint64_t step) const {
  for (const auto& [first, end] : ranges_) {
    if (step < first) return step;
    if (step < end) return end;
  }
  return step;
}

uint64_t StepRanges::CountIn(uint64_t first, uint64_t end) const {
  uint64_t count = 0;
  for (const auto& range : ranges_) {
    uint64_t from = std::max(first, range.first);
    uint64_t to = std::min(end, range.second);
    if (from < to) count += to - from;
  }
  return count;
}

}  // namespace headrace
