// What shall go wrong with which calls of a `FaultyStore`: a script, a table of probabilities, or both.
//
//   FaultPlan plan;
//   plan.Nth(StoreOp::kCreate, 1, Fault::FailAfter());             // the first create lands, and its answer is lost
//   plan.Sometimes(StoreOp::kGet, 0.01, Fault::Refuse(Code::kThrottled, 2s));
//   plan.Always(StoreOp::kList, Fault::LoseEntries());
//
// The first rule that strikes decides. A fault that has no meaning for an operation leaves it alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/clock.h"
#include "headrace/status.h"
#include "store/operation.h"

namespace headrace {

struct Fault {
  enum Kind {
    kNone,

    // Trouble, which every store has. Its answers stay true, and callers must cope.
    kRefuse,      // nothing happens, and the answer says so: throttled, expired credentials, denied, full, never sent
    kFailBefore,  // nothing happens, and the answer is lost
    kFailAfter,   // it happens, and the answer is lost
    kLandLate,    // the answer is lost, and it happens later
    kTwice,       // the wire sends it twice, and the second answer comes: a create meets itself
    kAgainLater,  // it happens and is answered, and happens once more later
    kSayExists,   // a create is told that the key is taken (412) without cause; it does nothing
    kSlow,        // the answer comes late

    // Lies, which break the contract. `Probe` must see them.
    kTruncate,         // half of the bytes are missing from what is read or written, and nothing shows it
    kFlip,             // one bit of what is read or written is wrong
    kDrop,             // a write or delete does nothing and is called done; a get finds nothing
    kIgnoreCondition,  // a create replaces what is there
    kAcceptTwo,        // a create of a taken key is called created; the first one's bytes stay
    kRacyCreate,       // a create looks, waits, then puts: right for one creator at a time, wrong for several
    kIgnoreRange,      // a get brings the whole object
    kStaleRead,        // a get sees the object as it was before the last write, for a while
    kStaleList,        // a list does not show what was written a short while ago
    kLoseEntries,      // a list forgets one of its entries, for ever
    kPlusIsSpace,      // "a+b" is taken for "a b", as a careless decoder of URLs does
  };

  Kind kind = kNone;
  Code code = Code::kUnavailable;           // of the error, or of the reason why an outcome is unknown
  std::optional<Duration> retry_after = {};
  Duration delay = {};                      // how much later, or how long stale
  Duration longest = {};                    // if greater: drawn between the two

  static Fault Refuse(Code code, std::optional<Duration> retry_after = {}) {
    return {.kind = kRefuse, .code = code, .retry_after = retry_after};
  }
  static Fault FailBefore(Code code = Code::kUnavailable, std::optional<Duration> retry_after = {}) {
    return {.kind = kFailBefore, .code = code, .retry_after = retry_after};
  }
  static Fault FailAfter(Code code = Code::kUnavailable) { return {.kind = kFailAfter, .code = code}; }
  static Fault LandLate(Duration delay, Duration longest = {}) { return {.kind = kLandLate, .delay = delay, .longest = longest}; }
  static Fault Twice() { return {.kind = kTwice}; }
  static Fault AgainLater(Duration delay, Duration longest = {}) {
    return {.kind = kAgainLater, .delay = delay, .longest = longest};
  }
  static Fault SayExists() { return {.kind = kSayExists}; }
  static Fault Slow(Duration delay, Duration longest = {}) { return {.kind = kSlow, .delay = delay, .longest = longest}; }
  static Fault Truncate() { return {.kind = kTruncate}; }
  static Fault Flip() { return {.kind = kFlip}; }
  static Fault Drop() { return {.kind = kDrop}; }
  static Fault IgnoreCondition() { return {.kind = kIgnoreCondition}; }
  static Fault AcceptTwo() { return {.kind = kAcceptTwo}; }
  static Fault RacyCreate(Duration between) { return {.kind = kRacyCreate, .delay = between}; }
  static Fault IgnoreRange() { return {.kind = kIgnoreRange}; }
  static Fault StaleRead(Duration window) { return {.kind = kStaleRead, .delay = window}; }
  static Fault StaleList(Duration window) { return {.kind = kStaleList, .delay = window}; }
  static Fault LoseEntries() { return {.kind = kLoseEntries}; }
  static Fault PlusIsSpace() { return {.kind = kPlusIsSpace}; }
};

// "fail after", "racy create", …
std::string_view FaultName(Fault::Kind kind);

struct FaultRule {
  Fault fault;
  std::optional<StoreOp> op = {};  // none: every operation
  std::string key_prefix = {};     // only keys (for a list: prefixes) that begin like this
  uint64_t first = 1;              // which of the calls that match, counted from 1
  uint64_t last = UINT64_MAX;
  double probability = 1;
};

struct FaultPlan {
  std::vector<FaultRule> rules;

  FaultPlan& Add(FaultRule rule);
  FaultPlan& Nth(StoreOp op, uint64_t n, Fault fault) { return Add({.fault = fault, .op = op, .first = n, .last = n}); }
  FaultPlan& FirstFew(StoreOp op, uint64_t n, Fault fault) { return Add({.fault = fault, .op = op, .last = n}); }
  FaultPlan& Always(StoreOp op, Fault fault) { return Add({.fault = fault, .op = op}); }
  FaultPlan& Always(Fault fault) { return Add({.fault = fault}); }
  FaultPlan& Sometimes(StoreOp op, double probability, Fault fault) {
    return Add({.fault = fault, .op = op, .probability = probability});
  }

  // Everything that a true store behind a bad network does, each with this probability: a caller that keeps its promises
  // over this one keeps them everywhere.
  static FaultPlan Trouble(double probability);
};

}  // namespace headrace
