// When a committer among many should try, from what it sees alone: its own attempt times, its own losses, who carried its changes, and how
// many rivals are active.
//
// No message passes between committers. `kCombine` is what streams use; the others are there to be compared with it (bench/commit_bench).
//
// Not thread-safe: one committer, one pace.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "headrace/clock.h"
#include "headrace/result.h"

namespace headrace {

enum class Discipline {
  kCombine,  // post the change as an intent; whoever commits next carries all
  kPace,  // no intents; spread attempts over as many attempt times as there are rivals
  kBackoff,  // no intents; wait twice as long after each loss
  kFixed,  // no intents; one attempt an interval
};
std::string_view DisciplineName(Discipline discipline);
Result<Discipline> ParseDiscipline(std::string_view name);

class Pace {
 public:
  Pace(Discipline discipline, Random random) : discipline_(discipline), random_(random) {}

  // Whether changes may be carried by others, and theirs by us.
  bool Combines(size_t rivals) const { return discipline_ == Discipline::kCombine && rivals > 0; }
  // Whether somebody seems to be carrying everybody's changes just now: then post and wait rather than try.
  bool Crowded() const { return crowded_ || losses_ > 1; }

  // How long to wait before the next attempt. Under kCombine: nothing; what follows says when to look instead.
  Duration BeforeAttempt(size_t rivals);
  // From posting a change until it should have been carried, and between further looks.
  Duration FirstLook() { return Attempts(random_.Uniform(kFirstLook, kFirstLook + 0.5)); }
  Duration NextLook() { return Attempts(random_.Uniform(kNextLook, kNextLook + 0.5)); }
  // From posting a change until whoever carries others' changes is taken for gone. Random, so that few try at once.
  Duration Patience() { return Attempts(random_.Uniform(kPatience, 2 * kPatience)); }
  // From one manifest to the next, for whoever carries others' changes.
  Duration Turn() const { return Attempts(kTurn); }
  // Within this time hardly anything can have changed.
  Duration Blink() const { return Attempts(0.25); }

  // An attempt took so long, and was the one or not. `carried`: how many changes of others came with it.
  void Landed(Duration took, size_t carried);
  void Lost(Duration took);
  // A small put took so long.
  void Posted(Duration took) { Learn(took + took / 3); }
  // A rival carried the change before it was this committer's turn.
  void Carried();
  // Nobody else had anything to carry.
  void Alone() { crowded_ = false; }

 private:
  // In attempt times.
  static constexpr double kTurn = 2;
  static constexpr double kFirstLook = 3;
  static constexpr double kNextLook = 1.5;
  static constexpr double kPatience = 4.5;

  void Learn(Duration took);
  Duration Attempts(double count) const { return Duration(static_cast<int64_t>(count * attempt_seconds_ * 1e9)); }

  Discipline discipline_;
  Random random_;
  double attempt_seconds_ = 0.05;
  bool crowded_ = false;
  int losses_ = 0;
};

}  // namespace headrace
