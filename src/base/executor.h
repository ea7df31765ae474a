// Who runs things side by side: threads in earnest (thread_executor.h), or one thread and virtual time (simulation.h).
//
// Code that may be simulated starts work with `Spawn`, waits with `Signal` or through `clock()`, and never blocks in any
// other way. A mutex must not be held across a call that may block: in a simulation everybody shares one thread.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>

#include "headrace/clock.h"

namespace headrace {

// A condition variable that both kinds of executor understand. Wakes may be spurious: wait in a loop.
class Signal {
 public:
  virtual ~Signal() = default;
  // Lets go of the lock, waits for a notification or the time, takes the lock again. False if the time has come.
  virtual bool WaitUntil(std::unique_lock<std::mutex>& lock, Instant until) = 0;
  // For destructors: a simulated process that is killed meanwhile goes on, as a dead one, until its next wait of another kind.
  // What it waits for must come about even if the work that does it is cut short: count down in a destructor too.
  virtual void WaitInDestructor(std::unique_lock<std::mutex>& lock) { Wait(lock); }
  virtual void NotifyOne() = 0;
  virtual void NotifyAll() = 0;

  void Wait(std::unique_lock<std::mutex>& lock) { WaitUntil(lock, Instant::max()); }
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual Clock& clock() = 0;
  // Runs `work` beside the caller. Work must end by itself: the executor waits for all of it when it goes.
  virtual void Spawn(std::function<void()> work) = 0;
  virtual std::unique_ptr<Signal> MakeSignal() = 0;
};

// Pieces of work that somebody waits for together.
//
// `Wait` returns when every piece has run and what it captured is gone. A piece that will never run, because its simulated process
// was killed, counts as done. Not thread-safe: one owner spawns and waits. The destructor waits too.
class TaskGroup {
 public:
  explicit TaskGroup(Executor& executor);
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  void Spawn(std::function<void()> work);
  void Wait();

 private:
  struct State {
    std::mutex mutex;
    std::unique_ptr<Signal> signal;
    int running = 0;
  };
  class Task;
  Executor& executor_;
  std::shared_ptr<State> state_;
};

}  // namespace headrace
