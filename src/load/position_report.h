// Where a training job is, written down every few seconds in a small object of the stream, status/loader-<id>.
//
// Producers keep a lead over the slowest job that trains, and people see who reads. Nothing depends on it for safety: a report that cannot be
// written is tried again later and otherwise forgotten, and one whose counter stands still counts as nobody's.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "base/executor.h"
#include "stream/stream_log.h"

namespace headrace {

class PositionReport {
 public:
  struct Options {
    std::string id;
    std::string reader;  // train, eval
    Duration every = std::chrono::seconds(2);
  };
  // `next_step` is asked on another thread, until that has ended.
  static std::shared_ptr<PositionReport> Start(std::shared_ptr<StreamLog> log, Executor& executor, Options options,
                                               std::function<uint64_t()> next_step);
  // Ends it soon, and takes the object away if that is quickly done.
  void Stop() { stop_.request_stop(); }

  static std::string Key(const std::string& id) { return "status/loader-" + id; }

 private:
  std::stop_source stop_;
};

}  // namespace headrace
