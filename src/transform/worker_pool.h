// Python processes that transform batches for us.
//
// They are spawned (never forked to run Python), run python/headrace/_worker.py, and get and give record batches as Arrow IPC in memfds over one socket
// each. A worker that crashed or hung is gone after the call that found out; the next call starts another one. All of them end with the
// pool, and with this process however it ends.
//
// A call takes one worker for itself and waits while all are busy, so that at most `workers` batches are on their way at any time.
// Thread-safe. Starting one takes about as long as Python needs to import pyarrow and the user's modules.
#pragma once

#include <arrow/record_batch.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "headrace/result.h"

namespace headrace {

struct WorkerOptions {
  std::string python = "python3";
  std::map<std::string, std::string> environment;  // beyond our own
  nlohmann::json purpose;  // the first message: what the workers are for
  std::string what;  // "the python transform fix:fix", for messages
  uint32_t workers = 1;
  double timeout_seconds = 60;  // for one call
  double start_timeout_seconds = 300;  // importing torch over a network file system is slow
};

// Why a call brought nothing.
struct WorkerFailure {
  enum Kind {
    kRefused,  // what came back is not what has to come back
    kRaised,  // an exception
    kCrashed,
    kHung,  // no answer in time
  };
  Kind kind;
  std::string error;  // one line
  std::string traceback;  // of Python; may be empty
};

struct WorkerAnswer {
  nlohmann::json message;
  std::shared_ptr<arrow::RecordBatch> batch;
  std::optional<WorkerFailure> failure;  // then there is nothing else
};

class WorkerProcess;

class WorkerPool {
 public:
  // Starts the first one, to know that it can.
  static Result<std::unique_ptr<WorkerPool>> Start(WorkerOptions options);
  ~WorkerPool();

  // What the first one answered about itself: fingerprints, vocabulary.
  const nlohmann::json& about() const { return about_; }

  // An error is about our own machinery (no memory, no process); what the worker did wrong is in the answer.
  Result<WorkerAnswer> Call(const nlohmann::json& request, const std::shared_ptr<arrow::RecordBatch>& batch = nullptr);

 private:
  explicit WorkerPool(WorkerOptions options);
  Result<std::unique_ptr<WorkerProcess>> Spawn();
  Result<std::unique_ptr<WorkerProcess>> Acquire();
  void Release(std::unique_ptr<WorkerProcess> worker);

  const WorkerOptions options_;
  nlohmann::json about_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<WorkerProcess>> idle_;
  uint32_t alive_ = 0;

  // The kernel kills a worker when the *thread* that made it ends (PR_SET_PDEATHSIG), so one thread makes them all and stays.
  std::queue<std::function<void()>> to_spawn_;
  bool ending_ = false;
  std::thread spawner_;
};

}  // namespace headrace
