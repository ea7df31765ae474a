#include "transform/worker_pool.h"

#include <future>
#include <utility>

#include "base/text.h"
#include "transform/worker_process.h"

namespace headrace {

WorkerPool::WorkerPool(WorkerOptions options) : options_(std::move(options)) {
  spawner_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !to_spawn_.empty(); });
      if (to_spawn_.empty()) return;
      auto task = std::move(to_spawn_.front());
      to_spawn_.pop();
      lock.unlock();
      task();
      lock.lock();
    }
  });
}

WorkerPool::~WorkerPool() {
  // All are asked before the first is waited for.
  for (auto& worker : idle_) worker->Dismiss();
  idle_.clear();
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  spawner_.join();
}

Result<std::unique_ptr<WorkerPool>> WorkerPool::Start(WorkerOptions options) {
  options.purpose["version"] = kWorkerVersion;
  std::unique_ptr<WorkerPool> pool(new WorkerPool(std::move(options)));
  HR_ASSIGN_OR_RETURN(auto worker, pool->Acquire());
  pool->Release(std::move(worker));
  return pool;
}

Result<std::unique_ptr<WorkerProcess>> WorkerPool::Spawn() {
  std::promise<Result<std::unique_ptr<WorkerProcess>>> made;
  auto worker_made = made.get_future();
  {
    std::lock_guard lock(mutex_);
    to_spawn_.push([&] { made.set_value(WorkerProcess::Start(options_)); });
  }
  changed_.notify_all();
  HR_ASSIGN_OR_RETURN(auto worker, worker_made.get());
  HR_ASSIGN_OR_RETURN(WorkerAnswer answer, worker->Call(options_.purpose, nullptr, options_.start_timeout_seconds));
  if (answer.failure) {
    const WorkerFailure& failure = *answer.failure;
    std::string hint =
        failure.kind == WorkerFailure::kCrashed ? Cat(" Does `", options_.python, " -c 'import pyarrow'` work?") : "";
    return Status(Code::kInvalidArgument, Cat("cannot start a worker process for ", options_.what, ": ", failure.error, hint,
                                              failure.traceback.empty() ? "" : "\n", failure.traceback));
  }
  std::lock_guard lock(mutex_);
  if (about_.is_null()) about_ = std::move(answer.message);
  return worker;
}

Result<std::unique_ptr<WorkerProcess>> WorkerPool::Acquire() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !idle_.empty() || alive_ < std::max(1u, options_.workers); });
  if (!idle_.empty()) {
    auto worker = std::move(idle_.back());
    idle_.pop_back();
    return worker;
  }
  alive_++;
  lock.unlock();
  auto worker = Spawn();
  if (!worker.ok()) Release(nullptr);
  return worker;
}

void WorkerPool::Release(std::unique_ptr<WorkerProcess> worker) {
  {
    std::lock_guard lock(mutex_);
    if (worker && worker->alive()) {
      idle_.push_back(std::move(worker));
    } else {
      alive_--;
    }
  }
  changed_.notify_all();
}

Result<WorkerAnswer> WorkerPool::Call(const nlohmann::json& request, const std::shared_ptr<arrow::RecordBatch>& batch) {
  HR_ASSIGN_OR_RETURN(auto worker, Acquire());
  auto answer = worker->Call(request, batch, options_.timeout_seconds);
  // After an error of our own nobody knows what is still in the socket.
  if (!answer.ok()) worker.reset();
  Release(std::move(worker));
  return answer;
}

}  // namespace headrace
