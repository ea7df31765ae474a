// When a committer among many should try, from what it sees alone: its own attempt times, its own losses, and how many rivals are active.
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

  // Whether changes are posted as intents first.
  bool Combines(size_t rivals) const { return discipline_ == Discipline::kCombine && rivals > 0; }
  // How long to wait before the next attempt.
  Duration BeforeAttempt(size_t rivals);

  // An attempt took so long, and was the one or not.
  void Landed(Duration took);
  void Lost(Duration took);
  // A rival carried the change before it was this committer's turn.
  void Carried();

 private:
  void Learn(Duration took);

  Discipline discipline_;
  Random random_;
  double attempt_seconds_ = 0.05;
  double spread_ = 1;  // how many attempt times to wait at the most, under kCombine
  int losses_ = 0;
};

}  // namespace headrace
