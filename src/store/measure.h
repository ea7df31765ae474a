// How fast a store is, for what a stream does with it.
//
// Seven phases, each from one request at a time to as many as still gain something (twice as many, until two doublings in a
// row bring less than 7 %): commits, which are serial and stay at one; small writes, reads and lists; large writes; reads of whole
// objects; reads of ranges. Every byte that comes back is checked against what was written.
//
// Bounded in time, in bytes written and in memory. Everything is written below one fresh prefix and removed at the end, also
// after a failure and after being asked to stop; what could not be removed is named.
//
// May be simulated. One measurement is one call; calls do not share anything.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/executor.h"
#include "base/random.h"
#include "headrace/store.h"
#include "store/measure_level.h"

namespace headrace {

struct MeasureOptions {
  Duration time = std::chrono::seconds(20);  // for everything but the removal
  uint64_t size = 256'000'000;  // bytes written at the most, over all phases
  uint64_t range_bytes = 1 << 20;
  uint64_t small_bytes = 16 << 10;  // about a manifest
  size_t max_concurrency = 128;
  uint64_t memory = 512 << 20;  // of requests in flight; fewer run at once if it does not suffice
  bool into_own_memory = true;  // reads land in memory that is used again; false: the store brings its own (a mapped file)
};

enum class MeasureKind { kCommits, kSmallWrites, kSmallReads, kLists, kLargeWrites, kObjectReads, kRangeReads };

// "commits", "small_writes", …
std::string_view MeasureName(MeasureKind kind);

struct MeasurePhase {
  // Why there was no further level.
  enum class End {
    kNotRun,  // the run ended before, or nothing was there to read
    kFlat,  // more at once gained nothing
    kTime,  // its share of the time was used up
    kSize,  // the bytes that may be written were
    kConcurrency,  // still gaining at the most that was allowed
    kSerial,  // there is only one level
  };

  MeasureKind kind;
  uint64_t request_bytes = 0;
  std::vector<MeasureLevel> levels;  // rising
  End end = End::kNotRun;

  bool empty() const { return levels.empty(); }
  const MeasureLevel& single() const { return levels.front(); }
  const MeasureLevel& best() const;
};

struct MeasureReport {
  std::vector<MeasurePhase> phases;  // one of each kind
  Status failure;  // why it ended early; what came before is there
  uint64_t written_bytes = 0;
  Duration elapsed{};
  uint64_t damaged = 0;  // reads that brought other bytes than were written
  std::string damaged_example;  // one of them: the object and the range
  std::vector<std::string> left_behind;  // objects that could not be removed
  Status removal_failure;  // and why

  const MeasurePhase& phase(MeasureKind kind) const { return phases[static_cast<size_t>(kind)]; }
};

// What is going on, for a live line.
struct MeasureView {
  MeasureKind phase;
  bool removing = false;
  MeasureLevel so_far;
  double done = 0;  // of the time, 0 to 1
};

MeasureReport Measure(ObjectStore& store, const MeasureOptions& options, Executor& executor, Random random, std::stop_token stop,
                      const std::function<void(const MeasureView&)>& watch);

}  // namespace headrace
