#include "store/limited_store.h"

#include <algorithm>
#include <cassert>

#include "base/log.h"
#include "base/text.h"

namespace headrace {

// The place of one request among those in flight; given back in any case, also when a simulated process is killed.
class LimitedStore::Turn {
 public:
  Turn(LimitedStore& store, uint64_t generation) : store_(store), generation_(generation) {}
  ~Turn() { store_.Leave(generation_, verdict); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Verdict verdict = Verdict::kSaysNothing;

 private:
  LimitedStore& store_;
  const uint64_t generation_;
};

LimitedStore::LimitedStore(std::shared_ptr<ObjectStore> inner, const LimitOptions& options, Executor& executor)
    : StoreDecorator(std::move(inner)), options_(options), executor_(executor) {
  assert(options.min >= 1 && options.min <= options.start && options.start <= options.max);
  if (options.metrics != nullptr) {
    gauge_ = &options.metrics->GetGauge("headrace_store_concurrency_limit", "Requests to a store that may be in flight at once.",
                                        {{"store", options.name}});
  }
  SetLimit(static_cast<double>(options.start));
}

size_t LimitedStore::limit() const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(limit_);
}

size_t LimitedStore::in_flight() const {
  std::lock_guard lock(mutex_);
  return in_flight_;
}

LimitedStore::Verdict LimitedStore::Judge(const Status& status) {
  if (status.ok()) return Verdict::kFine;
  // A 503 that names a time is a wish for fewer requests, whatever it is called.
  bool too_much = status.code() == Code::kThrottled || (status.code() == Code::kUnavailable && status.retry_after());
  return too_much ? Verdict::kTooMuch : Verdict::kSaysNothing;
}

template <typename T>
LimitedStore::Verdict LimitedStore::Judge(const Result<T>& result) {
  if constexpr (std::is_same_v<T, PutOutcome>) {
    if (result.ok()) return Judge(result->reason);
  }
  return Judge(result.status());
}

template <typename Call>
auto LimitedStore::InTurn(const Deadline& deadline, const Call& call) {
  using Answer = decltype(call());
  if (Status waited = WaitForTurn(deadline); !waited.ok()) return Answer(std::move(waited));
  uint64_t generation;
  {
    std::lock_guard lock(mutex_);
    generation = generation_;
  }
  Turn turn(*this, generation);
  Answer answer = call();
  turn.verdict = Judge(answer);
  return answer;
}

Status LimitedStore::WaitForTurn(const Deadline& deadline) {
  std::shared_ptr<Waiter> waiter;
  {
    std::lock_guard lock(mutex_);
    if (waiting_.empty() && in_flight_ < static_cast<size_t>(limit_)) {
      ++in_flight_;
      return {};
    }
    waiter = std::make_shared<Waiter>();
    waiter->signal = executor_.MakeSignal();
    waiting_.push_back(waiter);
  }
  // Whoever leaves the line without a turn takes its place out of it; a turn that came at the last moment goes to the next.
  struct Place {
    LimitedStore& store;
    const std::shared_ptr<Waiter>& waiter;
    bool taken = false;
    ~Place() {
      if (taken) return;
      std::lock_guard lock(store.mutex_);
      if (waiter->admitted) {
        --store.in_flight_;
        store.Admit();
      } else {
        std::erase(store.waiting_, waiter);
      }
    }
  } place{*this, waiter};
  std::stop_callback on_stop(deadline.stop(), [this, waiter] {
    std::lock_guard lock(mutex_);
    waiter->signal->NotifyAll();
  });
  std::unique_lock lock(mutex_);
  while (!waiter->admitted) {
    Status late = deadline.Check(executor_.clock(), "waiting for a turn");
    if (!late.ok()) {
      std::string line = Cat(in_flight_, " requests in flight, ", waiting_.size(), " waiting");
      lock.unlock();
      return Status(late.code(), Cat(Describe(""), ": ", late.message(), " (", line, ")"));
    }
    waiter->signal->WaitUntil(lock, deadline.at());
  }
  place.taken = true;
  return {};
}

void LimitedStore::Leave(uint64_t generation, Verdict verdict) {
  std::lock_guard lock(mutex_);
  bool full = !waiting_.empty() || in_flight_ >= static_cast<size_t>(limit_);
  --in_flight_;
  if (verdict == Verdict::kTooMuch && generation == generation_) {
    ++generation_;
    SetLimit(limit_ * options_.back_off);
    HR_LOG(kInfo, "the store asks for fewer requests", {"store", Describe("")}, {"limit", static_cast<size_t>(limit_)});
  } else if (verdict == Verdict::kFine && full) {
    SetLimit(limit_ + 1 / limit_);
  }
  Admit();
}

void LimitedStore::Admit() {
  while (!waiting_.empty() && in_flight_ < static_cast<size_t>(limit_)) {
    std::shared_ptr<Waiter> next = std::move(waiting_.front());
    waiting_.pop_front();
    ++in_flight_;
    next->admitted = true;
    next->signal->NotifyAll();
  }
}

void LimitedStore::SetLimit(double limit) {
  limit_ = std::clamp(limit, static_cast<double>(options_.min), static_cast<double>(options_.max));
  if (gauge_ != nullptr) gauge_->Set(limit_);
}

Result<std::optional<Object>> LimitedStore::Get(const std::string& key, const GetOptions& options, const Deadline& deadline) {
  return InTurn(deadline, [&] { return inner().Get(key, options, deadline); });
}

Result<PutOutcome> LimitedStore::PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) {
  return InTurn(deadline, [&] { return inner().PutIfAbsent(key, body, deadline); });
}

Status LimitedStore::Put(const std::string& key, const Body& body, const Deadline& deadline) {
  return InTurn(deadline, [&] { return inner().Put(key, body, deadline); });
}

Result<ListPage> LimitedStore::List(const ListOptions& options, const Deadline& deadline) {
  return InTurn(deadline, [&] { return inner().List(options, deadline); });
}

Status LimitedStore::Delete(std::span<const std::string> keys, const Deadline& deadline) {
  return InTurn(deadline, [&] { return inner().Delete(keys, deadline); });
}

}  // namespace headrace
