#include "base/thread_executor.h"

#include <algorithm>
#include <system_error>

namespace headrace {
namespace {

class ThreadSignal final : public Signal {
 public:
  bool WaitUntil(std::unique_lock<std::mutex>& lock, Instant until) override {
    if (until == Instant::max()) {
      wake_.wait(lock);
      return true;
    }
    return wake_.wait_until(lock, until) == std::cv_status::no_timeout;
  }
  void NotifyOne() override { wake_.notify_one(); }
  void NotifyAll() override { wake_.notify_all(); }

 private:
  std::condition_variable wake_;
};

}  // namespace

ThreadExecutor::ThreadExecutor(size_t max_threads) : max_threads_(std::max<size_t>(1, max_threads)) {}

ThreadExecutor::~ThreadExecutor() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  // Work that is still waiting may spawn more: the list grows while it is walked, but never after the last thread ended.
  for (size_t i = 0;; ++i) {
    std::thread thread;
    {
      std::lock_guard lock(mutex_);
      if (i == threads_.size()) return;
      thread = std::move(threads_[i]);
    }
    thread.join();
  }
}

void ThreadExecutor::Spawn(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(work));
  if (idle_ >= waiting_.size() || live_ >= max_threads_) {
    wake_.notify_one();
    return;
  }
  try {
    threads_.emplace_back([this] { Run(); });
    ++live_;
  } catch (const std::system_error&) {
    // The machine has no more threads: the work waits for one of ours. Without any, it would wait for ever.
    if (live_ == 0) throw;
    wake_.notify_one();
  }
}

std::unique_ptr<Signal> ThreadExecutor::MakeSignal() { return std::make_unique<ThreadSignal>(); }

void ThreadExecutor::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (waiting_.empty()) {
      if (closing_) {
        --live_;
        return;
      }
      ++idle_;
      wake_.wait(lock);
      --idle_;
    }
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace headrace
