#include "log/pace.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"

namespace headrace {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"combine", "pace", "backoff", "fixed"};
constexpr double kFixedSeconds = 1.0;
constexpr double kMaxBackoffSeconds = 20.0;

Duration Seconds(double seconds) { return Duration(static_cast<int64_t>(seconds * 1e9)); }

}  // namespace

std::string_view DisciplineName(Discipline discipline) { return kNames[static_cast<size_t>(discipline)]; }

Result<Discipline> ParseDiscipline(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Discipline>(i);
  }
  return Status(Code::kInvalidArgument, Cat("there is no discipline \"", name, "\": combine, pace, backoff and fixed"));
}

Duration Pace::BeforeAttempt(size_t rivals) {
  switch (discipline_) {
    case Discipline::kCombine: return Duration::zero();
    case Discipline::kPace: return Seconds(random_.Uniform() * static_cast<double>(rivals) * attempt_seconds_);
    case Discipline::kBackoff:
      return losses_ == 0
                 ? Duration::zero()
                 : Seconds(random_.Uniform() * std::min(kMaxBackoffSeconds, attempt_seconds_ * std::exp2(std::min(losses_, 20))));
    case Discipline::kFixed: return Seconds(losses_ == 0 ? 0 : kFixedSeconds * random_.Uniform(0.9, 1.1));
  }
  return Duration::zero();
}

void Pace::Learn(Duration took) { attempt_seconds_ += 0.2 * (std::chrono::duration<double>(took).count() - attempt_seconds_); }

void Pace::Landed(Duration took, size_t carried) {
  Learn(took);
  losses_ = 0;
  crowded_ = carried > 0;
}

void Pace::Lost(Duration took) {
  Learn(took);
  ++losses_;
}

void Pace::Carried() {
  losses_ = 0;
  crowded_ = true;
}

}  // namespace headrace
