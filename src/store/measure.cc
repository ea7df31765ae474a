#include "store/measure.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>

#include "base/text.h"
#include "store/create.h"
#include "store/measure_data.h"

namespace headrace {
namespace {

using End = MeasurePhase::End;

constexpr double kGain = 1.07;
constexpr int kFlatLevels = 2;
constexpr int kLevelsPlanned = 8;
constexpr double kSmallShare = 0.1;  // of the bytes that may be written
constexpr uint64_t kMostSmallObjects = 5000;
constexpr uint64_t kMostObjectBytes = 16 << 20;
constexpr uint64_t kObjectsPlanned = 30;
constexpr Duration kRemovalTime = std::chrono::seconds(20);
constexpr size_t kRemovedAtOnce = 1000;

struct PhasePlan {
  MeasureKind kind;
  double share;  // of the time
  bool rising;
};

constexpr PhasePlan kPlan[] = {
    {MeasureKind::kCommits, 0.12, false},   {MeasureKind::kSmallWrites, 0.12, true}, {MeasureKind::kSmallReads, 0.08, true},
    {MeasureKind::kLists, 0.04, false},     {MeasureKind::kLargeWrites, 0.22, true}, {MeasureKind::kObjectReads, 0.2, true},
    {MeasureKind::kRangeReads, 0.22, true},
};

class Measurement {
 public:
  Measurement(ObjectStore& store, const MeasureOptions& options, Executor& executor, Random random, std::stop_token stop,
              const std::function<void(const MeasureView&)>& watch)
      : store_(store),
        options_(options),
        executor_(executor),
        clock_(executor.clock()),
        random_(std::move(random)),
        seed_(random_.Next()),
        prefix_(Cat("headrace-bench-", random_.Hex(12), "/")),
        begin_(clock_.Now()),
        end_(begin_ + options.time),
        deadline_(end_, std::move(stop)),
        watch_(watch),
        small_(seed_, options.small_bytes, options.small_bytes) {
    for (const PhasePlan& plan : kPlan)
      report_.phases.push_back({.kind = plan.kind, .request_bytes = 0, .levels = {}, .end = End::kNotRun});
    auto small_budget = static_cast<uint64_t>(kSmallShare * static_cast<double>(options.size));
    small_objects_ = std::clamp<uint64_t>(small_budget / options.small_bytes, 2, kMostSmallObjects);
  }

  MeasureReport Run() {
    report_.failure = RunPhases();
    report_.elapsed = clock_.Now() - begin_;
    report_.written_bytes = written_bytes_;
    Remove();
    return std::move(report_);
  }

 private:
  Status RunPhases() {
    double shares_left = 1;
    for (const PhasePlan& plan : kPlan) {
      if (deadline_.stop().stop_requested()) return Status(Code::kCancelled, "the measurement was stopped");
      if (clock_.Now() >= end_) return {};
      // What one phase leaves over is shared by those after it.
      auto budget = std::chrono::duration_cast<Duration>(Remaining() * (plan.share / shares_left));
      shares_left = std::max(plan.share, shares_left - plan.share);
      MeasurePhase& phase = report_.phases[static_cast<size_t>(plan.kind)];
      if (Status failure = RunPhase(plan, budget, phase); !failure.ok()) {
        // The end of our own time is no fault of the store, unless it never answered at all.
        if (failure.code() != Code::kTimeout || clock_.Now() < end_ || report_.phases.front().empty()) return failure;
        if (!phase.empty()) phase.end = End::kTime;
        return {};
      }
    }
    return {};
  }

  std::chrono::duration<double, std::nano> Remaining() { return std::max(Duration::zero(), end_ - clock_.Now()); }

  Status RunPhase(const PhasePlan& plan, Duration budget, MeasurePhase& phase) {
    const Duration level_time = plan.rising ? budget / kLevelsPlanned : budget;
    const Instant phase_end = clock_.Now() + budget;
    if (plan.kind == MeasureKind::kLargeWrites) HR_RETURN_IF_ERROR(ChooseObjectSize(level_time));
    if (IsRead(plan.kind) && ReadableObjects(plan.kind).empty()) return {};
    phase.request_bytes = RequestBytes(plan.kind);
    uint64_t allowed = RequestsAllowed(plan.kind);
    double best = 0;
    int flat = 0;
    for (size_t concurrency = 1;; concurrency *= 2) {
      if (concurrency > 1 && clock_.Now() >= phase_end) return Ended(phase, End::kTime);
      if (concurrency > MostAtOnce(plan.kind)) return Ended(phase, End::kConcurrency);
      if (allowed < concurrency) return Ended(phase, End::kSize);
      if (IsRead(plan.kind)) ProvideMemory(concurrency, phase.request_bytes);

      MeasureLevelPlan level;
      level.concurrency = concurrency;
      level.until = std::min(clock_.Now() + level_time, end_);
      // Bytes may run out before time does: each level gets a share, and enough for its workers to have two turns.
      uint64_t share = plan.rising ? std::max(allowed / kLevelsPlanned, 2 * concurrency) : allowed;
      level.requests = std::min({level.requests, share, allowed});
      level.request = [&](uint64_t number, size_t worker) { return Request(plan.kind, number, worker); };
      level.watch = [&](const MeasureLevel& so_far) {
        Watch({.phase = plan.kind, .removing = false, .so_far = so_far, .done = Done()});
      };
      MeasureLevelOutcome outcome = RunMeasureLevel(executor_, level);
      if (outcome.level.requests > 0) phase.levels.push_back(outcome.level);
      HR_RETURN_IF_ERROR(outcome.failure);
      if (!plan.rising) return Ended(phase, End::kSerial);
      if (allowed != UINT64_MAX) allowed -= outcome.level.requests;
      double rate = outcome.level.requests_per_second();
      flat = rate < kGain * best ? flat + 1 : 0;
      best = std::max(best, rate);
      if (flat == kFlatLevels) return Ended(phase, End::kFlat);
    }
  }

  static Status Ended(MeasurePhase& phase, End end) {
    phase.end = end;
    return {};
  }

  static bool IsRead(MeasureKind kind) {
    return kind == MeasureKind::kSmallReads || kind == MeasureKind::kObjectReads || kind == MeasureKind::kRangeReads;
  }

  uint64_t RequestBytes(MeasureKind kind) const {
    switch (kind) {
      case MeasureKind::kCommits:
      case MeasureKind::kSmallWrites:
      case MeasureKind::kSmallReads: return options_.small_bytes;
      case MeasureKind::kLists: return 0;
      case MeasureKind::kLargeWrites:
      case MeasureKind::kObjectReads: return large_ ? large_->object_bytes() : 0;
      case MeasureKind::kRangeReads: return large_ ? large_->block_bytes() : 0;
    }
    return 0;
  }

  // How many requests of a phase the bytes that may still be written allow.
  uint64_t RequestsAllowed(MeasureKind kind) const {
    switch (kind) {
      case MeasureKind::kCommits:
      case MeasureKind::kSmallWrites: return small_objects_ / 2;
      case MeasureKind::kLargeWrites: return (options_.size - std::min(options_.size, written_bytes_)) / large_->object_bytes();
      default: return UINT64_MAX;
    }
  }

  size_t MostAtOnce(MeasureKind kind) const {
    uint64_t fits = options_.memory / std::max<uint64_t>(1, RequestBytes(kind));
    return std::clamp<uint64_t>(fits, 1, options_.max_concurrency);
  }

  // Objects as large as the bytes allow for a few levels, unless one of them would take longer than a level.
  Status ChooseObjectSize(Duration level_time) {
    uint64_t most = std::clamp<uint64_t>(std::bit_floor(options_.size / kObjectsPlanned), options_.small_bytes, kMostObjectBytes);
    uint64_t least = std::min<uint64_t>(most, 1 << 20);
    MeasureData trial(seed_, least, least);
    Instant began = clock_.Now();
    // A number that no object of the phase has.
    Result<uint64_t> written = Write("data/", UINT32_MAX, trial);
    if (!written.ok()) return written.status();
    double per_second = static_cast<double>(least) / std::max(1e-9, std::chrono::duration<double>(clock_.Now() - began).count());
    double in_half_a_level = per_second * std::chrono::duration<double>(level_time).count() / 2;
    auto wished =
        static_cast<uint64_t>(std::clamp<double>(in_half_a_level, static_cast<double>(least), static_cast<double>(most)));
    large_.emplace(seed_, std::bit_floor(wished), options_.range_bytes);
    return {};
  }

  Result<uint64_t> Request(MeasureKind kind, uint64_t number, size_t worker) {
    switch (kind) {
      case MeasureKind::kCommits: return Write("log/", number, small_);
      case MeasureKind::kSmallWrites: return WriteSmall();
      case MeasureKind::kLargeWrites: return WriteLarge();
      case MeasureKind::kLists: return ListSmall();
      case MeasureKind::kSmallReads: {
        uint64_t object = small_written_[number % small_written_.size()];
        return Read("small/", object, small_, 0, small_.blocks(), worker);
      }
      case MeasureKind::kObjectReads: {
        uint64_t object = large_written_[number % large_written_.size()];
        return Read("data/", object, *large_, 0, large_->blocks(), worker);
      }
      case MeasureKind::kRangeReads: {
        Random random(seed_ + number);
        uint64_t object = large_written_[random.Below(large_written_.size())];
        return Read("data/", object, *large_, random.Below(large_->blocks()), 1, worker);
      }
    }
    return Status(Code::kInternal, "a phase without requests");
  }

  std::string KeyOf(std::string_view folder, uint64_t object) const {
    std::string digits = Cat(object);
    return Cat(prefix_, folder, std::string(20 - digits.size(), '0'), digits);
  }

  // Before it is sent, so that what becomes of the request does not matter for the removal.
  std::string NewKey(std::string_view folder, uint64_t object, uint64_t bytes) {
    std::string key = KeyOf(folder, object);
    std::lock_guard lock(mutex_);
    keys_.push_back(key);
    written_bytes_ += bytes;
    return key;
  }

  Result<uint64_t> Write(std::string_view folder, uint64_t object, const MeasureData& data) {
    std::string key = NewKey(folder, object, data.object_bytes());
    Random random(seed_ ^ object);
    HR_ASSIGN_OR_RETURN(CreateResult result, Create(store_, key, data.Content(object), deadline_, clock_, random));
    if (result.kind == CreateResult::kUnknown) return result.reason;
    if (result.kind == CreateResult::kLost) {
      return Status(
          Code::kCorrupt,
          Cat(store_.Describe(key), " holds other bytes than the ones that were just written there; `headrace probe` says more"));
    }
    return data.object_bytes();
  }

  Result<uint64_t> WriteLarge() {
    uint64_t object = next_large_++;
    HR_ASSIGN_OR_RETURN(uint64_t bytes, Write("data/", object, *large_));
    std::lock_guard lock(mutex_);
    large_written_.push_back(object);
    return bytes;
  }

  Result<uint64_t> WriteSmall() {
    uint64_t object = next_small_++;
    std::string key = NewKey("small/", object, small_.object_bytes());
    HR_RETURN_IF_ERROR(store_.Put(key, small_.Content(object), deadline_));
    std::lock_guard lock(mutex_);
    small_written_.push_back(object);
    return small_.object_bytes();
  }

  Result<uint64_t> ListSmall() {
    HR_ASSIGN_OR_RETURN(ListPage page, store_.List({.prefix = prefix_ + "small/"}, deadline_));
    return page.entries.size();
  }

  Result<uint64_t> Read(std::string_view folder, uint64_t object, const MeasureData& data, uint64_t first_block, uint64_t blocks,
                        size_t worker) {
    std::string key = KeyOf(folder, object);
    GetOptions get;
    if (blocks != data.blocks()) get.range = ByteRange::At(first_block * data.block_bytes(), data.block_bytes());
    uint64_t size = get.range.Within(data.object_bytes()).second;
    if (options_.into_own_memory) get.into = memory_[worker].span().first(size);
    HR_ASSIGN_OR_RETURN(std::optional<Object> found, store_.Get(key, get, deadline_));
    if (!found) {
      return Status(Code::kCorrupt, Cat(store_.Describe(key), " was written and is not there; `headrace probe` says more"));
    }
    if (found->bytes.size() != size || !data.Matches(object, first_block, found->bytes.span())) {
      std::lock_guard lock(mutex_);
      if (++report_.damaged == 1) report_.damaged_example = Cat(store_.Describe(key), ", ", get.range.ToString());
    }
    return size;
  }

  const std::vector<uint64_t>& ReadableObjects(MeasureKind kind) const {
    return kind == MeasureKind::kSmallReads ? small_written_ : large_written_;
  }

  void ProvideMemory(size_t workers, uint64_t bytes) {
    if (!options_.into_own_memory) return;
    if (!memory_.empty() && memory_.front().size() < bytes) memory_.clear();
    while (memory_.size() < workers) memory_.emplace_back(bytes);
  }

  double Done() { return std::chrono::duration<double>(clock_.Now() - begin_) / options_.time; }
  void Watch(const MeasureView& view) const {
    if (watch_) watch_(view);
  }

  // Not under the deadline of the measurement: whoever stops it wants nothing left behind.
  void Remove() {
    if (keys_.empty()) return;
    Watch({.phase = MeasureKind::kLists, .removing = true, .so_far = {}, .done = 1});
    const Deadline deadline = Deadline::After(clock_, kRemovalTime);
    // Twice: a write that was given up may have landed meanwhile.
    for (int round = 0; round < 2; ++round) {
      for (size_t at = 0; at < keys_.size(); at += kRemovedAtOnce) {
        size_t count = std::min(kRemovedAtOnce, keys_.size() - at);
        if (Status removed = store_.Delete(std::span(keys_).subspan(at, count), deadline); !removed.ok())
          report_.removal_failure = removed;
      }
      Result<std::vector<ListEntry>> left = ListAll(store_, prefix_, deadline);
      if (!left.ok()) {
        // Nobody can tell which are gone; name the place.
        report_.removal_failure = left.status();
        report_.left_behind = {store_.Describe(prefix_.substr(0, prefix_.size() - 1))};
        return;
      }
      keys_.clear();
      for (ListEntry& entry : *left) keys_.push_back(std::move(entry.key));
      if (keys_.empty()) {
        report_.removal_failure = {};
        return;
      }
    }
    for (const std::string& key : keys_) report_.left_behind.push_back(store_.Describe(key));
    if (report_.removal_failure.ok())
      report_.removal_failure = Status(Code::kUnavailable, "they are still listed after having been removed");
  }

  ObjectStore& store_;
  const MeasureOptions options_;
  Executor& executor_;
  Clock& clock_;
  Random random_;
  const uint64_t seed_;
  const std::string prefix_;
  const Instant begin_;
  const Instant end_;
  const Deadline deadline_;
  const std::function<void(const MeasureView&)>& watch_;
  MeasureReport report_;
  const MeasureData small_;
  std::optional<MeasureData> large_;
  uint64_t small_objects_ = 0;
  std::atomic<uint64_t> next_small_ = 0;
  std::atomic<uint64_t> next_large_ = 0;
  std::vector<Buffer> memory_;  // one piece for each worker

  std::mutex mutex_;  // of what workers add to
  std::vector<std::string> keys_;
  uint64_t written_bytes_ = 0;
  std::vector<uint64_t> small_written_, large_written_;
};

}  // namespace

std::string_view MeasureName(MeasureKind kind) {
  switch (kind) {
    case MeasureKind::kCommits: return "commits";
    case MeasureKind::kSmallWrites: return "small_writes";
    case MeasureKind::kSmallReads: return "small_reads";
    case MeasureKind::kLists: return "lists";
    case MeasureKind::kLargeWrites: return "large_writes";
    case MeasureKind::kObjectReads: return "object_reads";
    case MeasureKind::kRangeReads: return "range_reads";
  }
  return "";
}

const MeasureLevel& MeasurePhase::best() const {
  return *std::ranges::max_element(levels, {}, [](const MeasureLevel& level) { return level.requests_per_second(); });
}

MeasureReport Measure(ObjectStore& store, const MeasureOptions& options, Executor& executor, Random random, std::stop_token stop,
                      const std::function<void(const MeasureView&)>& watch) {
  return Measurement(store, options, executor, std::move(random), std::move(stop), watch).Run();
}

}  // namespace headrace
