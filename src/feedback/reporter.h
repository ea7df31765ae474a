// Takes what a training loop says of its steps, and writes it down in the background (docs/design/0008-feedback.md).
//
// `Add` never waits for the store, but for the name of a source that is new to this process (source_names.h). What was added is written
// a while later: one object for each flush. A flush that fails is repeated, with the same key and bytes, until it is done; meanwhile what
// comes is kept, up to a limit, and dropped beyond that.
//
// Thread-safe. Begins with its first report: until then there is no thread and no request.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/metrics.h"
#include "feedback/report.h"
#include "feedback/source_names.h"
#include "stream/stream_log.h"

namespace headrace {

class Reporter : public std::enable_shared_from_this<Reporter> {
 public:
  struct Options {
    std::string reader = "train";
    Duration every = std::chrono::seconds(10);
    size_t flush_bytes = 256'000;  // written at once when so much waits
    size_t buffer_bytes = 4'000'000;  // more is dropped
    size_t max_series = 1000;  // names that become metrics of the process
  };
  // How long a job of so many processes lets reports wait: the store sees an object from each of them every so often.
  static Duration EveryFor(uint64_t processes);

  static std::shared_ptr<Reporter> Make(std::shared_ptr<StreamLog> log, Executor& executor, Options options);

  // kInvalidArgument if it makes no sense; nothing is kept then. Fills in the time.
  Status Add(Report report);

  // Writes what is left, for so long at the most, and ends the work. Nothing can be added afterwards.
  void Close(Duration patience);

  struct Counts {
    uint64_t reports = 0;  // accepted, those that were dropped not counted
    uint64_t written = 0;
    uint64_t waiting = 0;
    uint64_t dropped = 0;
    uint64_t failures = 0;  // attempts to write that came to nothing
    uint64_t last_step = 0;
  };
  Counts counts() const;

 private:
  struct Flush {
    FeedbackKey key;
    std::string text;
    size_t reports = 0;
    size_t bytes = 0;
  };

  Reporter(std::shared_ptr<StreamLog> log, Executor& executor, Options options);
  static Status CheckWords(const Report& report);
  void Start();  // with the mutex held
  void Run();
  // When to write what waits.
  Instant Due() const;
  // Everything that waits becomes objects, with the mutex held.
  void Cut();
  Status Write(const Flush& flush);
  void Show(const Report& report);  // with the mutex held
  Gauge* Series(const char* metric, const char* help, const char* label, const std::string& name);

  std::shared_ptr<StreamLog> log_;
  Executor& executor_;
  const Options options_;
  std::shared_ptr<SourceNames> sources_;
  std::stop_source stop_;

  mutable std::mutex mutex_;
  std::unique_ptr<Signal> changed_;
  FeedbackSession session_;
  bool started_ = false;
  bool closing_ = false;
  bool ended_ = false;
  bool said_full_ = false;
  bool said_failed_ = false;
  std::vector<Report> waiting_;
  std::deque<Flush> flushes_;  // their bytes are fixed
  size_t bytes_ = 0;  // of both
  uint64_t next_number_ = 0;
  Instant oldest_{};  // since when something waits
  Instant not_before_{};  // after a failure
  Duration wait_{};  // of this flush
  Counts counts_;
  std::map<std::string, Gauge*> series_;
};

}  // namespace headrace
