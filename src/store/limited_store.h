// As many requests at once as the store can take, found out by asking.
//
// The limit grows by one for each round of good answers while it is what holds callers back, and shrinks to a share of
// itself when the store asks for fewer requests (429, 503 SlowDown, also as the reason of an unknown outcome). One burst of
// refusals counts once: requests that began before the limit shrank say nothing about the new one. So it backs off within a
// round trip, recovers by itself, and settles just below what the store refuses.
//
// Callers wait in the order in which they came, until their deadline. Place it beneath `RetryingStore`, so that nobody
// holds a turn while pausing. Thread-safe. Costs a lock a request, and a signal for those who wait.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "base/executor.h"
#include "base/metrics.h"
#include "store/decorator.h"

namespace headrace {

struct LimitOptions {
  size_t start = 64;
  size_t min = 2;
  size_t max = 512;
  double back_off = 0.7;       // the share of the limit that is left when the store asked for less
  Metrics* metrics = nullptr;  // headrace_store_concurrency_limit{store}
  std::string name = {};       // the label
};

class LimitedStore final : public StoreDecorator {
 public:
  LimitedStore(std::shared_ptr<ObjectStore> inner, const LimitOptions& options, Executor& executor);

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override;
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override;
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override;
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override;
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override;

  // How many requests may be in flight now.
  size_t limit() const;
  size_t in_flight() const;

 private:
  struct Waiter {
    std::unique_ptr<Signal> signal;
    bool admitted = false;
  };
  class Turn;
  enum class Verdict { kFine, kTooMuch, kSaysNothing };

  static Verdict Judge(const Status& status);
  template <typename T>
  static Verdict Judge(const Result<T>& result);

  template <typename Call>
  auto InTurn(const Deadline& deadline, const Call& call);
  Status WaitForTurn(const Deadline& deadline);
  void Leave(uint64_t generation, Verdict verdict);
  // Lets in as many as the limit has room for. Needs the lock.
  void Admit();
  void SetLimit(double limit);

  const LimitOptions options_;
  Executor& executor_;
  Gauge* gauge_ = nullptr;
  mutable std::mutex mutex_;
  double limit_ = 0;
  size_t in_flight_ = 0;
  uint64_t generation_ = 0;  // counts back-offs
  std::deque<std::shared_ptr<Waiter>> waiting_;
};

}  // namespace headrace
