// The only place where a request to a store is tried again.
//
// What is tried again is a table (`kRetryTable`): a row for each outcome, a column for each operation. When: after pauses
// that grow with decorrelated jitter, never sooner than the store asked for (Retry-After), never past the caller's
// deadline, and within a budget that all callers of this store share, so that a store in trouble is not buried.
//
// A create whose outcome is unknown is passed on, never sent again: only `Create` (create.h), which looks at the slot
// first, may do that. A create that failed with an error certainly did nothing, so it may be sent again.
// A put or delete that timed out may land after its own retry; both are idempotent, but a delayed put can also land after
// a *later* put. That is why puts are for hints and status only.
//
// Thread-safe. Costs nothing but a lock a request when all goes well.
#pragma once

#include <array>
#include <atomic>
#include <mutex>

#include "base/random.h"
#include "store/decorator.h"
#include "store/operation.h"
#include "store/request_budget.h"

namespace headrace {

enum class Retry {
  kNo,
  kOnce,   // at once, and no more if that fails as well
  kPause,  // after a pause, while there is time and budget
};

// Any outcome that has no row is final.
struct RetryRow {
  Code outcome;
  std::array<Retry, kStoreOps> by_op;
};

// clang-format off
inline constexpr std::array kRetryTable = {
    //                            get            create         put            list           delete
    RetryRow{Code::kUnavailable, {Retry::kPause, Retry::kPause, Retry::kPause, Retry::kPause, Retry::kPause}},
    RetryRow{Code::kThrottled,   {Retry::kPause, Retry::kPause, Retry::kPause, Retry::kPause, Retry::kPause}},
    RetryRow{Code::kTimeout,     {Retry::kPause, Retry::kPause, Retry::kPause, Retry::kPause, Retry::kPause}},  // of one attempt
    RetryRow{Code::kExpired,     {Retry::kOnce,  Retry::kOnce,  Retry::kOnce,  Retry::kOnce,  Retry::kOnce}},   // fresh credentials are there
    RetryRow{Code::kCorrupt,     {Retry::kOnce,  Retry::kOnce,  Retry::kOnce,  Retry::kOnce,  Retry::kOnce}},   // gone the second time if the wire did it
};
// clang-format on

constexpr Retry WhetherToRetry(StoreOp op, Code outcome) {
  for (const RetryRow& row : kRetryTable) {
    if (row.outcome == outcome) return row.by_op[static_cast<size_t>(op)];
  }
  return Retry::kNo;
}

struct RetryOptions {
  Duration first_pause = std::chrono::milliseconds(50);
  Duration longest_pause = std::chrono::seconds(10);
  int max_attempts = 12;  // with these pauses about a minute
  RequestBudget::Options budget = {.share = 0.2, .per_second = 2, .burst = 100};
  // How long one attempt may take before another is made, whatever the caller's deadline: this, plus the time that its
  // bytes take at the slowest rate that is still worth waiting for. Zero: as long as the caller has time.
  Duration attempt_timeout = std::chrono::seconds(20);
  double slowest_bytes_per_second = 1e6;
};

class RetryingStore final : public StoreDecorator {
 public:
  RetryingStore(std::shared_ptr<ObjectStore> inner, const RetryOptions& options, Clock& clock, Random random);

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override;
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override;
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override;
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override;
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override;

  // Requests that were made on top of the callers'.
  uint64_t retries() const { return retries_.load(std::memory_order_relaxed); }

 private:
  template <typename Call>
  auto Try(StoreOp op, uint64_t bytes, const Deadline& deadline, const Call& call);
  Deadline ForAttempt(uint64_t bytes, const Deadline& deadline);

  const RetryOptions options_;
  Clock& clock_;
  RequestBudget budget_;
  std::mutex mutex_;
  Random random_;  // guarded by mutex_
  std::atomic<uint64_t> retries_ = 0;
};

}  // namespace headrace
