#include "store/measure_level.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>

namespace headrace {
namespace {

constexpr Duration kBetweenLooks = std::chrono::milliseconds(100);

double Seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

// The smallest value that at least `share` of all are not above.
Duration Percentile(const std::vector<Duration>& sorted, double share) {
  if (sorted.empty()) return {};
  auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

// Shared with the workers: the last of them may still be notifying when the caller has gone on.
struct Shared {
  std::mutex mutex;
  std::unique_ptr<Signal> signal;
  size_t running = 0;
  Instant last_end;
  std::vector<Duration> durations;
  Status failure;
  std::atomic<uint64_t> next = 0;
  std::atomic<uint64_t> answered = 0;
  std::atomic<uint64_t> bytes = 0;
  std::atomic<bool> failed = false;
};

void Work(Shared& shared, const MeasureLevelPlan& plan, Clock& clock, size_t worker) {
  std::vector<Duration> durations;
  Instant end = clock.Now();
  Status failure;
  for (bool first = true; first || end < plan.until; first = false) {
    uint64_t number = shared.next.fetch_add(1);
    if (number >= plan.requests || shared.failed) break;
    Instant begin = clock.Now();
    Result<uint64_t> moved = plan.request(number, worker);
    end = clock.Now();
    if (!moved.ok()) {
      failure = moved.status();
      shared.failed = true;
      break;
    }
    durations.push_back(end - begin);
    shared.answered.fetch_add(1, std::memory_order_relaxed);
    shared.bytes.fetch_add(*moved, std::memory_order_relaxed);
  }
  std::lock_guard lock(shared.mutex);
  std::ranges::move(durations, std::back_inserter(shared.durations));
  if (shared.failure.ok()) shared.failure = std::move(failure);
  if (!durations.empty()) shared.last_end = std::max(shared.last_end, end);
  if (--shared.running == 0) shared.signal->NotifyAll();
}

}  // namespace

double MeasureLevel::requests_per_second() const {
  return time > Duration::zero() ? static_cast<double>(requests) / Seconds(time) : 0;
}
double MeasureLevel::bytes_per_second() const { return time > Duration::zero() ? static_cast<double>(bytes) / Seconds(time) : 0; }

MeasureLevelOutcome RunMeasureLevel(Executor& executor, const MeasureLevelPlan& plan) {
  Clock& clock = executor.clock();
  auto shared = std::make_shared<Shared>();
  shared->signal = executor.MakeSignal();
  const Instant begin = clock.Now();
  shared->last_end = begin;
  const size_t workers = std::min<uint64_t>(plan.concurrency, plan.requests);
  shared->running = workers;
  for (size_t worker = 0; worker < workers; ++worker) {
    executor.Spawn([shared, &plan, &clock, worker] { Work(*shared, plan, clock, worker); });
  }
  MeasureLevelOutcome outcome;
  MeasureLevel& level = outcome.level;
  level.concurrency = plan.concurrency;
  std::unique_lock lock(shared->mutex);
  while (shared->running > 0) {
    shared->signal->WaitUntil(lock, clock.Now() + kBetweenLooks);
    if (shared->running == 0 || !plan.watch) continue;
    lock.unlock();
    MeasureLevel so_far{
        .concurrency = plan.concurrency, .requests = shared->answered, .bytes = shared->bytes, .time = clock.Now() - begin};
    plan.watch(so_far);
    lock.lock();
  }
  std::vector<Duration>& durations = shared->durations;
  std::ranges::sort(durations);
  level.requests = shared->answered;
  level.bytes = shared->bytes;
  level.time = shared->last_end - begin;
  level.p50 = Percentile(durations, 0.5);
  level.p90 = Percentile(durations, 0.9);
  level.p99 = Percentile(durations, 0.99);
  level.max = durations.empty() ? Duration{} : durations.back();
  outcome.failure = shared->failure;
  return outcome;
}

}  // namespace headrace
