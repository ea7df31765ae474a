// What a stream keeps, and what it may give back: nothing at or after the lowest pin goes, and without any pin nothing goes.
#pragma once

#include <cstdint>
#include <string>

#include "headrace/clock.h"

namespace headrace {

// A named hold, of a checkpoint as a rule: its step and all that follow stay.
struct Pin {
  std::string name;
  uint64_t step = 0;
  uint64_t counter = 0;  // number of the manifest that set or renewed it last: grows for as long as somebody is there
  uint32_t term_seconds = 0;  // 0: stays until it is taken away
  friend bool operator==(const Pin&, const Pin&) = default;
};

struct CollectOptions {
  // A courtesy to readers that still hold an old manifest, not a condition of safety: they would learn that what they want was trimmed.
  Duration grace = std::chrono::seconds(60);
  bool dry_run = false;  // says what would go, changes nothing
  uint64_t keep_manifests = 64;  // newest manifests that are never forgotten
};

// What a collection gave back.
struct Collected {
  uint64_t trim_step = 0;  // the stream begins here now
  uint64_t expired_pins = 0;
  uint64_t chunks = 0, chunk_bytes = 0;  // before the trim point
  uint64_t kept_chunks = 0, kept_chunk_bytes = 0;  // before the trim point, and still there: the last one of each strand
  uint64_t orphans = 0, orphan_bytes = 0;  // left by crashes
  uint64_t segments = 0;
  uint64_t intents = 0;
  uint64_t manifests = 0;
};

}  // namespace headrace
