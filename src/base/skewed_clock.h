// A clock whose calendar is wrong, as that of a machine without time service: for tests of signatures and expiry.
//
// Only `WallNow` is shifted. `Now` is nobody's calendar and cannot be wrong. Thread-safe.
#pragma once

#include <atomic>

#include "headrace/clock.h"

namespace headrace {

class SkewedClock final : public Clock {
 public:
  SkewedClock(Clock& inner, Duration ahead) : inner_(inner), ahead_(ahead.count()) {}

  // From now on; negative for a clock that is behind.
  void Set(Duration ahead) { ahead_ = ahead.count(); }

  Instant Now() override { return inner_.Now(); }
  WallTime WallNow() override { return inner_.WallNow() + Duration(ahead_.load()); }
  void SleepUntil(Instant until, std::stop_token stop = {}) override { inner_.SleepUntil(until, std::move(stop)); }

 private:
  Clock& inner_;
  std::atomic<Duration::rep> ahead_;
};

}  // namespace headrace
