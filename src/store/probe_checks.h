// The properties that `Probe` tries, one function each.
//
// A check answers whether the property held and what was seen; its error means that it could not be tried.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "store/probe.h"

namespace headrace {

// Where the checks work.
struct ProbeRun {
  ObjectStore& store;  // everything in it is the probe's own; tries again what may pass
  ObjectStore& once;   // the same objects, one attempt a call: for writes that count only if their first answer came
  const ProbeOptions& options;
  const Deadline& deadline;
  Executor& executor;
  Random random;
  std::string_view title = {};  // of the check that is running

  Clock& clock() { return executor.clock(); }
  // A create looks for its outcome until its deadline; nobody shall wait for one of them until the end of the probe.
  Deadline ForOneCreate() { return deadline.NotAfter(clock().Now() + std::chrono::minutes(1)); }
  void Progress(int done, int of) const {
    if (options.on_progress) options.on_progress(title, done, of);
  }
};

struct ProbeFinding {
  bool held;
  std::string seen;
};

struct Property {
  std::string_view name;
  std::string_view title;
  std::string_view need;
  Result<ProbeFinding> (*check)(ProbeRun& run);
};

// Text that nobody else writes, so that a reader knows whose bytes it has.
std::string Unique(Random& random, std::string_view what);
// In words how `got` differs from what was written; nothing if it does not.
std::string Difference(const Bytes& written, const std::optional<Object>& got);
Result<std::string> ReadBack(ProbeRun& run, const std::string& key, const Bytes& written, const GetOptions& options = {});

Result<ProbeFinding> CheckBytes(ProbeRun& run);
Result<ProbeFinding> CheckRanges(ProbeRun& run);
Result<ProbeFinding> CheckReadAfterWrite(ProbeRun& run);
Result<ProbeFinding> CheckReadAfterReplace(ProbeRun& run);
Result<ProbeFinding> CheckReadAfterDelete(ProbeRun& run);
Result<ProbeFinding> CheckCreateTwice(ProbeRun& run);
Result<ProbeFinding> CheckRace(ProbeRun& run);
Result<ProbeFinding> CheckLists(ProbeRun& run);
Result<ProbeFinding> CheckDeletes(ProbeRun& run);
Result<ProbeFinding> CheckKeys(ProbeRun& run);

// clang-format off
inline constexpr std::array kProperties = {
    Property{"read_after_write", "an object can be read as soon as it was written",
             "Headrace needs a read that follows a write to see it.", CheckReadAfterWrite},
    Property{"read_after_replace", "a replaced object is not seen any more",
             "Headrace needs a read that follows a write to see it.", CheckReadAfterReplace},
    Property{"read_after_delete", "a deleted object is not seen any more",
             "Headrace needs a read that follows a delete to see it.", CheckReadAfterDelete},
    Property{"bytes", "bytes come back as they were written",
             "Headrace needs every byte back.", CheckBytes},
    Property{"ranges", "a range brings exactly the bytes asked for",
             "Headrace reads a rank's share of a chunk by its range.", CheckRanges},
    Property{"create", "a second creator is refused, and the first one's bytes stay",
             "Headrace needs create-if-absent: it is how a step is committed.", CheckCreateTwice},
    Property{"race", "exactly one of many creators at once wins",
             "Headrace needs create-if-absent to be atomic.", CheckRace},
    Property{"lists", "a list is complete, over several pages and at once",
             "Headrace finds pending work and garbage by listing.", CheckLists},
    Property{"deletes", "a delete removes what it names and nothing else",
             "Headrace needs deletes to do what they say.", CheckDeletes},
    Property{"keys", "keys with unusual characters are kept apart",
             "Headrace needs every key to name one object.", CheckKeys},
};
// clang-format on

}  // namespace headrace
