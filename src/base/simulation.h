// A whole run on one thread, in virtual time, from a seed.
//
// Every piece of spawned work is a fiber: ordinary blocking code on a stack of its own. A fiber runs until it sleeps or waits;
// then the next one in virtual time runs, ties broken by the seed. So the same seed gives the same run, a minute of sleeping costs
// nothing, and a different seed gives a different interleaving.
//
// Fibers belong to simulated processes. `Kill` ends one the way SIGKILL does: its fibers never run another line of their own.
// Their stacks are unwound, the youngest first (with an exception that nobody may catch), only to give memory back; what destructors
// do meanwhile must not reach others, so a store that models the outside world asks `Unwinding()` and does nothing if so. A sleep in
// a destructor takes no time then. A fiber that was killed while a destructor waited cannot be unwound, because no exception may
// leave a destructor: it is left where it is, with what it owns. `Signal::WaitInDestructor` avoids that; `TaskGroup` uses it.
//
// Code that may run here must not hold a mutex across a wait, catch everything (`catch (...)`), or keep thread-local state.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/random.h"

namespace headrace {

class Simulation final : public Executor, public Clock {
 public:
  using ProcessId = uint64_t;
  static constexpr ProcessId kMain = 0;

  explicit Simulation(uint64_t seed);
  ~Simulation() override;

  // Runs until nothing is left to do. Work that waits for a signal that nobody can send any more is left behind: `stuck()` counts it.
  void Run() { RunUntil(Instant::max()); }
  // The same, but not beyond `until`. True if there is nothing left to do.
  bool RunUntil(Instant until);
  // Runs `body` as a fiber of kMain until it and all others are done; for tests.
  void Run(std::function<void()> body);

  // Work of a new process. Its children by `Spawn` belong to it.
  ProcessId Start(std::string name, std::function<void()> body);
  void Kill(ProcessId process);
  bool Alive(ProcessId process) const;
  ProcessId current() const;
  // True while the running fiber is one of a killed process, which is only there to be unwound.
  bool Unwinding() const;

  // Shifts what `WallNow` says for everybody, as an operator or NTP would.
  void JumpWallClock(Duration by) { wall_offset_ += by; }

  // A hash of everything that has run so far, in order: equal runs have equal fingerprints.
  uint64_t fingerprint() const { return fingerprint_; }
  void MixIntoFingerprint(uint64_t value);
  size_t stuck() const;
  Random& random() { return random_; }

  // Executor
  Clock& clock() override { return *this; }
  void Spawn(std::function<void()> work) override;
  std::unique_ptr<Signal> MakeSignal() override;

  // Clock
  Instant Now() override { return now_; }
  WallTime WallNow() override;
  void SleepUntil(Instant until, std::stop_token stop = {}) override;

 private:
  friend class SimulatedSignal;
  struct Fiber;
  struct Waiters;
  struct Wake {
    Instant at;
    uint64_t tie;  // random, so that the seed decides who is first
    uint64_t order;
    uint64_t fiber;
    uint64_t generation;  // a wake for an earlier wait of the fiber is stale
    bool operator>(const Wake& other) const;
  };

  Fiber* NewFiber(ProcessId process, std::function<void()> work);
  void PrepareContext(Fiber& fiber);
  void Schedule(Fiber& fiber, Instant at);
  // Throws `Killed` if the running fiber's process is dead.
  void LeaveIfDead();
  static void OnTerminate();
  bool Stale(const Wake& wake) const;
  void Resume(Fiber& fiber);
  static void Entry(unsigned high, unsigned low);
  // Lets the others run until a wake for the running fiber comes.
  void SwitchOut();

  Random random_;
  Instant now_{};
  Duration wall_offset_{};
  uint64_t fingerprint_ = 1469598103934665603ull;
  uint64_t next_fiber_ = 1;
  uint64_t next_process_ = 1;
  uint64_t next_order_ = 0;
  std::map<uint64_t, std::unique_ptr<Fiber>> fibers_;
  std::set<ProcessId> dead_;
  std::vector<std::unique_ptr<Fiber>> spare_;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  Fiber* running_ = nullptr;
};

}  // namespace headrace
