// The time of one simulated process, as its machine has it: apart from everybody else's, and jumping.
//
// The calendar jumps forwards and backwards, as an operator or a time service makes it. `Now` leaps forwards, as that of a machine that was
// suspended; it never goes back, which is what a clock promises. Whoever sleeps while it leaps wakes when he would have.
#pragma once

#include "base/simulation.h"
#include "headrace/deadline.h"

namespace headrace {

class ProcessTime final : public Executor, public Clock {
 public:
  // Starts up to ten years away from everybody else.
  ProcessTime(Simulation& simulation, Random random) : simulation_(simulation), random_(random) {
    ahead_ = std::chrono::hours(static_cast<int64_t>(random_.Below(10 * 365 * 24)));
    Jump();
  }

  // Seconds, hours or days; the calendar in either direction.
  void Jump();
  // What others understand by a deadline of this process.
  Deadline ForOthers(const Deadline& own) const { return own.never() ? own : Deadline(own.at() - ahead_, own.stop()); }

  Clock& clock() override { return *this; }
  void Spawn(std::function<void()> work) override { simulation_.Spawn(std::move(work)); }
  std::unique_ptr<Signal> MakeSignal() override;

  Instant Now() override { return simulation_.Now() + ahead_; }
  WallTime WallNow() override { return simulation_.WallNow() + calendar_; }
  void SleepUntil(Instant until, std::stop_token stop = {}) override { simulation_.SleepUntil(ToOthers(until), std::move(stop)); }

 private:
  class OwnSignal;
  Instant ToOthers(Instant own) const { return own == Instant::max() ? own : own - ahead_; }

  Simulation& simulation_;
  Random random_;
  Duration ahead_{};
  Duration calendar_{};
};

}  // namespace headrace
