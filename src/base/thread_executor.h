// An executor of real threads on the machine's own clock.
//
// Work may block for as long as it likes, so there is a thread for each piece that runs; idle threads are used again.
#pragma once

#include <condition_variable>
#include <deque>
#include <thread>
#include <vector>

#include "base/executor.h"

namespace headrace {

class ThreadExecutor final : public Executor {
 public:
  // At most `max_threads` at once; what comes on top waits for its turn.
  explicit ThreadExecutor(size_t max_threads = 4096);
  ~ThreadExecutor() override;

  Clock& clock() override { return RealClock(); }
  void Spawn(std::function<void()> work) override;
  std::unique_ptr<Signal> MakeSignal() override;

 private:
  void Run();

  const size_t max_threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::thread> threads_;
  size_t live_ = 0;  // of `threads_`, those that have not ended; before the destructor, all
  size_t idle_ = 0;
  bool closing_ = false;
};

}  // namespace headrace
