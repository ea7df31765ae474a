// What a rank holds of a stream: a cursor, and the steps after it, read ahead.
//
// `Next` hands over the rank's lanes of one step after another, each exactly once and in order, until the stream is sealed. It never
// returns a step that it has not checked, and an error does not move the cursor: the next call tries the same step again.
// `timeout` is how long it waits for a step that does not come (kStalled, with who is late); a warning comes before that. Waiting is cut into
// pieces by the caller, so that it can look after other things in between; a piece's end is no failure.
//
// A training job (`hold`) holds the stream from its first step on, until a checkpoint's pin takes over.
//
// Thread-safe: several threads may call `Next`, and each step goes to one of them; `Close` ends everybody's waiting at once. Steps outlive the loader.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/executor.h"
#include "load/lanes.h"
#include "load/prefetch.h"
#include "load/session_pin.h"
#include "load/step.h"
#include "load/step_ranges.h"
#include "stream/stream_reader.h"

namespace headrace {

struct LoaderOptions {
  LaneRange lanes;
  uint64_t window_bytes = 512'000'000;
  Duration timeout = std::chrono::minutes(5);
  Duration warn_after = std::chrono::seconds(10);
  bool hold = false;  // commits a session pin when the first step is asked for
};

class Loader {
 public:
  Loader(std::shared_ptr<StreamLog> log, LoaderOptions options, Executor& executor);
  ~Loader() { Close(); }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  struct Turn {
    enum Kind { kStep, kEnd, kNotYet };
    Kind kind;
    std::optional<Step> step;
  };
  // The next step, the end, or neither if `until` comes first.
  Result<Turn> Next(Instant until);
  // Any step, without moving the cursor.
  Result<Step> Read(uint64_t step, const Deadline& deadline);

  // The number of the next step, those left out not counted.
  uint64_t cursor() const;
  void Seek(uint64_t step);
  // Leaves [first, end) out from now on.
  void Skip(uint64_t first, uint64_t end);
  StepRanges skipped() const;
  // Another share, from the next step on.
  void SetLanes(LaneRange lanes);
  // Whether this rank holds the stream for its job; asked when the first step is.
  void SetHold(bool hold);
  LaneRange lanes() const;
  // The mixture with which a step was drawn that was handed over, as far as it is remembered.
  std::optional<uint32_t> MixtureOf(uint64_t step) const;

  // How many steps a sealed stream has; nothing if it is not sealed (yet).
  Result<std::optional<uint64_t>> Length(const Deadline& deadline);

  // Holds `step` under a name, in place of the session's hold.
  Status Pin(const std::string& name, uint64_t step, const Deadline& deadline);
  // False if there was no such pin.
  Result<bool> Unpin(const std::string& name, const Deadline& deadline);
  Result<std::vector<headrace::Pin>> Pins(const Deadline& deadline);

  // Flat names and numbers.
  std::vector<std::pair<std::string, double>> Stats() const;

  // Ends all work and waits for it. What was handed out stays. Lets go of the session's hold, if that takes no longer than `patience`.
  void Close(Duration patience = std::chrono::seconds(2));
  bool closed() const;

  StreamLog& log() { return *log_; }
  Clock& clock() const { return log_->clock(); }

 private:
  std::shared_ptr<Prefetch> Current();
  void Restart();
  Status Stalled(uint64_t step, Prefetch& prefetch, Duration waited) const;
  void NoteHandedOver(uint64_t step);
  void NoteMixture(uint64_t step, uint32_t mixture);

  std::shared_ptr<StreamLog> log_;
  std::shared_ptr<StreamReader> reader_;
  Executor& executor_;
  std::shared_ptr<LoadCounts> counts_ = std::make_shared<LoadCounts>();
  std::shared_ptr<Habit> habit_ = std::make_shared<Habit>();
  std::shared_ptr<BufferPool> pool_ = BufferPool::Make();

  mutable std::mutex mutex_;
  LoaderOptions options_;
  uint64_t cursor_ = 0;
  StepRanges skipped_;
  std::shared_ptr<Prefetch> prefetch_;
  std::vector<std::shared_ptr<Prefetch>> retired_;  // stopped, perhaps still at work
  std::shared_ptr<SessionPin> session_;
  bool session_over_ = false;
  bool closed_ = false;
  // Mixtures hold from a step on, so that two steps with the same one have it between them, too.
  struct Drawn {
    uint64_t first, last;
    uint32_t mixture;
  };
  std::vector<Drawn> drawn_;  // the last few, by their last hand-over

  std::optional<Instant> waiting_since_;
  bool warned_ = false, looked_ = false;
  uint64_t handed_over_ = 0;
  Duration wait_{};
  Duration first_wait_{};
};

}  // namespace headrace
