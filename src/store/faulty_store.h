// A store that fails or lies as a plan says, and is the store beneath it otherwise.
//
// For tests of whatever stands on a store: retries, protocols, whole simulations, your own programs. The same plan, seed
// and order of calls give the same faults, so a run in a `Simulation` can be replayed.
//
// A list is matched by its prefix, a delete by its first key.
//
// Thread-safe. What happens late is done by the executor; in a simulation that kills processes, `spawn` says who does it,
// so that a request that is on its way outlives the process that sent it.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/executor.h"
#include "base/random.h"
#include "store/decorator.h"
#include "store/fault_plan.h"

namespace headrace {

class FaultyStore final : public StoreDecorator {
 public:
  using SpawnLate = std::function<void(std::function<void()>)>;

  FaultyStore(std::shared_ptr<ObjectStore> inner, FaultPlan plan, Executor& executor, Random random, SpawnLate spawn = nullptr);

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override;
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override;
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override;
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override;
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override;

  // From now on, before all rules that are there; the calls that it counts begin now.
  void Add(FaultRule rule);
  // No more faults. What was lost by then stays lost.
  void Heal();
  // Waits until everything that is late has happened.
  void Drain();

  // Calls so far, and those that a fault struck.
  uint64_t calls(StoreOp op) const;
  uint64_t struck() const;

 private:
  struct ArmedRule {
    FaultRule rule;
    uint64_t seen = 0;
  };
  // What a key held before its last change, and when that was.
  struct Change {
    Instant at;
    std::optional<Bytes> before;
  };
  struct Late {
    std::mutex mutex;
    std::unique_ptr<Signal> signal;
    size_t pending = 0;
  };

  template <typename Answer>
  using Effect = std::function<Answer(ObjectStore&, const Deadline&)>;

  // The fault that strikes this call, if any.
  Fault Draw(StoreOp op, const std::string& key);
  // The call `effect` with the trouble that `fault` makes; a fault of another sort makes none.
  template <typename Answer>
  Answer Do(const Fault& fault, StoreOp op, const std::string& key, const Effect<Answer>& effect, const Deadline& deadline);
  void DoLate(Duration delay, std::function<void(ObjectStore&)> effect);
  void Remember(const std::string& key, const Deadline& deadline);
  Result<std::optional<Object>> GetPast(const std::string& key, const GetOptions& options, Duration window,
                                        const Deadline& deadline);
  Object Spoil(const Fault& fault, Object object, std::span<std::byte> into);
  Body Spoil(const Fault& fault, const Body& body);
  size_t RandomBelow(size_t bound);

  Executor& executor_;
  const SpawnLate spawn_;
  const std::shared_ptr<Late> late_;
  mutable std::mutex mutex_;
  Random random_;
  std::vector<ArmedRule> rules_;
  std::array<uint64_t, kStoreOps> calls_{};
  uint64_t struck_ = 0;
  bool remembers_ = false;  // some rule shows the past
  std::map<std::string, Change> changes_;
  std::set<std::string> forgotten_;  // keys that no list shows any more
};

}  // namespace headrace
