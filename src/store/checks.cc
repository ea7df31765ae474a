#include "store/checks.h"

#include "base/text.h"

namespace headrace {

Status CheckGet(const ObjectStore& store, const std::string& key, const GetOptions& options) {
  if (options.range.length > 0) return {};
  return Status(Code::kInvalidArgument,
                Cat("cannot read ", store.Describe(key), ": the range has no bytes; ask for one at least"));
}

Status CheckFits(const ObjectStore& store, const std::string& key, uint64_t count, const GetOptions& options) {
  if (options.into.empty() || count <= options.into.size()) return {};
  return Status(Code::kInvalidArgument,
                Cat("cannot read ", store.Describe(key), " (", options.range.ToString(), "): the answer has ", count,
                    " bytes, and the memory given for it only ", options.into.size()));
}

Status CheckList(const ObjectStore& store, const ListOptions& options) {
  if (options.limit > 0) return {};
  return Status(Code::kInvalidArgument,
                Cat("cannot list ", store.Describe(options.prefix), ": a page needs room for one entry at least"));
}

}  // namespace headrace
