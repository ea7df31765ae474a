// One Python process and the socket to it; see worker_pool.h, which is what others use.
#pragma once

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "transform/worker_pool.h"

namespace headrace {

// The text of python/headrace/_worker.py, compiled in: a producer and its workers are always of the same version.
std::string_view WorkerSource();

// Of the messages; the same as in _worker.py.
inline constexpr int kWorkerVersion = 1;

class WorkerProcess {
 public:
  // The calling thread has to live as long as the process is wanted.
  static Result<std::unique_ptr<WorkerProcess>> Start(const WorkerOptions& options);
  ~WorkerProcess();

  Result<WorkerAnswer> Call(const nlohmann::json& request, const std::shared_ptr<arrow::RecordBatch>& batch,
                            double timeout_seconds);
  // False after a crash or a hang: it is of no use any more.
  bool alive() const { return pid_ > 0; }
  // Asks it to end, without waiting.
  void Dismiss();

 private:
  WorkerProcess(pid_t pid, int socket, int stacks) : pid_(pid), socket_(socket), stacks_(stacks) {}
  Status Send(const nlohmann::json& request, const std::shared_ptr<arrow::RecordBatch>& batch);
  Result<WorkerAnswer> Receive();
  std::string Stacks() const;
  // Ends it, and says how it ended.
  WorkerFailure Crashed();
  WorkerFailure Hung(double timeout_seconds);
  int Reap(int grace_milliseconds);

  pid_t pid_;
  int socket_;
  int stacks_;  // a memfd: the Python stacks of a crash or a hang
};

}  // namespace headrace
