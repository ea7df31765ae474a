// What an object of Python holds of the C++ library: an open stream and the threads that work for it, in one process.
//
// Calls that may block run on those threads, and the caller waits for them in slices without the GIL: between slices it looks for
// signals, so that Ctrl-C is answered although the work is in C++. `Close` ends the threads. After a fork the child has none of them: every
// use is refused there, and what the parent had is left alone.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "base/thread_executor.h"
#include "headrace/store.h"
#include "raise.h"
#include "store/slow_store.h"
#include "stream/stream_log.h"

namespace headrace::python {

inline constexpr auto kSlice = std::chrono::milliseconds(50);

class Session {
 public:
  explicit Session(std::string what) : what_(std::move(what)), executor_(std::make_unique<ThreadExecutor>()) {}
  ~Session() { Close(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Refuses use after a fork and after `Close`.
  void Check() const;
  bool forked() const { return ::getpid() != pid_; }
  Executor& executor() { return *executor_; }

  // `slow`: the store behaves like a far one, for benchmarks and tests.
  Result<std::shared_ptr<StreamLog>> Open(const std::string& uri, const StorageOptions& storage, const Deadline& deadline,
                                          std::optional<SlowOptions> slow = std::nullopt);

  // Runs `work` on another thread. Needs the GIL; lets go of it while waiting. A signal cancels the work and raises. `work` must own all that it uses.
  template <typename T>
  Result<T> Wait(std::optional<Duration> timeout, std::function<Result<T>(const Deadline&)> work) {
    struct Shared {
      std::mutex mutex;
      std::condition_variable done;
      std::optional<Result<T>> result;
    };
    Check();
    auto shared = std::make_shared<Shared>();
    // Ends with the session, or with the caller.
    std::stop_source stop;
    auto follow =
        std::make_shared<std::stop_callback<std::function<void()>>>(stop_.get_token(), [stop]() mutable { stop.request_stop(); });
    Deadline deadline = timeout ? Deadline::After(RealClock(), *timeout, stop.get_token()) : Deadline::OnlyStop(stop.get_token());
    Spawn([shared, follow, deadline, work = std::move(work)] {
      Result<T> result = work(deadline);
      std::lock_guard lock(shared->mutex);
      shared->result = std::move(result);
      shared->done.notify_all();
    });
    while (true) {
      {
        nb::gil_scoped_release released;
        std::unique_lock lock(shared->mutex);
        if (shared->done.wait_for(lock, kSlice, [&] { return shared->result.has_value(); })) break;
      }
      if (PyErr_CheckSignals() != 0) {
        stop.request_stop();
        throw nb::python_error();
      }
    }
    return *std::move(shared->result);
  }

  // Cancels and waits for everything. Call it without the GIL. Any number of threads may.
  void Close();

 private:
  // Raises if the session was closed meanwhile.
  void Spawn(std::function<void()> work);

  const std::string what_;
  const pid_t pid_ = ::getpid();
  std::stop_source stop_;
  std::atomic<bool> closed_ = false;
  std::mutex mutex_;  // held while the threads are started and ended
  std::unique_ptr<ThreadExecutor> executor_;
};

}  // namespace headrace::python
