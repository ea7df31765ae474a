// Time as a thing that is passed in.
//
// Nothing in Headrace reads the clock of the machine by itself, so that a whole run can be simulated (base/simulation.h)
// and time is never needed for safety, only for pace. `Now` never goes back and says nothing about the calendar;
// `WallNow` is the calendar, and may jump.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <stop_token>

namespace headrace {

using Duration = std::chrono::nanoseconds;
using Instant = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;

// `from` + `by`, but never beyond the end of time: "for ever" may be added to any point.
constexpr Instant Later(Instant from, Duration by) {
  bool beyond = from > Instant{} && by > Instant::max() - from;
  return beyond ? Instant::max() : from + by;
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant Now() = 0;
  virtual WallTime WallNow() = 0;
  // Returns at `until`, or as soon as `stop` asks for it.
  virtual void SleepUntil(Instant until, std::stop_token stop = {}) = 0;

  void SleepFor(Duration time, std::stop_token stop = {}) { SleepUntil(Later(Now(), time), std::move(stop)); }
};

// The machine's own clock.
Clock& RealClock();

}  // namespace headrace
