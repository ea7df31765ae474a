#include "store/probe.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/executor.h"
#include "base/text.h"
#include "store/prefixed_store.h"
#include "store/probe_checks.h"
#include "store/retrying_store.h"

namespace headrace {
namespace {

constexpr Duration kTimeToCleanUp = std::chrono::seconds(30);
constexpr Duration kPatience = std::chrono::seconds(10);
constexpr size_t kDeletesAtOnce = 500;

// Knows every key that may have been written: a list cannot be trusted yet to find them again.
class KeyRecorder final : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;

  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override {
    Record(key);
    Result<PutOutcome> outcome = StoreDecorator::PutIfAbsent(key, body, deadline);
    if (!outcome.ok()) Forget(key);  // certainly nothing was created: nobody shall be told to remove it
    return outcome;
  }
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override {
    Record(key);
    return StoreDecorator::Put(key, body, deadline);
  }

  std::vector<std::string> keys() {
    std::lock_guard lock(mutex_);
    std::vector<std::string> keys;
    for (const auto& [key, writes] : writes_) {
      if (writes > 0) keys.push_back(key);
    }
    return keys;
  }

 private:
  void Record(const std::string& key) {
    std::lock_guard lock(mutex_);
    ++writes_[key];
  }
  void Forget(const std::string& key) {
    std::lock_guard lock(mutex_);
    --writes_[key];
  }

  std::mutex mutex_;
  std::map<std::string, int> writes_;  // that may have happened
};

// Whether a failed request is the store's word about itself. Other failures only kept the property from being tried.
bool IsAnswer(Code code) {
  return code == Code::kUnsupported || code == Code::kCorrupt || code == Code::kInvalidArgument || code == Code::kConflict;
}

// Failures that are reported only after patience was lost.
bool FailedForLong(Code code) { return code == Code::kUnavailable || code == Code::kTimeout || code == Code::kOutcomeUnknown; }

Status Remove(ObjectStore& store, const std::vector<std::string>& keys, const Deadline& deadline) {
  Status failure;
  for (size_t at = 0; at < keys.size(); at += kDeletesAtOnce) {
    Status removed = store.Delete(std::span(keys).subspan(at, std::min(kDeletesAtOnce, keys.size() - at)), deadline);
    if (!removed.ok()) failure = std::move(removed);
  }
  return failure;
}

// Everything that was written goes: what we know of, and what a list still shows (a request that landed late).
Status CleanUp(ObjectStore& store, const std::vector<std::string>& written, const Deadline& deadline) {
  Status failure = Remove(store, written, deadline);
  auto rest = ListAll(store, "", deadline);
  if (rest.ok() && !rest->empty()) {
    std::vector<std::string> keys;
    for (const ListEntry& entry : *rest) keys.push_back(entry.key);
    failure = Remove(store, keys, deadline);
    rest = ListAll(store, "", deadline);
    if (rest.ok() && !rest->empty() && failure.ok()) {
      failure = Status(Code::kUnavailable, Cat("the store says that it deleted them, and ", rest->size(), " are still there"));
    }
  }
  if (!rest.ok() && failure.ok()) failure = rest.status();
  if (failure.ok()) return failure;
  return Status(failure.code(),
                Cat("could not remove everything under ", store.Describe(), "; please remove it: ", failure.message()));
}

Status Explain(const ObjectStore& store, const Status& obstacle) {
  std::string_view advice;
  switch (obstacle.code()) {
    case Code::kDenied:
    case Code::kExpired:
      advice =
          " Probing writes, reads, lists and deletes objects of its own under headrace-probe-…/: the credentials need all four.";
      break;
    case Code::kUnavailable:
    case Code::kThrottled:
    case Code::kTimeout:
    case Code::kOutcomeUnknown:
      advice = " Nothing is said about the store's safety yet: try again when it answers, or with more time.";
      break;
    case Code::kFull: advice = " Probing needs room for some 40 MB."; break;
    default: break;
  }
  // To those who wait for the verdict, an outcome that nobody can tell is a store that does not answer.
  Code code = obstacle.code() == Code::kOutcomeUnknown ? Code::kUnavailable : obstacle.code();
  return Status(code, Cat("cannot probe ", store.Describe(), ": ", obstacle.message(),
                          obstacle.message().ends_with('.') ? "" : ".", advice));
}

// Runs one check, and tells "it does not hold" from "it could not be tried".
Status Try(const Property& property, ProbeRun& run, ProbeCheck& check) {
  HR_RETURN_IF_ERROR(run.deadline.Check(run.clock(), "probing"));
  Instant began = run.clock().Now();
  Result<ProbeFinding> finding = property.check(run);
  check.took = run.clock().Now() - began;
  if (finding.ok()) {
    check.verdict = finding->held ? ProbeCheck::kPassed : ProbeCheck::kFailed;
    check.seen = std::move(finding->seen);
    return {};
  }
  Status obstacle = std::move(finding).status();
  check.seen = obstacle.message();
  // Whatever it was: with more time it might have been otherwise.
  if (Status late = run.deadline.Check(run.clock(), "probing"); !late.ok()) return Status(late.code(), obstacle.message());
  // Requests that were not given the time to be tried again as often as they should be.
  if (FailedForLong(obstacle.code()) && run.deadline.Remaining(run.clock()) < kPatience)
    return Status(Code::kTimeout, obstacle.message());
  // A request that failed every time although the store is well otherwise: then that is its answer.
  bool answer = IsAnswer(obstacle.code()) || (FailedForLong(obstacle.code()) && run.store.List({.limit = 1}, run.deadline).ok());
  if (!answer) return obstacle;
  check.verdict = ProbeCheck::kFailed;
  return {};
}

// All checks at once: each works with keys of its own. The first obstacle, in their order.
Status TryAll(ObjectStore& store, const ProbeRun& run, std::vector<ProbeCheck>& checks) {
  std::mutex mutex;
  ProbeOptions options = run.options;
  if (run.options.on_progress) {
    options.on_progress = [&](std::string_view title, int done, int of) {
      std::lock_guard lock(mutex);
      run.options.on_progress(title, done, of);
    };
  }
  std::vector<Status> obstacles(kProperties.size());
  TaskGroup group(run.executor);
  for (size_t i = 0; i < kProperties.size(); ++i) {
    group.Spawn([&, i] {
      ProbeRun own{.store = run.store,
                   .once = run.once,
                   .options = options,
                   .deadline = run.deadline,
                   .executor = run.executor,
                   .random = run.random.Fork(kProperties[i].name),
                   .title = kProperties[i].title};
      obstacles[i] = Try(kProperties[i], own, checks[i]);
    });
  }
  group.Wait();
  for (size_t i = 0; i < kProperties.size(); ++i) {
    if (run.options.on_check) run.options.on_check(checks[i]);
  }
  const auto first = std::ranges::find_if(obstacles, [](const Status& obstacle) { return !obstacle.ok(); });
  return first == obstacles.end() ? Status() : Explain(store, *first);
}

}  // namespace

bool ProbeReport::safe() const {
  return std::ranges::all_of(checks, [](const ProbeCheck& check) { return check.verdict == ProbeCheck::kPassed; });
}

const ProbeCheck* ProbeReport::broken() const {
  auto found = std::ranges::find(checks, ProbeCheck::kFailed, &ProbeCheck::verdict);
  return found == checks.end() ? nullptr : &*found;
}

ProbeReport Probe(ObjectStore& store, const ProbeOptions& options, const Deadline& deadline, Executor& executor, Random random) {
  ProbeReport report{.store = store.Describe(), .checks = {}, .untested = {}, .left_behind = {}};
  for (const Property& property : kProperties) {
    report.checks.push_back({.name = std::string(property.name),
                             .title = std::string(property.title),
                             .need = std::string(property.need),
                             .verdict = ProbeCheck::kUntested,
                             .seen = "not tried"});
  }

  auto borrowed = std::shared_ptr<ObjectStore>(std::shared_ptr<void>(), &store);
  // Whether anybody is there, before patience is spent on every single request.
  RetryingStore hasty(borrowed, {.max_attempts = 6}, executor.clock(), random.Fork("reach"));
  const std::string prefix = Cat("headrace-probe-", random.Hex(12));
  if (auto reached = hasty.List({.prefix = prefix, .limit = 1}, deadline); !reached.ok()) {
    report.untested = Explain(store, reached.status());
    return report;
  }

  auto recorded = std::make_shared<KeyRecorder>(std::make_shared<PrefixedStore>(borrowed, prefix));
  RetryingStore patient(
      recorded,
      {.longest_pause = std::chrono::seconds(2), .max_attempts = 12, .budget = {.share = 1, .per_second = 10, .burst = 1000}},
      executor.clock(), random.Fork("retries"));
  ProbeRun run{.store = patient,
               .once = *recorded,
               .options = options,
               .deadline = deadline,
               .executor = executor,
               .random = random.Fork("checks")};
  if (options.side_by_side) {
    report.untested = TryAll(store, run, report.checks);
  } else {
    for (size_t i = 0; i < kProperties.size() && report.untested.ok(); ++i) {
      run.title = kProperties[i].title;
      if (Status obstacle = Try(kProperties[i], run, report.checks[i]); !obstacle.ok())
        report.untested = Explain(store, obstacle);
      if (options.on_check) options.on_check(report.checks[i]);
    }
  }
  report.left_behind = CleanUp(patient, recorded->keys(), Deadline::After(executor.clock(), kTimeToCleanUp));
  return report;
}

Status RequireSafe(ObjectStore& store, const ProbeOptions& options, const Deadline& deadline, Executor& executor, Random random) {
  // Somebody waits for a stream.
  ProbeOptions quick = options;
  quick.side_by_side = true;
  ProbeReport report = Probe(store, quick, deadline, executor, std::move(random));
  if (const ProbeCheck* broken = report.broken()) {
    return Status(Code::kUnsupported, Cat("cannot commit to ", report.store, ": ", broken->seen, ". ", broken->need,
                                          " `headrace probe ", report.store, "` shows what this store does."));
  }
  return report.untested;
}

}  // namespace headrace
