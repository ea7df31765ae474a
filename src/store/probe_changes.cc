// Whether reads and deletes follow what was changed.
//
// A request whose answer was lost may land late and undo a later one; that is trouble, and no lie. So a trial counts only if
// each of its writes was answered at the first attempt, and each trial has keys of its own. What is left of such doubt (an
// answered request that something on the way repeats later) is rare: one bad trial is a suspicion, a second one a finding.
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
  std::string seen = {};   // if broken
  Status trouble = {};     // if it does not count: what the first write that was not answered came to
};

constexpr int kTrialsAfterSuspicion = 20;

// Trials until `times` of them counted and held, or two were broken.
Result<Finding> Repeat(ProbeRun& run, int times, std::string held,
                       const std::function<Result<Trial>(const std::string& name)>& trial) {
  Backoff backoff(std::chrono::milliseconds(20), std::chrono::seconds(2));
  Status trouble;
  std::string suspicion;
  int counted = 0;
  for (int tried = 0; counted < times; ++tried) {
    // A store so lossy that only some trials count is judged by those.
    if (tried > 10 * times) break;
    run.Progress(counted, times);
    HR_ASSIGN_OR_RETURN(Trial result, trial(Cat(tried)));
    if (result.outcome == Trial::kDoesNotCount) {
      trouble = std::move(result.trouble);
      HR_RETURN_IF_ERROR(run.deadline.Sleep(run.clock(), backoff.Next(run.random, trouble.retry_after()), "probing"));
      continue;
    }
    ++counted;
    if (result.outcome == Trial::kHeld) continue;
    if (!suspicion.empty()) return Finding{false, std::move(result.seen)};
    suspicion = std::move(result.seen);
    times = counted + kTrialsAfterSuspicion;
  }
  if (counted == 0) return trouble;
  return Finding{true, Cat(counted, counted == 1 ? " time: " : " times: ", held)};
}

Result<Trial> Broken(std::string seen) { return Trial{.outcome = Trial::kBroken, .seen = std::move(seen)}; }

// A create that was told to have happened, at the first attempt; anything else makes the trial one that does not count.
std::optional<Trial> CreateAtOnce(ProbeRun& run, const std::string& key, const Bytes& bytes) {
  Result<PutOutcome> put = run.once.PutIfAbsent(key, Body(bytes), run.ForOneCreate());
  if (put.ok() && put->kind == PutOutcome::kCreated) return std::nullopt;
  Status trouble = put.ok() ? put->reason : put.status();
  if (trouble.ok())
    trouble = Status(Code::kConflict, Cat("creating ", run.once.Describe(key), ": a new key was said to be taken"));
  return Trial{.outcome = Trial::kDoesNotCount, .trouble = std::move(trouble)};
}

std::optional<Trial> UnlessAtOnce(Status done) {
  if (done.ok()) return std::nullopt;
  return Trial{.outcome = Trial::kDoesNotCount, .trouble = std::move(done)};
}

}  // namespace

Result<Finding> CheckReadAfterWrite(ProbeRun& run) {
  constexpr size_t kReaders = 4;
  return Repeat(run, 10, Cat("written, and seen at once by ", kReaders, " readers"),
                [&](const std::string& name) -> Result<Trial> {
                  std::string key = Cat("write/", name);
                  // Asking first is what makes a cache of absences show.
                  auto before = run.store.Get(key, run.deadline);
                  if (!before.ok()) return before.status();
                  if (*before)
                    return Broken(Cat("the store found ", (*before)->size, " bytes under a key that was never written"));
                  Bytes written = Bytes::FromString(Unique(run.random, key));
                  if (auto unclear = CreateAtOnce(run, key, written)) return *std::move(unclear);

                  std::vector<Result<std::string>> wrong(kReaders, std::string());
                  TaskGroup readers(run.executor);
                  for (Result<std::string>& difference : wrong) readers.Spawn([&] { difference = ReadBack(run, key, written); });
                  readers.Wait();
                  for (const Result<std::string>& difference : wrong) {
                    if (!difference.ok()) return difference.status();
                    if (!difference->empty())
                      return Broken(Cat("the store did not show an object right after it was written: ", *difference));
                  }
                  return Trial{Trial::kHeld};
                });
}

Result<Finding> CheckReadAfterReplace(ProbeRun& run) {
  return Repeat(run, 5, "replaced twice, and the new bytes seen at once", [&](const std::string& name) -> Result<Trial> {
    std::string key = Cat("replace/", name);
    for (std::string_view version : {"one", "two, longer", "3"}) {
      Bytes written = Bytes::FromString(Unique(run.random, version));
      if (auto unclear = UnlessAtOnce(run.once.Put(key, Body(written), run.deadline))) return *std::move(unclear);
      HR_ASSIGN_OR_RETURN(std::string wrong, ReadBack(run, key, written));
      if (!wrong.empty()) return Broken(Cat("the store showed old bytes after an object was replaced: ", wrong));
    }
    return Trial{Trial::kHeld};
  });
}

Result<Finding> CheckReadAfterDelete(ProbeRun& run) {
  return Repeat(run, 5, "deleted, and gone at once; created again, and there", [&](const std::string& name) -> Result<Trial> {
    std::string key = Cat("delete/", name);
    for (std::string_view life : {"first", "second"}) {
      Bytes written = Bytes::FromString(Unique(run.random, life));
      if (auto unclear = CreateAtOnce(run, key, written)) return *std::move(unclear);
      HR_ASSIGN_OR_RETURN(std::string wrong, ReadBack(run, key, written));
      if (!wrong.empty()) return Broken(Cat("the store did not show an object that was created again after a delete: ", wrong));
      if (auto unclear = UnlessAtOnce(run.once.DeleteOne(key, run.deadline))) return *std::move(unclear);
      auto after = run.store.Get(key, run.deadline);
      if (!after.ok()) return after.status();
      if (*after) return Broken("the store still showed an object after it was deleted");
    }
    return Trial{Trial::kHeld};
  });
}

Result<Finding> CheckDeletes(ProbeRun& run) {
  constexpr size_t kKept = 10, kDeleted = 30;
  return Repeat(run, 1, Cat(kDeleted, " keys deleted in one request, ", kKept, " others stayed"),
                [&](const std::string& name) -> Result<Trial> {
                  std::string folder = Cat("deletes/", name, "/");
                  std::vector<std::string> kept, deleted;
                  for (size_t i = 0; kept.size() < kKept || deleted.size() < kDeleted; ++i) {
                    std::string key = Cat(folder, i);
                    // What may land late cannot be expected to be gone; such keys are left out of it.
                    Status put = run.once.Put(key, Body(key), run.deadline);
                    if (put.ok()) (kept.size() < kKept && i % 4 == 0 ? kept : deleted).push_back(key);
                    if (!put.ok() && i > 10 * (kKept + kDeleted)) return put;
                    if (!put.ok()) HR_RETURN_IF_ERROR(run.deadline.Check(run.clock(), "probing"));
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
                      auto got = run.store.Get(key, run.deadline);
                      if (!got.ok()) return got.status();
                      if (*got) left = key;
                    }
                    if (left.empty()) break;
                  }
                  if (!left.empty())
                    return Broken(Cat("the store called a delete done, and objects such as ", left, " are still there"));
                  for (const std::string& key : kept) {
                    HR_ASSIGN_OR_RETURN(std::string wrong, ReadBack(run, key, Bytes::FromString(key)));
                    if (!wrong.empty())
                      return Broken(Cat("the store deleted more than it was asked to: ", key, " was to be kept; ", wrong));
                  }
                  return Trial{Trial::kHeld};
                });
}

}  // namespace headrace
