// A store in the memory of one process: the contract and nothing else.
//
// It never waits, so it can be used inside simulations; `SlowStore` adds time and `FaultyStore` faults. What is written is copied
// once, what is read shares that copy and stays valid for as long as somebody holds it, whatever happens to the key meanwhile.
// Lists come in byte order, and a page begins behind the last key of the page before, so that they stay complete while others
// create and delete.
//
// Thread-safe. A call costs one look into an ordered map, and one more for each '/' of a new key.
#pragma once

#include <functional>
#include <map>
#include <shared_mutex>
#include <string>

#include "headrace/store.h"

namespace headrace {

class MemoryStore final : public ObjectStore {
 public:
  // `caller_is_dead` is for simulations that kill processes (Simulation::Unwinding): a caller for which it is true
  // changes nothing any more, and is told kCancelled.
  explicit MemoryStore(std::string name = "", Clock& clock = RealClock(), std::function<bool()> caller_is_dead = nullptr);

  // The store behind mem://name: the same one for everybody in this process, for as long as the process lives.
  static std::shared_ptr<MemoryStore> Named(const std::string& name);

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override;
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override;
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override;
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override;
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override;
  std::string Describe(const std::string& key = "") const override;

 private:
  Status CheckCaller(const Deadline& deadline, std::string_view operation, const std::string& key) const;
  // No key is also a folder of another one. Needs the lock.
  Status CheckPlace(const std::string& key) const;

  const std::string name_;
  Clock& clock_;
  const std::function<bool()> caller_is_dead_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, Bytes, std::less<>> objects_;
};

}  // namespace headrace
