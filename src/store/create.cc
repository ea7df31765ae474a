#include "store/create.h"

#include "base/text.h"
#include "store/backoff.h"

namespace headrace {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(10);
constexpr Duration kLongestPause = std::chrono::seconds(2);

// Failures that may be gone the next time. With any other, looking again only makes the caller wait for the same answer.
bool MayPass(Code code) {
  return code == Code::kUnavailable || code == Code::kThrottled || code == Code::kTimeout || code == Code::kExpired ||
         code == Code::kCorrupt;
}

// The whole object, or what hinders. A part of it would pass for another's bytes.
Result<std::optional<Object>> Look(ObjectStore& store, const std::string& key, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::optional<Object> seen, store.Get(key, deadline));
  if (seen && seen->bytes.size() != seen->size) {
    return Status(Code::kUnavailable,
                  Cat("reading ", store.Describe(key), ": ", seen->bytes.size(), " of ", seen->size, " bytes came"));
  }
  return seen;
}

}  // namespace

Result<CreateResult> Create(ObjectStore& store, const std::string& key, const Body& body, const Deadline& deadline, Clock& clock,
                            Random& random) {
  const std::string what = Cat("creating ", store.Describe(key));
  HR_RETURN_IF_ERROR(deadline.Check(clock, what));

  Backoff backoff(kFirstPause, kLongestPause);
  Status doubt;     // why the answer to the last put could not be taken as it is
  bool put = true;  // or only look
  bool in_doubt = false;
  auto unknown = [&](const Status& obstacle) {
    Status reason(Code::kOutcomeUnknown,
                  Cat("cannot tell whether ", store.Describe(key), " was created: ", doubt.message(), "; then ",
                      obstacle.message(), ". It may appear still: keep what was staged for it."));
    return CreateResult{.kind = CreateResult::kUnknown, .reason = std::move(reason)};
  };

  while (true) {
    if (put) {
      Result<PutOutcome> outcome = store.PutIfAbsent(key, body, deadline);
      if (!outcome.ok()) {
        if (!in_doubt) return std::move(outcome).status();
        if (!MayPass(outcome.code())) return unknown(outcome.status());
      } else if (outcome->kind == PutOutcome::kCreated) {
        return CreateResult{.kind = CreateResult::kCreated};
      } else {
        in_doubt = true;
        bool exists = outcome->kind == PutOutcome::kExists;
        doubt = exists ? Status(Code::kConflict, "the store said that it exists") : outcome->reason;
        if (doubt.retry_after()) {
          // If that is too late, a look may still tell.
          (void)deadline.Sleep(clock, backoff.Next(random, doubt.retry_after()), what);
          if (Status late = deadline.Check(clock, what); !late.ok()) return unknown(late);
        }
      }
    }

    Result<std::optional<Object>> seen = Look(store, key, deadline);
    if (seen.ok() && *seen) {
      Bytes there = std::move((*seen)->bytes);
      if (body.Equals(there.span())) return CreateResult{.kind = CreateResult::kCreated};
      return CreateResult{.kind = CreateResult::kLost, .winner = std::move(there)};
    }
    if (!seen.ok() && !MayPass(seen.code())) return unknown(seen.status());
    put = seen.ok();
    Status slept = deadline.Sleep(clock, backoff.Next(random, seen.status().retry_after()), what);
    if (slept.ok()) continue;
    return unknown(seen.ok() ? slept.Annotate("it was absent when looked up") : seen.status());
  }
}

}  // namespace headrace
