#include "store/faulty_store.h"

#include <algorithm>
#include <type_traits>

#include "base/text.h"
#include "store/checks.h"
#include "store/pass_time.h"

namespace headrace {
namespace {

// What a caller is told when no answer comes.
template <typename Answer>
Answer Lost(Status failure) {
  if constexpr (std::is_same_v<Answer, Result<PutOutcome>>) {
    return PutOutcome{PutOutcome::kUnknown, std::move(failure)};
  } else {
    return failure;
  }
}

bool Changes(StoreOp op) { return op == StoreOp::kCreate || op == StoreOp::kPut || op == StoreOp::kDelete; }

bool ShowsThePast(const Fault& fault) { return fault.kind == Fault::kStaleRead || fault.kind == Fault::kStaleList; }

std::string KeyUnder(const Fault& fault, std::string key) {
  if (fault.kind == Fault::kPlusIsSpace) std::ranges::replace(key, '+', ' ');
  return key;
}

// What is written late must not point into memory that the caller has back by then.
Body Owned(const Fault& fault, const Body& body) {
  if (fault.kind != Fault::kLandLate && fault.kind != Fault::kAgainLater) return body;
  return Body(Bytes::Copy(body.Join().span()));
}

}  // namespace

FaultyStore::FaultyStore(std::shared_ptr<ObjectStore> inner, FaultPlan plan, Executor& executor, Random random, SpawnLate spawn)
    : StoreDecorator(std::move(inner)),
      executor_(executor),
      spawn_(std::move(spawn)),
      late_(std::make_shared<Late>()),
      random_(random) {
  late_->signal = executor.MakeSignal();
  for (FaultRule& rule : plan.rules) {
    remembers_ = remembers_ || ShowsThePast(rule.fault);
    rules_.push_back({std::move(rule)});
  }
}

void FaultyStore::Add(FaultRule rule) {
  std::lock_guard lock(mutex_);
  remembers_ = remembers_ || ShowsThePast(rule.fault);
  rules_.insert(rules_.begin(), ArmedRule{std::move(rule)});
}

void FaultyStore::Heal() {
  std::lock_guard lock(mutex_);
  rules_.clear();
}

void FaultyStore::Drain() {
  std::unique_lock lock(late_->mutex);
  while (late_->pending > 0) late_->signal->Wait(lock);
}

uint64_t FaultyStore::calls(StoreOp op) const {
  std::lock_guard lock(mutex_);
  return calls_[static_cast<size_t>(op)];
}

uint64_t FaultyStore::struck() const {
  std::lock_guard lock(mutex_);
  return struck_;
}

size_t FaultyStore::RandomBelow(size_t bound) {
  std::lock_guard lock(mutex_);
  return random_.Below(bound);
}

Fault FaultyStore::Draw(StoreOp op, const std::string& key) {
  std::lock_guard lock(mutex_);
  ++calls_[static_cast<size_t>(op)];
  Fault drawn;
  for (ArmedRule& armed : rules_) {
    const FaultRule& rule = armed.rule;
    if ((rule.op && *rule.op != op) || !key.starts_with(rule.key_prefix)) continue;
    ++armed.seen;
    // Every rule counts and draws at every call that it matches, so that rules do not disturb each other.
    bool strikes =
        armed.seen >= rule.first && armed.seen <= rule.last && (rule.probability >= 1 || random_.Chance(rule.probability));
    if (strikes && drawn.kind == Fault::kNone) drawn = rule.fault;
  }
  if (drawn.kind != Fault::kNone) ++struck_;
  if (drawn.longest > drawn.delay)
    drawn.delay += Duration(random_.Below(static_cast<uint64_t>((drawn.longest - drawn.delay).count())));
  return drawn;
}

template <typename Answer>
Answer FaultyStore::Do(const Fault& fault, StoreOp op, const std::string& key, const Effect<Answer>& effect,
                       const Deadline& deadline) {
  auto failure = [&](std::string_view what) {
    Status status(fault.code,
                  Cat(OpName(op), " ", Describe(key), ": ", what, " (an injected fault: ", FaultName(fault.kind), ")"));
    return fault.retry_after ? std::move(status).WithRetryAfter(*fault.retry_after) : status;
  };
  auto late = [effect](ObjectStore& store) { (void)effect(store, Deadline()); };
  switch (fault.kind) {
    case Fault::kRefuse: return failure("refused");
    case Fault::kFailBefore: return Lost<Answer>(failure("no answer"));
    case Fault::kFailAfter: (void)effect(inner(), deadline); return Lost<Answer>(failure("no answer"));
    case Fault::kLandLate:
      if (Changes(op)) DoLate(fault.delay, late);
      return Lost<Answer>(failure("no answer"));
    case Fault::kTwice: (void)effect(inner(), deadline); return effect(inner(), deadline);
    case Fault::kAgainLater: {
      Answer answer = effect(inner(), deadline);
      if (Changes(op)) DoLate(fault.delay, late);
      return answer;
    }
    case Fault::kSlow: {
      Answer answer = effect(inner(), deadline);
      Status slow = PassTime(executor_.clock(), deadline, fault.delay, Cat(OpName(op), " ", Describe(key)));
      return slow.ok() ? std::move(answer) : Lost<Answer>(slow);
    }
    default: return effect(inner(), deadline);
  }
}

void FaultyStore::DoLate(Duration delay, std::function<void(ObjectStore&)> effect) {
  {
    std::lock_guard lock(late_->mutex);
    ++late_->pending;
  }
  auto work = [late = late_, store = shared_inner(), &clock = executor_.clock(), at = executor_.clock().Now() + delay,
               effect = std::move(effect)] {
    clock.SleepUntil(at);
    effect(*store);
    std::lock_guard lock(late->mutex);
    if (--late->pending == 0) late->signal->NotifyAll();
  };
  spawn_ ? spawn_(work) : executor_.Spawn(work);
}

void FaultyStore::Remember(const std::string& key, const Deadline& deadline) {
  {
    std::lock_guard lock(mutex_);
    if (!remembers_) return;
  }
  auto before = inner().Get(key, deadline);
  if (!before.ok()) return;
  std::lock_guard lock(mutex_);
  changes_[key] = {executor_.clock().Now(), *before ? std::optional(Bytes::Copy((*before)->bytes.span())) : std::nullopt};
}

Result<std::optional<Object>> FaultyStore::GetPast(const std::string& key, const GetOptions& options, Duration window,
                                                   const Deadline& deadline) {
  std::optional<Change> change;
  {
    std::lock_guard lock(mutex_);
    auto found = changes_.find(key);
    if (found != changes_.end() && executor_.clock().Now() - found->second.at < window) change = found->second;
  }
  if (!change) return inner().Get(key, options, deadline);
  if (!change->before) return std::optional<Object>();
  auto [offset, count] = options.range.Within(change->before->size());
  Object object{.bytes = change->before->Slice(offset, count), .size = change->before->size()};
  if (!options.into.empty()) {
    HR_RETURN_IF_ERROR(CheckFits(*this, key, count, options));
    std::ranges::copy(object.bytes.span(), options.into.begin());
    object.bytes = Bytes::Borrow(options.into.first(count));
  }
  return std::optional(std::move(object));
}

Object FaultyStore::Spoil(const Fault& fault, Object object, std::span<std::byte> into) {
  size_t count = object.bytes.size();
  if (fault.kind == Fault::kTruncate) {
    size_t missing = count - count / 2;
    return {.bytes = object.bytes.Slice(0, count / 2), .size = object.size - missing};
  }
  if (fault.kind == Fault::kFlip && count > 0) {
    size_t bit = RandomBelow(8 * count);
    auto flip = [bit](std::span<std::byte> bytes) { bytes[bit / 8] ^= std::byte(1 << (bit % 8)); };
    if (!into.empty()) {
      flip(into);
    } else {
      Buffer copy(count);
      std::ranges::copy(object.bytes.span(), copy.span().begin());
      flip(copy.span());
      object.bytes = std::move(copy).Freeze();
    }
  }
  return object;
}

Body FaultyStore::Spoil(const Fault& fault, const Body& body) {
  if (fault.kind != Fault::kTruncate && fault.kind != Fault::kFlip) return Owned(fault, body);
  return Body(Spoil(fault, {.bytes = Bytes::Copy(body.Join().span()), .size = body.size()}, {}).bytes);
}

Result<std::optional<Object>> FaultyStore::Get(const std::string& key, const GetOptions& options, const Deadline& deadline) {
  const Fault fault = Draw(StoreOp::kGet, key);
  if (fault.kind == Fault::kDrop) return std::optional<Object>();
  if (fault.kind == Fault::kStaleRead) return GetPast(key, options, fault.delay, deadline);
  GetOptions asked = options;
  asked.landing = nullptr;  // what has landed cannot be spoiled any more
  if (fault.kind == Fault::kIgnoreRange) asked.range = ByteRange::All();
  Effect<Result<std::optional<Object>>> effect = [&](ObjectStore& store, const Deadline& d) {
    return store.Get(KeyUnder(fault, key), asked, d);
  };
  auto got = Do(fault, StoreOp::kGet, key, effect, deadline);
  if (!got.ok() || !*got) return got;
  return std::optional(Spoil(fault, **std::move(got), options.into));
}

Result<PutOutcome> FaultyStore::PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) {
  const Fault fault = Draw(StoreOp::kCreate, key);
  PutOutcome created{PutOutcome::kCreated, {}};
  if (fault.kind == Fault::kSayExists) return PutOutcome{PutOutcome::kExists, {}};
  if (fault.kind == Fault::kDrop) return created;
  Remember(key, deadline);
  switch (fault.kind) {
    case Fault::kIgnoreCondition: HR_RETURN_IF_ERROR(inner().Put(key, body, deadline)); return created;
    case Fault::kAcceptTwo: {
      HR_ASSIGN_OR_RETURN(PutOutcome outcome, inner().PutIfAbsent(key, body, deadline));
      return outcome.kind == PutOutcome::kExists ? created : outcome;
    }
    case Fault::kRacyCreate: {
      HR_ASSIGN_OR_RETURN(std::optional<Object> there, inner().Get(key, deadline));
      if (there) return PutOutcome{PutOutcome::kExists, {}};
      HR_RETURN_IF_ERROR(PassTime(executor_.clock(), deadline, fault.delay, Cat("create ", Describe(key))));
      HR_RETURN_IF_ERROR(inner().Put(key, body, deadline));
      return created;
    }
    default: break;
  }
  Effect<Result<PutOutcome>> effect = [key = KeyUnder(fault, key), sent = Spoil(fault, body)](
                                          ObjectStore& store, const Deadline& d) { return store.PutIfAbsent(key, sent, d); };
  return Do(fault, StoreOp::kCreate, key, effect, deadline);
}

Status FaultyStore::Put(const std::string& key, const Body& body, const Deadline& deadline) {
  const Fault fault = Draw(StoreOp::kPut, key);
  if (fault.kind == Fault::kDrop) return {};
  Remember(key, deadline);
  Effect<Status> effect = [key = KeyUnder(fault, key), sent = Spoil(fault, body)](ObjectStore& store, const Deadline& d) {
    return store.Put(key, sent, d);
  };
  return Do(fault, StoreOp::kPut, key, effect, deadline);
}

Result<ListPage> FaultyStore::List(const ListOptions& options, const Deadline& deadline) {
  const Fault fault = Draw(StoreOp::kList, options.prefix);
  Effect<Result<ListPage>> effect = [&](ObjectStore& store, const Deadline& d) { return store.List(options, d); };
  auto page = Do(fault, StoreOp::kList, options.prefix, effect, deadline);
  if (!page.ok()) return page;
  std::lock_guard lock(mutex_);
  if (fault.kind == Fault::kLoseEntries && !page->entries.empty()) {
    forgotten_.insert(page->entries[random_.Below(page->entries.size())].key);
  }
  Instant now = executor_.clock().Now();
  std::erase_if(page->entries, [&](const ListEntry& entry) {
    if (forgotten_.contains(entry.key)) return true;
    auto change = changes_.find(entry.key);
    return fault.kind == Fault::kStaleList && change != changes_.end() && now - change->second.at < fault.delay;
  });
  return page;
}

Status FaultyStore::Delete(std::span<const std::string> keys, const Deadline& deadline) {
  const std::string first = keys.empty() ? "" : keys.front();
  const Fault fault = Draw(StoreOp::kDelete, first);
  if (fault.kind == Fault::kDrop) return {};
  std::vector<std::string> meant;
  for (const std::string& key : keys) {
    Remember(key, deadline);
    meant.push_back(KeyUnder(fault, key));
  }
  Effect<Status> effect = [meant](ObjectStore& store, const Deadline& d) { return store.Delete(meant, d); };
  return Do(fault, StoreOp::kDelete, first, effect, deadline);
}

}  // namespace headrace
