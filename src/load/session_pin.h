// A training job's hold on its stream, from its start until its first checkpoint has a pin of its own.
//
// The pin has a term: it is renewed in the background, and expires by itself some time after the process died. A store that may only be
// read is no reason to stop training: it is said once, and the job goes on without a hold.
//
// Thread-safe. `Stop` before it goes.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "base/executor.h"
#include "stream/stream_log.h"

namespace headrace {

class SessionPin : public std::enable_shared_from_this<SessionPin> {
 public:
  static constexpr Duration kTerm = std::chrono::minutes(10);

  // Begins to hold `step` and all that follow.
  static std::shared_ptr<SessionPin> Start(std::shared_ptr<StreamLog> log, Executor& executor, uint64_t step,
                                           Duration term = kTerm);

  // Ends the renewal. Returns when nothing more is written. True if the pin may stand in the stream.
  bool Stop();

  const std::string& name() const { return name_; }

 private:
  SessionPin(std::shared_ptr<StreamLog> log, Executor& executor, uint64_t step, Duration term);
  void Hold();
  Status Pin();

  std::shared_ptr<StreamLog> log_;
  const uint64_t step_;
  const Duration term_;
  const std::string name_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::unique_ptr<Signal> changed_;
  bool running_ = true;
  bool held_ = false;
};

}  // namespace headrace
