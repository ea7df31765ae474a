// A store that hands every call to another one. Decorators override what they change.
#pragma once

#include <memory>
#include <utility>

#include "headrace/store.h"

namespace headrace {

class StoreDecorator : public ObjectStore {
 public:
  explicit StoreDecorator(std::shared_ptr<ObjectStore> inner) : inner_(std::move(inner)) {}

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
    return inner_->Get(key, options, deadline);
  }
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override {
    return inner_->PutIfAbsent(key, body, deadline);
  }
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override {
    return inner_->Put(key, body, deadline);
  }
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override { return inner_->List(options, deadline); }
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override { return inner_->Delete(keys, deadline); }
  std::string Describe(const std::string& key) const override { return inner_->Describe(key); }

 protected:
  ObjectStore& inner() const { return *inner_; }
  const std::shared_ptr<ObjectStore>& shared_inner() const { return inner_; }

 private:
  std::shared_ptr<ObjectStore> inner_;
};

}  // namespace headrace
