// Counts the calls that go through it: for tests and benchmarks of what something costs.
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "store/decorator.h"
#include "store/operation.h"

namespace headrace {

class CountingStore final : public StoreDecorator {
 public:
  // Creates of keys that begin with `free` are not counted, if it is not empty.
  explicit CountingStore(std::shared_ptr<ObjectStore> store, std::string free = {})
      : StoreDecorator(std::move(store)), free_(std::move(free)) {}

  uint64_t count(StoreOp op) const { return counts_[static_cast<size_t>(op)]; }
  uint64_t requests() const {
    uint64_t all = 0;
    for (StoreOp op : kAllStoreOps) all += count(op);
    return all;
  }

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
    return Counted(StoreOp::kGet).Get(key, options, deadline);
  }
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override {
    if (!free_.empty() && key.starts_with(free_)) return inner().PutIfAbsent(key, body, deadline);
    return Counted(StoreOp::kCreate).PutIfAbsent(key, body, deadline);
  }
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override {
    return Counted(StoreOp::kPut).Put(key, body, deadline);
  }
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override {
    return Counted(StoreOp::kList).List(options, deadline);
  }
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override {
    return Counted(StoreOp::kDelete).Delete(keys, deadline);
  }

 private:
  ObjectStore& Counted(StoreOp op) {
    ++counts_[static_cast<size_t>(op)];
    return inner();
  }

  const std::string free_;
  std::array<std::atomic<uint64_t>, kStoreOps> counts_{};
};

}  // namespace headrace
