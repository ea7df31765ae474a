// Growing pauses with decorrelated jitter: each is drawn between the base and three times the one before, up to a cap.
//
// Writers that failed together come back apart, and stay apart. Not thread-safe: one per call.
#pragma once

#include <algorithm>
#include <optional>

#include "base/random.h"
#include "headrace/clock.h"

namespace headrace {

class Backoff {
 public:
  Backoff(Duration base, Duration cap) : base_(base), cap_(cap), last_(base) {}

  // The next pause; behind `asked`, if the other side said when to come back: never sooner, and not all at that moment.
  Duration Next(Random& random, std::optional<Duration> asked = {}) {
    double low = static_cast<double>(base_.count());
    double high = std::max(low, 3 * static_cast<double>(last_.count()));
    last_ = std::min(cap_, Duration(static_cast<Duration::rep>(random.Uniform(low, high))));
    return last_ + std::max(Duration::zero(), asked.value_or(Duration::zero()));
  }

 private:
  const Duration base_;
  const Duration cap_;
  Duration last_;
};

}  // namespace headrace
