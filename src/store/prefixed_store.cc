#include "store/prefixed_store.h"

#include "base/text.h"

namespace headrace {

PrefixedStore::PrefixedStore(std::shared_ptr<ObjectStore> inner, std::string_view prefix) : StoreDecorator(std::move(inner)) {
  while (prefix.starts_with('/')) prefix.remove_prefix(1);
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!prefix.empty()) prefix_ = Cat(prefix, '/');
}

Result<std::optional<Object>> PrefixedStore::Get(const std::string& key, const GetOptions& options, const Deadline& deadline) {
  return inner().Get(prefix_ + key, options, deadline);
}

Result<PutOutcome> PrefixedStore::PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) {
  return inner().PutIfAbsent(prefix_ + key, body, deadline);
}

Status PrefixedStore::Put(const std::string& key, const Body& body, const Deadline& deadline) {
  return inner().Put(prefix_ + key, body, deadline);
}

Result<ListPage> PrefixedStore::List(const ListOptions& options, const Deadline& deadline) {
  ListOptions under = options;
  under.prefix = prefix_ + options.prefix;
  if (!options.start_after.empty()) under.start_after = prefix_ + options.start_after;
  HR_ASSIGN_OR_RETURN(ListPage page, inner().List(under, deadline));
  ListPage stripped{.entries = {}, .next = std::move(page.next)};
  stripped.entries.reserve(page.entries.size());
  for (ListEntry& entry : page.entries) {
    if (!entry.key.starts_with(prefix_)) {
      return Status(Code::kCorrupt, Cat("listing ", Describe(options.prefix), ": the store answered with ",
                                        inner().Describe(entry.key), ", which does not lie under it"));
    }
    // "runs/a/" itself: the empty object that some tools leave to make a folder show. It has no key here.
    if (entry.key.size() == prefix_.size()) continue;
    stripped.entries.push_back({entry.key.substr(prefix_.size()), entry.size});
  }
  return stripped;
}

Status PrefixedStore::Delete(std::span<const std::string> keys, const Deadline& deadline) {
  std::vector<std::string> whole;
  whole.reserve(keys.size());
  for (const std::string& key : keys) whole.push_back(prefix_ + key);
  return inner().Delete(whole, deadline);
}

std::string PrefixedStore::Describe(const std::string& key) const {
  if (!key.empty() || prefix_.empty()) return inner().Describe(prefix_ + key);
  return inner().Describe(prefix_.substr(0, prefix_.size() - 1));
}

}  // namespace headrace
