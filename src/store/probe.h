// Can this store be trusted with a stream? Finds out by trying everything that a stream relies on.
//
// Each property of the contract (headrace/store.h) is one check with what was seen. A store that is slow, refuses for a while
// or loses answers passes: outcomes are looked up, as they will be in earnest. A store that lies fails, with the lie in
// words. What could not be tried (no permission, nobody there, no time) is neither: `untested` says why and what to do.
//
// Works under `headrace-probe-<nonce>/`, and removes everything that it wrote in any case, also after a stop. Some 2,000
// small requests and 40 MB. Blocks for as long as they take; the races run on the executor, and may be simulated.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/executor.h"
#include "base/random.h"
#include "headrace/store.h"

namespace headrace {

struct ProbeCheck {
  enum Verdict { kPassed, kFailed, kUntested };

  std::string name;   // one word, for machines: "race"
  std::string title;  // the property, for people: "exactly one of many creators wins"
  std::string need;   // why it matters: "Headrace needs create-if-absent to be atomic."
  Verdict verdict = kUntested;
  std::string seen;  // "the store accepted two creators of the same key (race 3 of 20)"
  Duration took{};
};

struct ProbeOptions {
  int racers = 32;
  int rounds = 20;
  uint64_t large_bytes = 8 << 20;
  int listed = 60;  // objects in the list that must be complete, in pages of `page`
  int page = 25;
  // All checks at once, which takes as long as the longest of them; else one after the other.
  bool side_by_side = false;
  // When a check is done, from the caller's own thread; and while it goes on, one call at a time.
  std::function<void(const ProbeCheck& check)> on_check = {};
  std::function<void(std::string_view title, int done, int of)> on_progress = {};
};

struct ProbeReport {
  std::string store;               // its URI
  std::vector<ProbeCheck> checks;  // all properties, in the order of the checks
  Status untested;                 // why some could not be tried
  Status left_behind;              // what could not be removed, and why

  // Everything was tried, and everything held.
  bool safe() const;
  // The first property that does not hold, or null.
  const ProbeCheck* broken() const;
};

ProbeReport Probe(ObjectStore& store, const ProbeOptions& options, const Deadline& deadline, Executor& executor, Random random);

// Ok if a stream may be created here; otherwise the reason, for the person who wanted one.
Status RequireSafe(ObjectStore& store, const ProbeOptions& options, const Deadline& deadline, Executor& executor, Random random);

}  // namespace headrace
