#include "store/memory_store.h"

#include <algorithm>
#include <mutex>

#include "base/text.h"
#include "store/checks.h"

namespace headrace {
namespace {

// Memory of the store's own in any case: what a caller lends or changes later is not what was written.
Bytes CopyOf(const Body& body) {
  Buffer whole(body.size());
  auto out = whole.span().begin();
  for (const Bytes& part : body.parts()) out = std::ranges::copy(part.span(), out).out;
  return std::move(whole).Freeze();
}

}  // namespace

MemoryStore::MemoryStore(std::string name, Clock& clock, std::function<bool()> caller_is_dead)
    : name_(std::move(name)), clock_(clock), caller_is_dead_(std::move(caller_is_dead)) {}

std::shared_ptr<MemoryStore> MemoryStore::Named(const std::string& name) {
  static std::mutex mutex;
  static auto& stores = *new std::map<std::string, std::shared_ptr<MemoryStore>>;
  std::lock_guard lock(mutex);
  std::shared_ptr<MemoryStore>& store = stores[name];
  if (!store) store = std::make_shared<MemoryStore>(name);
  return store;
}

std::string MemoryStore::Describe(const std::string& key) const { return Cat("mem://", name_, key.empty() ? "" : "/", key); }

Status MemoryStore::CheckCaller(const Deadline& deadline, std::string_view operation, const std::string& key) const {
  if (caller_is_dead_ && caller_is_dead_()) {
    return Status(Code::kCancelled, Cat(operation, " ", Describe(key), ": the process that asks was killed"));
  }
  if (deadline.never() && !deadline.stop().stop_requested()) return {};
  return deadline.Check(clock_, Cat(operation, " ", Describe(key)));
}

Status MemoryStore::CheckPlace(const std::string& key) const {
  for (size_t slash = key.find('/'); slash != std::string::npos; slash = key.find('/', slash + 1)) {
    if (objects_.contains(std::string_view(key).substr(0, slash))) {
      return Status(Code::kInvalidArgument, Cat("cannot write ", Describe(key), ": ", Describe(key.substr(0, slash)),
                                                " is an object, so nothing can be stored below it"));
    }
  }
  std::string folder = key + '/';
  auto below = objects_.lower_bound(folder);
  if (below != objects_.end() && below->first.starts_with(folder)) {
    return Status(Code::kInvalidArgument, Cat("cannot write ", Describe(key), ": there are objects below it, such as ",
                                              Describe(below->first), "; no key may be the folder of another"));
  }
  return {};
}

Result<std::optional<Object>> MemoryStore::Get(const std::string& key, const GetOptions& options, const Deadline& deadline) {
  HR_RETURN_IF_ERROR(CheckKey(key));
  HR_RETURN_IF_ERROR(CheckGet(*this, key, options));
  HR_RETURN_IF_ERROR(CheckCaller(deadline, "get", key));
  Bytes whole;
  {
    std::shared_lock lock(mutex_);
    auto found = objects_.find(key);
    if (found == objects_.end()) return std::optional<Object>();
    whole = found->second;
  }
  auto [offset, count] = options.range.Within(whole.size());
  Object object{.bytes = whole.Slice(offset, count), .size = whole.size()};
  if (!options.into.empty()) {
    HR_RETURN_IF_ERROR(CheckFits(*this, key, count, options));
    std::ranges::copy(object.bytes.span(), options.into.begin());
    object.bytes = Bytes::Borrow(options.into.first(count));
  }
  return std::optional(std::move(object));
}

Result<PutOutcome> MemoryStore::PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) {
  HR_RETURN_IF_ERROR(CheckKey(key));
  HR_RETURN_IF_ERROR(CheckCaller(deadline, "create", key));
  Bytes whole = CopyOf(body);
  std::unique_lock lock(mutex_);
  if (objects_.contains(key)) return PutOutcome{PutOutcome::kExists, {}};
  HR_RETURN_IF_ERROR(CheckPlace(key));
  objects_.emplace(key, std::move(whole));
  return PutOutcome{PutOutcome::kCreated, {}};
}

Status MemoryStore::Put(const std::string& key, const Body& body, const Deadline& deadline) {
  HR_RETURN_IF_ERROR(CheckKey(key));
  HR_RETURN_IF_ERROR(CheckCaller(deadline, "put", key));
  Bytes whole = CopyOf(body);
  std::unique_lock lock(mutex_);
  HR_RETURN_IF_ERROR(CheckPlace(key));
  objects_.insert_or_assign(key, std::move(whole));
  return {};
}

Result<ListPage> MemoryStore::List(const ListOptions& options, const Deadline& deadline) {
  HR_RETURN_IF_ERROR(CheckList(*this, options));
  HR_RETURN_IF_ERROR(CheckCaller(deadline, "list", options.prefix));
  ListPage page;
  std::shared_lock lock(mutex_);
  const std::string& behind = std::max(options.start_after, options.page);
  auto next = behind < options.prefix ? objects_.lower_bound(options.prefix) : objects_.upper_bound(behind);
  for (; next != objects_.end() && next->first.starts_with(options.prefix); ++next) {
    if (page.entries.size() == options.limit) {
      page.next = page.entries.back().key;
      break;
    }
    page.entries.push_back({next->first, next->second.size()});
  }
  return page;
}

Status MemoryStore::Delete(std::span<const std::string> keys, const Deadline& deadline) {
  for (const std::string& key : keys) HR_RETURN_IF_ERROR(CheckKey(key));
  HR_RETURN_IF_ERROR(CheckCaller(deadline, "delete", keys.size() == 1 ? keys.front() : ""));
  std::unique_lock lock(mutex_);
  for (const std::string& key : keys) objects_.erase(key);
  return {};
}

}  // namespace headrace
