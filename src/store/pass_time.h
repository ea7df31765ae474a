// Time that passes inside a pretended store: the caller waits for it until its deadline, as it would for a real one.
#pragma once

#include "headrace/deadline.h"

namespace headrace {

// Ok after `time`; kTimeout at the deadline or kCancelled at the stop, if they come first. (`Deadline::Sleep` would not even begin.)
inline Status PassTime(Clock& clock, const Deadline& deadline, Duration time, std::string_view what) {
  Instant end = clock.Now() + time;
  clock.SleepUntil(std::min(end, deadline.at()), deadline.stop());
  if (end < deadline.at() && !deadline.stop().stop_requested()) return {};
  return deadline.Check(clock, what);
}

}  // namespace headrace
