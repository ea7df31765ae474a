// How long requests of one kind usually take: a quantile of the last few hundred.
//
// Exact over its window, so that it follows a store that becomes slower or faster. Not thread-safe. A sample costs a
// store into a ring, and every sixteenth a partial sort of it.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "headrace/clock.h"

namespace headrace {

class LatencyEstimate {
 public:
  void Add(Duration sample, double quantile) {
    ring_[count_++ % kWindow] = sample;
    if (count_ % 16 == 0) Update(quantile);
  }
  size_t count() const { return count_; }
  // Nothing before the sixteenth sample.
  std::optional<Duration> value() const { return value_; }

 private:
  static constexpr size_t kWindow = 256;

  void Update(double quantile) {
    size_t filled = std::min(count_, kWindow);
    std::array<Duration, kWindow> sorted = ring_;
    auto at = sorted.begin() + static_cast<std::ptrdiff_t>(quantile * static_cast<double>(filled - 1));
    std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(filled));
    value_ = *at;
  }

  std::array<Duration, kWindow> ring_{};
  size_t count_ = 0;
  std::optional<Duration> value_;
};

}  // namespace headrace
