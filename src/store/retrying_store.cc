#include "store/retrying_store.h"

#include "base/log.h"
#include "base/size.h"
#include "base/text.h"
#include "store/backoff.h"

namespace headrace {
namespace {

const Status& FailureOf(const Status& status) { return status; }
template <typename T>
Status FailureOf(const Result<T>& result) {
  return result.status();
}

// What a get will bring, as far as the request tells.
uint64_t BytesOf(const GetOptions& options) {
  // A whole object of unknown size gets the time of a large one.
  constexpr uint64_t kLarge = 64 << 20;
  uint64_t bytes = options.into.empty() ? options.range.length : std::min<uint64_t>(options.into.size(), options.range.length);
  return bytes == UINT64_MAX ? kLarge : bytes;
}

}  // namespace

RetryingStore::RetryingStore(std::shared_ptr<ObjectStore> inner, const RetryOptions& options, Clock& clock, Random random)
    : StoreDecorator(std::move(inner)), options_(options), clock_(clock), budget_(options.budget, clock), random_(random) {}

Deadline RetryingStore::ForAttempt(uint64_t bytes, const Deadline& deadline) {
  if (options_.attempt_timeout <= Duration::zero()) return deadline;
  std::chrono::duration<double> transfer(static_cast<double>(bytes) / options_.slowest_bytes_per_second);
  return deadline.NotAfter(clock_.Now() + options_.attempt_timeout + std::chrono::duration_cast<Duration>(transfer));
}

template <typename Call>
auto RetryingStore::Try(StoreOp op, uint64_t bytes, const Deadline& deadline, const Call& call) {
  using Answer = decltype(call(deadline));
  budget_.Earn();
  Backoff backoff(options_.first_pause, options_.longest_pause);
  bool tried_once_more = false;
  for (int attempt = 1;; ++attempt) {
    Answer answer = call(ForAttempt(bytes, deadline));
    if (answer.ok()) return answer;
    Retry retry = WhetherToRetry(op, answer.code());
    if (retry == Retry::kNo || (retry == Retry::kOnce && tried_once_more)) return answer;

    Status failure = FailureOf(answer);
    auto give_up = [&](std::string_view why) -> Answer {
      if (options_.max_attempts <= 1) return failure;  // nobody expected another one
      return failure.Annotate(Cat("gave up after ", attempt, attempt == 1 ? " attempt" : " attempts", " (", why, ")"));
    };
    auto no_time = [&](const Status& late) -> Answer {
      if (late.code() != Code::kCancelled) return give_up("no time for another");
      return Status(Code::kCancelled, Cat("asked to stop before another attempt; the last one: ", failure.message()));
    };
    if (Status late = deadline.Check(clock_, OpName(op)); !late.ok()) return no_time(late);
    if (attempt >= options_.max_attempts) return give_up("as many as allowed");
    if (!budget_.Spend()) return give_up("too many requests to this store fail; its retry budget is used up");
    retries_.fetch_add(1, std::memory_order_relaxed);

    if (retry == Retry::kOnce) {
      tried_once_more = true;
      continue;
    }
    Duration pause;
    {
      std::lock_guard lock(mutex_);
      pause = backoff.Next(random_, failure.retry_after());
    }
    HR_LOG(kInfo, "trying again", {"op", OpName(op)}, {"attempt", attempt}, {"pause", FormatDuration(pause)},
           {"failure", failure.ToString()});
    if (Status late = deadline.Sleep(clock_, pause, OpName(op)); !late.ok()) return no_time(late);
  }
}

Result<std::optional<Object>> RetryingStore::Get(const std::string& key, const GetOptions& options, const Deadline& deadline) {
  return Try(StoreOp::kGet, BytesOf(options), deadline, [&](const Deadline& d) { return inner().Get(key, options, d); });
}

Result<PutOutcome> RetryingStore::PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) {
  return Try(StoreOp::kCreate, body.size(), deadline, [&](const Deadline& d) { return inner().PutIfAbsent(key, body, d); });
}

Status RetryingStore::Put(const std::string& key, const Body& body, const Deadline& deadline) {
  return Try(StoreOp::kPut, body.size(), deadline, [&](const Deadline& d) { return inner().Put(key, body, d); });
}

Result<ListPage> RetryingStore::List(const ListOptions& options, const Deadline& deadline) {
  return Try(StoreOp::kList, 0, deadline, [&](const Deadline& d) { return inner().List(options, d); });
}

Status RetryingStore::Delete(std::span<const std::string> keys, const Deadline& deadline) {
  return Try(StoreOp::kDelete, 0, deadline, [&](const Deadline& d) { return inner().Delete(keys, d); });
}

}  // namespace headrace
