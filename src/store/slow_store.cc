#include "store/slow_store.h"

#include <algorithm>

#include "base/text.h"
#include "store/pass_time.h"

namespace headrace {
namespace {

Duration TimeFor(uint64_t bytes, double bytes_per_second) {
  if (bytes_per_second <= 0) return Duration::zero();
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second));
}

}  // namespace

SlowStore::SlowStore(std::shared_ptr<ObjectStore> inner, const SlowOptions& options, Clock& clock, Random random)
    : StoreDecorator(std::move(inner)), options_(options), clock_(clock), random_(random) {}

SlowStore::Latency SlowStore::Draw(Duration median) {
  std::lock_guard lock(mutex_);
  auto whole = Duration(static_cast<Duration::rep>(random_.LogNormal(static_cast<double>(median.count()), options_.sigma)));
  auto before = Duration(static_cast<Duration::rep>(random_.Uniform() * static_cast<double>(whole.count())));
  return {before, whole - before};
}

Duration SlowStore::Transfer(uint64_t bytes, Instant& free_at) {
  std::lock_guard lock(mutex_);
  Instant now = clock_.Now();
  free_at = std::max(free_at, now) + TimeFor(bytes, options_.total_bytes_per_second);
  return std::max(free_at - now, TimeFor(bytes, options_.connection_bytes_per_second));
}

Result<std::optional<Object>> SlowStore::Get(const std::string& key, const GetOptions& options, const Deadline& deadline) {
  const std::string what = Cat("get ", Describe(key));
  Latency latency = Draw(options_.get);
  HR_RETURN_IF_ERROR(PassTime(clock_, deadline, latency.before, what));
  auto got = inner().Get(key, options, deadline);
  HR_RETURN_IF_ERROR(PassTime(clock_, deadline, latency.after, what));
  if (got.ok() && *got)
    HR_RETURN_IF_ERROR(PassTime(clock_, deadline, Transfer((*got)->bytes.size() + (*got)->landed, down_free_at_), what));
  return got;
}

Result<PutOutcome> SlowStore::PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) {
  const std::string what = Cat("create ", Describe(key));
  Latency latency = Draw(options_.create);
  Status waited = PassTime(clock_, deadline, Transfer(body.size(), up_free_at_) + latency.before, what);
  if (!waited.ok()) return PutOutcome{PutOutcome::kUnknown, std::move(waited)};
  auto put = inner().PutIfAbsent(key, body, deadline);
  waited = PassTime(clock_, deadline, latency.after, what);
  if (put.ok() && !waited.ok()) return PutOutcome{PutOutcome::kUnknown, std::move(waited)};
  return put;
}

Status SlowStore::Put(const std::string& key, const Body& body, const Deadline& deadline) {
  const std::string what = Cat("put ", Describe(key));
  Latency latency = Draw(options_.put);
  HR_RETURN_IF_ERROR(PassTime(clock_, deadline, Transfer(body.size(), up_free_at_) + latency.before, what));
  Status put = inner().Put(key, body, deadline);
  HR_RETURN_IF_ERROR(PassTime(clock_, deadline, latency.after, what));
  return put;
}

Result<ListPage> SlowStore::List(const ListOptions& options, const Deadline& deadline) {
  const std::string what = Cat("list ", Describe(options.prefix));
  Latency latency = Draw(options_.list);
  HR_RETURN_IF_ERROR(PassTime(clock_, deadline, latency.before, what));
  auto page = inner().List(options, deadline);
  HR_RETURN_IF_ERROR(PassTime(clock_, deadline, latency.after, what));
  return page;
}

Status SlowStore::Delete(std::span<const std::string> keys, const Deadline& deadline) {
  const std::string what = Cat("delete ", Describe(keys.empty() ? "" : keys.front()));
  Latency latency = Draw(options_.remove);
  HR_RETURN_IF_ERROR(PassTime(clock_, deadline, latency.before, what));
  Status deleted = inner().Delete(keys, deadline);
  HR_RETURN_IF_ERROR(PassTime(clock_, deadline, latency.after, what));
  return deleted;
}

}  // namespace headrace
