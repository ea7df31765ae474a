// What nobody waits for: sealing the index, the hint, deleting intents.
#include <algorithm>
#include <utility>

#include "stream/rules.h"
#include "stream/stream_log.h"

namespace headrace {
namespace {

constexpr size_t kUrgent = 320;  // entries in a manifest from which on sealing cannot wait
constexpr size_t kDiscardAtOnce = 64;  // intents
constexpr auto kDiscardAfter = std::chrono::seconds(1);
constexpr auto kHintInterval = std::chrono::seconds(1);
constexpr auto kChoreTime = std::chrono::seconds(20);
constexpr auto kLastChoreTime = std::chrono::seconds(5);  // of somebody who is leaving

}  // namespace

void StreamLog::StartTending() {
  if (closing_) return;
  if (std::exchange(tending_, true)) {
    tend_->NotifyAll();
  } else {
    background_.Spawn([this] { Tend(); });
  }
}

void StreamLog::Tend() {
  std::unique_lock lock(mutex_);
  while (true) {
    Instant now = clock().Now();
    if (std::exchange(seal_due_, false) && !closing_) {
      StatePtr state = newest_;
      lock.unlock();
      Result<std::optional<Edit>> seal =
          PrepareSeal(state->manifest, /*urgent=*/false, Deadline::After(clock(), kChoreTime, stop_.get_token()));
      lock.lock();
      if (seal.ok() && *seal) seal_ = **seal;
      continue;
    }
    bool discard = !done_intents_.empty() && (closing_ || done_intents_.size() >= kDiscardAtOnce || now >= discard_at_);
    bool hint = hint_owed_ != 0 && (closing_ || now >= next_hint_);
    if (discard || hint) {
      std::vector<std::string> intents;
      if (discard) intents.assign(done_intents_.begin(), done_intents_.end());
      if (discard) done_intents_.clear();
      uint64_t number = hint ? std::exchange(hint_owed_, 0) : 0;
      if (hint) next_hint_ = now + kHintInterval;
      lock.unlock();
      Deadline deadline = Deadline::After(clock(), kLastChoreTime);
      if (hint) log_.Hint(number, deadline);
      if (discard) (void)store().Delete(intents, deadline);
      lock.lock();
      continue;
    }
    if (closing_ || (hint_owed_ == 0 && done_intents_.empty())) break;
    Instant until = Instant::max();
    if (hint_owed_ != 0) until = std::min(until, next_hint_);
    if (!done_intents_.empty()) until = std::min(until, discard_at_);
    tend_->WaitUntil(lock, until);
  }
  tending_ = false;
}

void StreamLog::Discard(std::vector<std::string> intents) {
  if (intents.empty() || !context_.rules.Holds(StreamRule::kDeleteIntents)) return;
  std::lock_guard lock(mutex_);
  if (done_intents_.empty()) discard_at_ = Later(clock().Now(), kDiscardAfter);
  done_intents_.insert(intents.begin(), intents.end());
  StartTending();
}

bool StreamLog::ReadyToSeal(const Manifest& manifest, bool urgent) const {
  const size_t sealed = info_.segment_entries;
  bool pressing = urgent || manifest.tail.size() + manifest.parked.size() >= kUrgent;
  if (manifest.tail.size() >= sealed + sealed / 2 || (pressing && manifest.tail.size() >= sealed)) return true;
  return std::ranges::any_of(manifest.index, [](const auto& level) { return level.size() >= Manifest::kFold; });
}

Result<std::optional<Edit>> StreamLog::PrepareSeal(const Manifest& manifest, bool urgent, const Deadline& deadline) {
  const size_t sealed = info_.segment_entries;
  {
    std::lock_guard lock(mutex_);
    if (seal_ && !urgent) return std::optional<Edit>();
    // Rivals see the same tail: a little luck decides who writes the segment, until it becomes pressing.
    if (!ReadyToSeal(manifest, urgent)) return std::optional<Edit>();
    bool pressing = urgent || stewarding_ || manifest.tail.size() + manifest.parked.size() >= kUrgent;
    if (!pressing && Rivals(manifest) > 0 && random_.Below(1 + Rivals(manifest)) != 0) return std::optional<Edit>();
  }
  SegmentRef wanted;
  wanted.nonce = NewNonce();
  std::string object;
  // The highest level first, so that there is always room below; but when entries have no room, folding would make none.
  bool tail_first = urgent && manifest.tail.size() >= sealed && manifest.index[0].size() < Manifest::kMaxRefsPerLevel;
  for (size_t level = Manifest::kLevels - 1; level > 0 && !tail_first; --level) {
    const auto& below = manifest.index[level - 1];
    if (below.size() < Manifest::kFold) continue;
    std::span<const SegmentRef> refs(below.data(), Manifest::kFold);
    wanted.level = static_cast<uint8_t>(level);
    wanted.first_block = refs.front().first_block;
    wanted.end_block = refs.back().end_block;
    if (level >= kEntryLevels) {
      object = EncodeSegment(refs, info_.uuid, wanted);
      wanted = SegmentOf(refs, info_.uuid, wanted);
    } else {
      HR_ASSIGN_OR_RETURN(std::vector<Entry> entries, index_.segments().Entries(refs, deadline));
      object = EncodeSegment(entries, info_.uuid, wanted);
      wanted = SegmentOf(entries, info_.uuid, wanted);
    }
    break;
  }
  if (object.empty()) {
    if (manifest.tail.size() < sealed) return std::optional<Edit>();
    std::span<const Entry> entries(manifest.tail.data(), sealed);
    wanted.first_block = manifest.sealed_block();
    wanted.end_block = entries.back().block + 1;
    object = EncodeSegment(entries, info_.uuid, wanted);
    wanted = SegmentOf(entries, info_.uuid, wanted);
  }
  HR_ASSIGN_OR_RETURN(PutOutcome outcome, store().PutIfAbsent(wanted.Key(), Body(object), deadline));
  if (outcome.kind != PutOutcome::kCreated) {
    // In doubt, the name is not used: it may never be there.
    HR_ASSIGN_OR_RETURN(std::optional<Object> there, store().Get(wanted.Key(), deadline));
    if (!there || there->bytes.AsText() != object) return std::optional<Edit>();
  }
  return Edit(SealEdit{wanted});
}

Result<bool> StreamLog::SealNow(const Deadline& deadline) {
  StatePtr state = known();
  std::optional<Edit> seal;
  {
    // What is prepared already would stand in the way of another one.
    std::lock_guard lock(mutex_);
    seal = std::exchange(seal_, std::nullopt);
  }
  if (!seal) {
    HR_ASSIGN_OR_RETURN(seal, PrepareSeal(state->manifest, /*urgent=*/true, deadline));
  }
  if (!seal) return false;
  Status sealed = Commit(*seal, deadline).status();
  // Somebody else was first.
  if (sealed.code() == Code::kConflict || sealed.code() == Code::kFull) return true;
  HR_RETURN_IF_ERROR(sealed);
  return true;
}

}  // namespace headrace
