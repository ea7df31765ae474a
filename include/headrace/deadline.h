// How long a caller is ready to wait: a point in time, and a way to be called back before it.
//
// Every call that may block takes one. It is a point and not a length, so that it can be handed down unchanged:
// what a callee has left is what its caller had left.
#pragma once

#include <algorithm>
#include <optional>
#include <stop_token>
#include <utility>

#include "headrace/clock.h"
#include "headrace/status.h"

namespace headrace {

class Deadline {
 public:
  // Never passes.
  Deadline() = default;
  explicit Deadline(Instant at, std::stop_token stop = {}) : at_(at), stop_(std::move(stop)) {}
  static Deadline After(Clock& clock, Duration time, std::stop_token stop = {}) {
    return Deadline(Later(clock.Now(), time), std::move(stop));
  }
  static Deadline OnlyStop(std::stop_token stop) { return Deadline(Instant::max(), std::move(stop)); }

  Instant at() const { return at_; }
  const std::stop_token& stop() const { return stop_; }
  bool never() const { return at_ == Instant::max(); }

  // The same caller, but not later than `at`.
  Deadline NotAfter(Instant at) const { return Deadline(std::min(at_, at), stop_); }

  Duration Remaining(Clock& clock) const { return never() ? Duration::max() : std::max(Duration::zero(), at_ - clock.Now()); }

  // Ok while there is time; kCancelled or kTimeout once there is none, saying that `what` was cut short.
  Status Check(Clock& clock, std::string_view what) const;

  // Sleeps for `time` if that ends before the deadline, and fails as `Check` does otherwise; at once, for the time is lost anyway.
  Status Sleep(Clock& clock, Duration time, std::string_view what) const;

 private:
  Instant at_ = Instant::max();
  std::stop_token stop_;
};

}  // namespace headrace
