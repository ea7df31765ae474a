// Whether reads and deletes follow what was changed.
//
// A request whose answer was lost may land late and undo a later one; that is trouble, and no lie. So a trial counts only if
// each of its writes was answered at the first attempt, and each trial has keys of its own. What is left of such doubt (an
// answered request that something on the way repeats later) is rare: one bad trial is a suspicion, a second one a finding.
//
// Whether the bytes are right is another check's question: here it counts only whether they are there, and not the old ones.
#include <algorithm>
#include <functional>

#include "base/text.h"
#include "store/backoff.h"
#include "store/probe_checks.h"

namespace headrace {
namespace {

struct Trial {
  enum Outcome { kHeld, kBroken, kDoesNotCount };
  Outcome outcome;
  std::string seen = {};  // if broken
  Status trouble = {};    // if it does not count: what the first write that was not answered came to
};

using TrialCheck = std::function<Result<Trial>(const std::string& name)>;

constexpr int kTrialsAfterSuspicion = 20;

// Trouble that another trial would only meet again.
bool IsFinal(const Status& trouble) {
  switch (trouble.code()) {
    case Code::kInvalidArgument:
    case Code::kUnsupported:
    case Code::kNotFound:
    case Code::kDenied:
    case Code::kFull:
    case Code::kCancelled:
    case Code::kInternal: return true;
    default: return false;
  }
}

// Trials until `times` of them counted and held, or two were broken.
Result<ProbeFinding> Repeat(ProbeRun& run, int times, std::string_view held, const TrialCheck& trial) {
  Backoff backoff(std::chrono::milliseconds(20), std::chrono::seconds(2));
  Status trouble;
  bool suspicion = false;
  int counted = 0;
  for (int tried = 0; counted < times; ++tried) {
    // A store so lossy that only some trials count is judged by those.
    if (tried > 10 * times) break;
    run.Progress(counted, times);
    HR_ASSIGN_OR_RETURN(Trial result, trial(Cat(tried)));
    if (result.outcome == Trial::kDoesNotCount) {
      trouble = std::move(result.trouble);
      if (IsFinal(trouble)) return trouble;
      if (Status slept = run.deadline.Sleep(run.clock(), backoff.Next(run.random, trouble.retry_after()), "probing"); !slept.ok())
        return slept.code() == Code::kTimeout ? Status(slept.code(), Cat("out of time; until then: ", trouble.message())) : slept;
      continue;
    }
    ++counted;
    if (result.outcome == Trial::kHeld) continue;
    if (suspicion) return ProbeFinding{false, std::move(result.seen)};
    suspicion = true;
    times = counted + kTrialsAfterSuspicion;
  }
  if (counted == 0) return trouble;
  return ProbeFinding{true, Cat(counted, counted == 1 ? " time: " : " times: ", held)};
}

Result<Trial> Broken(std::string seen) { return Trial{.outcome = Trial::kBroken, .seen = std::move(seen)}; }

std::optional<Trial> UnlessAtOnce(Status done) {
  if (done.ok()) return std::nullopt;
  return Trial{.outcome = Trial::kDoesNotCount, .trouble = std::move(done)};
}

// A new object, unless its create was not told at the first attempt that it happened: then the trial does not count.
std::optional<Trial> CreateAtOnce(ProbeRun& run, const std::string& key, std::string_view what) {
  Result<PutOutcome> put = run.once.PutIfAbsent(key, Body(Unique(run.random, what)), run.ForOneCreate());
  if (!put.ok()) return UnlessAtOnce(put.status());
  if (put->kind == PutOutcome::kUnknown) return UnlessAtOnce(put->reason);
  if (put->kind == PutOutcome::kCreated) return std::nullopt;
  return UnlessAtOnce(Status(Code::kConflict, Cat("creating ", run.once.Describe(key), ": a new key was said to be taken")));
}

Result<bool> IsThere(ProbeRun& run, const std::string& key) {
  auto got = run.store.Get(key, run.deadline);
  if (!got.ok()) return got.status();
  return got->has_value();
}

}  // namespace

Result<ProbeFinding> CheckReadAfterWrite(ProbeRun& run) {
  constexpr size_t kReaders = 4;
  return Repeat(run, 10, "written, and seen at once by 4 readers", [&](const std::string& name) -> Result<Trial> {
    std::string key = Cat("write/", name);
    // Asking first is what makes a cache of absences show.
    HR_ASSIGN_OR_RETURN(bool there, IsThere(run, key));
    if (there) return Broken("the store found something under a key that was never written");
    if (auto unclear = CreateAtOnce(run, key, "written")) return *std::move(unclear);

    std::vector<Result<bool>> seen(kReaders, false);
    TaskGroup readers(run.executor);
    for (Result<bool>& by_reader : seen) readers.Spawn([&] { by_reader = IsThere(run, key); });
    readers.Wait();
    for (const Result<bool>& by_reader : seen) {
      if (!by_reader.ok()) return by_reader.status();
      if (!*by_reader) return Broken("the store did not show an object right after it was written: it was not found");
    }
    return Trial{Trial::kHeld};
  });
}

Result<ProbeFinding> CheckReadAfterReplace(ProbeRun& run) {
  return Repeat(run, 5, "replaced twice, and the new bytes seen at once", [&](const std::string& name) -> Result<Trial> {
    std::string key = Cat("replace/", name);
    std::vector<Bytes> before;
    for (std::string_view version : {"one", "two, longer", "3"}) {
      Bytes written = Bytes::FromString(Unique(run.random, version));
      if (auto unclear = UnlessAtOnce(run.once.Put(key, Body(written), run.deadline))) return *std::move(unclear);
      auto got = run.store.Get(key, run.deadline);
      if (!got.ok()) return got.status();
      if (!*got) return Broken("the store did not show an object right after it was put: it was not found");
      if (std::ranges::count(before, (*got)->bytes) > 0) return Broken("the store showed old bytes after an object was replaced");
      before.push_back(std::move(written));
    }
    return Trial{Trial::kHeld};
  });
}

Result<ProbeFinding> CheckReadAfterDelete(ProbeRun& run) {
  return Repeat(run, 5, "deleted, and gone at once; created again, and there", [&](const std::string& name) -> Result<Trial> {
    std::string key = Cat("delete/", name);
    for (std::string_view life : {"first", "second"}) {
      if (auto unclear = CreateAtOnce(run, key, life)) return *std::move(unclear);
      HR_ASSIGN_OR_RETURN(bool there, IsThere(run, key));
      if (!there) return Broken("the store did not show an object that was created again after a delete");
      if (auto unclear = UnlessAtOnce(run.once.DeleteOne(key, run.deadline))) return *std::move(unclear);
      HR_ASSIGN_OR_RETURN(there, IsThere(run, key));
      if (there) return Broken("the store still showed an object after it was deleted");
    }
    return Trial{Trial::kHeld};
  });
}

Result<ProbeFinding> CheckDeletes(ProbeRun& run) {
  constexpr size_t kKept = 10, kDeleted = 30;
  return Repeat(run, 1, "30 keys deleted in one request, 10 others stayed", [&](const std::string& name) -> Result<Trial> {
    std::string folder = Cat("deletes/", name, "/");
    std::vector<std::string> kept, deleted;
    for (size_t i = 0; kept.size() < kKept || deleted.size() < kDeleted; ++i) {
      std::string key = Cat(folder, i);
      Status put = run.once.Put(key, Body(key), run.deadline);
      if (put.ok()) {
        (kept.size() < kKept && i % 4 == 0 ? kept : deleted).push_back(key);
      } else if (IsFinal(put) || i > 10 * (kKept + kDeleted)) {
        return put;
      } else {
        // What may land late cannot be expected to be gone; such keys are left out of it.
        HR_RETURN_IF_ERROR(run.deadline.Sleep(run.clock(), put.retry_after().value_or(Duration::zero()), "probing"));
      }
    }
    deleted.push_back(Cat(folder, "never-written"));  // absent ones are fine

    std::string left;
    for (int again = 0; again < 2; ++again) {
      HR_RETURN_IF_ERROR(run.store.Delete(deleted, run.deadline));
      left.clear();
      HR_ASSIGN_OR_RETURN(std::vector<ListEntry> listed, ListAll(run.store, folder, run.deadline));
      for (const ListEntry& entry : listed) {
        if (std::ranges::count(deleted, entry.key) > 0) left = entry.key;
      }
      for (const std::string& key : {deleted.front(), deleted[deleted.size() / 2]}) {
        HR_ASSIGN_OR_RETURN(bool there, IsThere(run, key));
        if (there) left = key;
      }
      if (left.empty()) break;
    }
    if (!left.empty()) return Broken(Cat("the store called a delete done, and objects such as ", left, " are still there"));
    for (const std::string& key : kept) {
      HR_ASSIGN_OR_RETURN(bool there, IsThere(run, key));
      if (!there) return Broken(Cat("the store deleted more than it was asked to: ", key, " was to be kept, and was not found"));
    }
    return Trial{Trial::kHeld};
  });
}

}  // namespace headrace
