// Counts and times what goes through it, for Prometheus.
//
//   headrace_store_requests_total{store,op,outcome}       outcome: ok, not_found, created, exists, unknown, or the error's name
//   headrace_store_request_duration_seconds{store,op}
//   headrace_store_read_bytes_total{store}, headrace_store_written_bytes_total{store}
//
// Directly over a backend it sees every attempt; over `RetryingStore` it sees what callers see. Costs two clock readings
// and a few atomic additions a call.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "base/metrics.h"
#include "store/decorator.h"
#include "store/operation.h"

namespace headrace {

class MeteredStore final : public StoreDecorator {
 public:
  // `name` is the label `store`: few values, so a bucket and not a key. `metrics` and `clock` outlive the store.
  MeteredStore(std::shared_ptr<ObjectStore> inner, std::string name, Metrics& metrics, Clock& clock);

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override;
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override;
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override;
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override;
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override;

 private:
  // The error codes, and the answers that are no errors.
  static constexpr size_t kAnswers = static_cast<size_t>(Code::kInternal) + 1;
  enum Outcome : size_t { kNotFound = kAnswers, kCreated, kExists, kUnknown, kOutcomes };
  static Outcome Failed(Code code) { return static_cast<Outcome>(code); }
  static std::string OutcomeName(Outcome outcome);

  void Count(StoreOp op, Outcome outcome, Instant began);

  const std::string name_;
  Metrics& metrics_;
  Clock& clock_;
  // Registered when first seen, so that the output has no rows of zeroes for what never happened.
  std::array<std::array<std::atomic<Counter*>, kOutcomes>, kStoreOps> requests_{};
  std::array<Histogram*, kStoreOps> durations_{};
  Counter& read_bytes_;
  Counter& written_bytes_;
};

}  // namespace headrace
