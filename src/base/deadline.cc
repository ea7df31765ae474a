#include "headrace/deadline.h"

#include "base/text.h"
#include "headrace/result.h"

namespace headrace {

Status Deadline::Check(Clock& clock, std::string_view what) const {
  if (stop_.stop_requested()) return Status(Code::kCancelled, Cat(what, ": asked to stop"));
  if (!never() && clock.Now() >= at_) return Status(Code::kTimeout, Cat(what, ": out of time"));
  return {};
}

Status Deadline::Sleep(Clock& clock, Duration time, std::string_view what) const {
  HR_RETURN_IF_ERROR(Check(clock, what));
  if (!never() && Later(clock.Now(), time) >= at_) return Status(Code::kTimeout, Cat(what, ": out of time"));
  clock.SleepFor(time, stop_);
  return Check(clock, what);
}

}  // namespace headrace
