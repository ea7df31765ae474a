// A part of a store as a store of its own: the keys under a prefix, without it.
//
// Costs one string a call. Errors and `Describe` name the whole key, as the person who reads them would type it.
#pragma once

#include <string>

#include "store/decorator.h"

namespace headrace {

class PrefixedStore final : public StoreDecorator {
 public:
  // `prefix` is a path of whole segments, "runs/a"; slashes at its ends do not matter, and an empty one changes nothing.
  PrefixedStore(std::shared_ptr<ObjectStore> inner, std::string_view prefix);

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override;
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override;
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override;
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override;
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override;
  std::string Describe(const std::string& key = "") const override;

 private:
  std::string prefix_;  // ends with '/', or is empty
};

}  // namespace headrace
