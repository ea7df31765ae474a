// Reads ahead of a trainer, from one step on: blocks arrive in any order and are handed over in theirs.
//
// One piece of work follows the log and opens a slot for each block that becomes visible, as far as the window (in bytes) and the depth
// (in blocks) allow; each slot is filled beside the others: fetched, checked, taken apart. So the trainer's thread only picks up.
// Where a trainer takes whole columns, the first few blocks are laid out for that (see arrange.h); the others wait as they came, so that
// memory which is written to is little and used again.
// A block larger than the window is read alone. What fails for a while (a store that is down) is tried again until it is stopped;
// what will not get better (damage, trimmed steps) is handed over in its place, as an error.
//
// Thread-safe. Work holds the object, so `Stop` need not wait; `Join` does.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "base/buffer_pool.h"
#include "base/executor.h"
#include "load/depth.h"
#include "load/habit.h"
#include "load/lane_landing.h"
#include "load/late.h"
#include "load/packed.h"
#include "load/step.h"
#include "load/step_ranges.h"
#include "stream/stream_reader.h"

namespace headrace {

struct PrefetchOptions {
  uint64_t first_step = 0;
  LaneRange lanes;
  StepRanges skipped;
  uint64_t window_bytes = 512'000'000;
  size_t max_reads = 32;  // at once
  uint64_t read_bytes = 16 * 1024 * 1024;  // a larger range is read in pieces of whole lanes, side by side
  std::shared_ptr<Habit> habit = std::make_shared<Habit>();
  std::shared_ptr<BufferPool> pool = BufferPool::Make();
};

// What a loader has done so far, over all its prefetches.
struct LoadCounts {
  std::atomic<uint64_t> blocks = 0;
  std::atomic<uint64_t> reads = 0;
  std::atomic<uint64_t> retries = 0;
  std::atomic<uint64_t> bytes = 0;
};

class Prefetch : public std::enable_shared_from_this<Prefetch> {
 public:
  struct Turn {
    enum Kind {
      kBlock,  // `block` holds the step
      kEnd,  // the stream is sealed before the step
      kNotYet,  // the time has come, and it is not there
    };
    Kind kind;
    std::shared_ptr<const LoadedBlock> block;
  };

  static std::shared_ptr<Prefetch> Start(std::shared_ptr<StreamLog> log, std::shared_ptr<StreamReader> reader, Executor& executor,
                                         std::shared_ptr<LoadCounts> counts, PrefetchOptions options);

  // The block with `step`; steps before it are not wanted any more. Steps must rise, from the first one on.
  Result<Turn> Take(uint64_t step, Instant until);

  // Ends all work soon; a `Take` that waits returns kCancelled.
  void Stop();
  // Waits until no work is left.
  void Join();
  bool idle();

  // Why the trainer waits, for a person.
  std::string Waiting();
  // Remembers whom everybody waits for, so that a later `Waiting` can say whether that one has given a sign since.
  void LookWhoIsLate();

  struct Level {
    uint64_t blocks = 0;  // held or on their way
    uint64_t ready_steps = 0;  // that can be taken without waiting
    uint64_t bytes = 0;  // of the window, in use
    uint64_t depth = 0;
  };
  Level level();

 private:
  struct Part;
  struct Slot {
    Entry entry;
    uint64_t bytes = 0;  // of the window
    std::shared_ptr<Part> fetched;  // all there, and not laid out yet
    bool arranging = false;
    std::optional<Result<std::shared_ptr<const LoadedBlock>>> outcome;
  };
  struct Part {
    std::shared_ptr<Slot> slot;
    std::shared_ptr<LoadedBlock> block;
    bool whole = false;  // lanes are laid one behind another when all of them are there
    std::vector<StreamReader::Block> pieces;  // until then
    std::shared_ptr<BlockMemory> memory;
    std::vector<std::unique_ptr<LaneLanding>> landings;  // of the pieces that were taken apart while they came
    size_t left = 0;
    Status failure;
    Instant began;
  };

  Prefetch(std::shared_ptr<StreamLog> log, std::shared_ptr<StreamReader> reader, Executor& executor,
           std::shared_ptr<LoadCounts> counts, PrefetchOptions options);

  void Spawn(std::function<void(Prefetch&)> work);
  LateOwner LookWhoIsLate(const Manifest& manifest);
  void Follow();
  Result<std::optional<Entry>> NextEntry(uint64_t step);
  bool HasRoom(uint64_t bytes) const;
  void Fill(const std::shared_ptr<Slot>& slot);
  void ReadPart(const std::shared_ptr<Part>& part, size_t piece, LaneRange lanes);
  Status ReadLanes(Part& part, size_t piece, LaneRange lanes, bool land);
  // Lays out the blocks that the trainer comes to next.
  void ArrangeNext();
  void ArrangeSlot(const std::shared_ptr<Slot>& slot);
  Status Complete(Part& part);
  std::string What(const Entry& entry, uint64_t step, uint32_t lane) const;
  void Finish(const std::shared_ptr<Slot>& slot, Result<std::shared_ptr<const LoadedBlock>> outcome);
  // Calls `attempt` until it succeeds, fails for good, or everything is stopped.
  Status Persist(const std::function<Status(const Deadline&)>& attempt);
  uint64_t Estimate(const Entry& entry) const;
  uint64_t Pieces(uint64_t size) const;
  Deadline deadline() const { return Deadline::OnlyStop(stop_.get_token()); }

  std::shared_ptr<StreamLog> log_;
  std::shared_ptr<StreamReader> reader_;
  Executor& executor_;
  std::shared_ptr<LoadCounts> counts_;
  const PrefetchOptions options_;
  const std::optional<PackedColumns> packed_;
  std::stop_source stop_;
  LateOwnerWatch late_;

  std::mutex mutex_;
  std::unique_ptr<Signal> changed_;
  std::deque<std::shared_ptr<Slot>> slots_;  // ascending
  uint64_t used_ = 0;
  size_t reads_ = 0;
  size_t running_ = 0;
  std::optional<uint64_t> end_;  // the stream is sealed after so many steps
  std::optional<Status> failure_;  // of following the log, after the last slot
  Status trouble_;  // what went wrong last and is tried again
  Depth depth_;
  bool any_taken_ = false;
  bool waited_ = false;  // the trainer, for the block that comes next
  Instant last_taken_{};
};

}  // namespace headrace
