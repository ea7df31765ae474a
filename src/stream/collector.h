// Gives back what no pin needs.
//
// One `Collect` expires pins whose holders are dead, commits a new trim point at or below the lowest pin, lets old manifests be
// forgotten, waits for a grace period, and deletes: chunks and index segments before the trim point, orphans that crashes left, intents
// that were carried or refused, forgotten manifests. Any number of collectors may run at once and die at any moment: every step is safe
// alone (docs/design/0005-deleting.md).
//
// The grace period is a courtesy to readers that still hold an old manifest, not a condition of safety: they would learn that what they
// want was trimmed.
//
// Not thread-safe. Remembers, between calls, for how long a pin's counter has been seen to stand still.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "headrace/retention.h"
#include "stream/stream_log.h"

namespace headrace {

class Collector {
 public:
  explicit Collector(std::shared_ptr<StreamLog> log) : log_(std::move(log)) {}

  Result<Collected> Collect(const CollectOptions& options, const Deadline& deadline);

 private:
  struct Garbage {
    std::vector<std::string> keys;
    Collected counts;
  };
  Status ExpirePins(Collected& counts, bool dry_run, const Deadline& deadline);
  Status Trim(bool dry_run, Manifest& planned, const Deadline& deadline);
  Status SealRest(const Deadline& deadline);
  // What may be deleted, judged by a manifest that is read after everything was listed.
  Result<Garbage> Find(const Manifest* planned, const Deadline& deadline);

  std::shared_ptr<StreamLog> log_;
  struct Seen {
    uint64_t counter;
    Instant looked;
    Duration still;  // for how long it was watched standing still
  };
  std::map<std::string, Seen> seen_;
};

}  // namespace headrace
