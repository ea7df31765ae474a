// Reads that do not wait for the slowest few: a get that takes clearly longer than 95 of 100 others of its size is
// asked a second time, and the first good answer counts.
//
// The slow tail of an object store is mostly bad luck (a busy disk, a lost packet), and the second request does not share
// it. It is for gets alone, which can be repeated without a trace, and within a budget, so that a store that is slow as a whole
// is not asked twice as much: then the estimate grows, and hedges stop by themselves. Off until it has seen enough.
//
// The caller's own request runs on the caller's thread, straight into its memory. The second one has a buffer of its own,
// which is copied if it wins; the loser is asked to stop, and nobody writes to the caller's memory any more when `Get`
// returns. So it is worth having only over a store that obeys a stop promptly.
//
// Thread-safe. Costs a lock and a map entry a get; one piece of work of the executor watches over all of them.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "base/executor.h"
#include "store/decorator.h"
#include "store/latency_estimate.h"
#include "store/request_budget.h"

namespace headrace {

struct HedgeOptions {
  double quantile = 0.95;
  double margin = 1.25;     // patience is so many times the quantile: late by a hair is not worth a second request
  size_t min_samples = 64;  // of a size, before the first hedge
  Duration least_patience = std::chrono::milliseconds(2);
  RequestBudget::Options budget = {.share = 0.05, .burst = 10};
  // What hedges may cost in memory: they are made for gets up to this size only, and so many at once.
  uint64_t max_bytes = 8 << 20;
  size_t max_at_once = 4;
};

class HedgedStore final : public StoreDecorator {
 public:
  HedgedStore(std::shared_ptr<ObjectStore> inner, const HedgeOptions& options, Executor& executor);
  ~HedgedStore() override;

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override;

  // Second requests so far, and how many of them were the faster ones.
  uint64_t hedges() const;
  uint64_t wins() const;

 private:
  using GetResult = Result<std::optional<Object>>;
  // One get that is being watched.
  struct Flight;
  using Queue = std::multimap<Instant, std::shared_ptr<Flight>>;
  // What outlives the store for as long as a loser or the watcher is still on its way.
  struct State;

  static void Watch(const std::shared_ptr<State>& state);
  static void Hedge(const std::shared_ptr<State>& state, const std::shared_ptr<Flight>& flight);
  std::optional<Duration> Patience(size_t size_class);
  void Enqueue(Instant at, const std::shared_ptr<Flight>& flight);
  GetResult Choose(const std::shared_ptr<Flight>& flight, GetResult first, const GetOptions& options, const Deadline& deadline);

  const std::shared_ptr<State> state_;
};

}  // namespace headrace
