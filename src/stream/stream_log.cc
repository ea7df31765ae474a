#include "stream/stream_log.h"

#include <algorithm>

#include "base/text.h"
#include "stream/rules.h"

namespace headrace {
namespace {

constexpr int kFollow = 4;                // manifests that are read one by one before the newest is searched
constexpr int kQuietRefreshes = 8;        // after so many with nothing new, make sure that we are not far behind
constexpr uint64_t kActiveManifests = 64;  // a strand that changed in the last so many is active

}  // namespace

StreamLog::StreamLog(StreamInfo info, StreamContext context, StatePtr newest)
    : info_(std::move(info)),
      context_(std::move(context)),
      log_(context_.store, *context_.executor, context_.random.Fork("log"), {info_.slots_per_marker, context_.rules}),
      index_(*context_.store, info_.uuid, context_.executor),
      owner_(context_.random.Fork("owner").Next() | 1),
      changed_(context_.executor->MakeSignal()),
      random_(context_.random.Fork("nonces")),
      pace_(context_.discipline, context_.random.Fork("pace")),
      newest_(std::move(newest)),
      tend_(context_.executor->MakeSignal()),
      background_(*context_.executor) {}

StreamLog::~StreamLog() { Retire(); }

void StreamLog::Retire() {
  stop_.request_stop();
  std::lock_guard lock(mutex_);
  closing_ = true;
  tend_->NotifyAll();
  changed_->NotifyAll();
}

uint64_t StreamLog::NewNonce() {
  std::lock_guard lock(mutex_);
  return random_.Next();
}

StreamLog::StatePtr StreamLog::known() const {
  std::lock_guard lock(mutex_);
  return newest_;
}

Result<StreamLog::StatePtr> StreamLog::Decode(uint64_t number, Bytes body) {
  std::string what = store().Describe(SlotKey(number));
  HR_ASSIGN_OR_RETURN(Manifest manifest, Manifest::Decode(body.span(), what));
  if (manifest.uuid != info_.uuid) {
    return Status(Code::kCorrupt, Cat("the manifest ", what, " belongs to another stream, ", UuidText(manifest.uuid)));
  }
  if (manifest.number != number || manifest.strands.size() != info_.strands || manifest.order != info_.order) {
    return Status(Code::kCorrupt, Cat("the manifest ", what, " is damaged: it does not fit stream.json"));
  }
  return std::make_shared<const State>(State{std::move(manifest), std::move(body)});
}

Status StreamLog::CheckLink(const State& before, const State& after) {
  if (after.manifest.previous == Manifest::Hash(before.encoded.AsText())) return {};
  return Status(Code::kCorrupt,
                Cat("the manifest ", store().Describe(SlotKey(after.manifest.number)), " does not continue the one before it"));
}

Status StreamLog::Learn(StatePtr state) {
  std::lock_guard lock(mutex_);
  if (newest_ && state->manifest.number <= newest_->manifest.number) return {};
  newest_ = std::move(state);
  return {};
}

Result<StreamLog::StatePtr> StreamLog::Refresh(const Deadline& deadline) {
  StatePtr state = known();
  for (int i = 0; i < kFollow; ++i) {
    uint64_t number = state->manifest.number;
    HR_ASSIGN_OR_RETURN(std::optional<Slot> next, log_.Next(number, deadline));
    if (!next) {
      {
        std::lock_guard lock(mutex_);
        quiet_refreshes_ = i > 0 ? 0 : quiet_refreshes_ + 1;
        if (quiet_refreshes_ < kQuietRefreshes) return newest_;
        quiet_refreshes_ = 0;
      }
      break;
    }
    HR_ASSIGN_OR_RETURN(StatePtr newer, Decode(next->number, std::move(next->body)));
    HR_RETURN_IF_ERROR(CheckLink(*state, *newer));
    state = std::move(newer);
    HR_RETURN_IF_ERROR(Learn(state));
  }
  return RefreshFully(deadline);
}

Result<StreamLog::StatePtr> StreamLog::RefreshFully(const Deadline& deadline) {
  uint64_t number = known()->manifest.number;
  HR_ASSIGN_OR_RETURN(std::optional<Slot> slot, log_.NewestAfter(number, deadline));
  if (slot) {
    HR_ASSIGN_OR_RETURN(StatePtr state, Decode(slot->number, std::move(slot->body)));
    HR_RETURN_IF_ERROR(Learn(std::move(state)));
  }
  return known();
}

Result<StreamLog::StatePtr> StreamLog::Look(const Deadline& deadline) {
  StatePtr state = known();
  bool recent = false;
  {
    std::lock_guard lock(mutex_);
    Instant now = clock().Now();
    recent = now - known_at_ < 2 * pace_.Turn();
    known_at_ = now;
  }
  if (!recent) return RefreshFully(deadline);
  // A few that follow each other are checked together: if the first one's marker is absent, the others' are.
  const uint64_t first = state->manifest.number + 1;
  std::vector<StatePtr> seen;
  for (int i = 0; i < kFollow; ++i) {
    HR_ASSIGN_OR_RETURN(std::optional<Slot> slot, log_.Peek(first + seen.size(), deadline));
    if (!slot) break;
    HR_ASSIGN_OR_RETURN(StatePtr newer, Decode(slot->number, std::move(slot->body)));
    if (Status link = CheckLink(*state, *newer); !link.ok()) {
      HR_ASSIGN_OR_RETURN(bool genuine, log_.Genuine(first, deadline));
      if (genuine) return link;
      return RefreshFully(deadline);
    }
    state = newer;
    seen.push_back(state);
    bool all = true;
    for (const auto& ticket : Waiting()) {
      const auto* chunk = std::get_if<ChunkEdit>(&ticket->edit);
      all = all && chunk != nullptr && state->manifest.LastChunk(chunk->name.strand) == chunk->name;
    }
    if (all) break;
  }
  if (!seen.empty()) {
    HR_ASSIGN_OR_RETURN(bool genuine, log_.Genuine(first, deadline));
    if (!genuine) return RefreshFully(deadline);
    HR_RETURN_IF_ERROR(Learn(std::move(state)));
  } else {
    std::lock_guard lock(mutex_);
    if (++quiet_refreshes_ < kQuietRefreshes) return newest_;
    quiet_refreshes_ = 0;
  }
  return seen.empty() ? RefreshFully(deadline) : Result<StatePtr>(known());
}

size_t StreamLog::Rivals(const Manifest& manifest) const {
  std::vector<uint64_t> owners;
  for (const Strand& row : manifest.strands) {
    if (row.changed != 0 && row.owner != owner_ && manifest.number - row.changed <= kActiveManifests) owners.push_back(row.owner);
  }
  std::ranges::sort(owners);
  return static_cast<size_t>(std::unique(owners.begin(), owners.end()) - owners.begin());
}

Result<bool> StreamLog::Contains(const Manifest& manifest, const Edit& edit, const Deadline& deadline) {
  if (const auto* chunk = std::get_if<ChunkEdit>(&edit)) {
    if (chunk->uuid != manifest.uuid || chunk->name.strand >= manifest.strands.size()) return false;
    if (!context_.rules.Holds(StreamRule::kAcknowledgeByName))
      return manifest.strands[chunk->name.strand].next_seq > chunk->name.seq;
    return index_.Holds(manifest, chunk->name, deadline);
  }
  if (const auto* end = std::get_if<EndEdit>(&edit)) {
    if (end->uuid != manifest.uuid || end->strand >= manifest.strands.size()) return false;
    const Strand& row = manifest.strands[end->strand];
    return row.ended && (row.link == NextLink(*end) || manifest.finished);
  }
  if (const auto* bump = std::get_if<BumpEdit>(&edit)) {
    if (bump->strand >= manifest.strands.size()) return false;
    const Strand& row = manifest.strands[bump->strand];
    return row.owner == bump->owner && row.epoch == bump->from_epoch + 1;
  }
  if (const auto* pin = std::get_if<PinEdit>(&edit)) {
    const Pin* there = manifest.FindPin(pin->pin.name);
    return there != nullptr && there->step == pin->pin.step &&
           (pin->instead_of.empty() || pin->instead_of == pin->pin.name || !manifest.FindPin(pin->instead_of));
  }
  if (const auto* mixture = std::get_if<MixtureEdit>(&edit)) {
    if (manifest.decisions >= mixture->decision &&
        (manifest.mixtures.empty() || manifest.mixtures.front().number > mixture->decision)) {
      return Status(Code::kOutcomeUnknown,
                    Cat("cannot tell whether decision ", mixture->decision, " was this one: it was superseded since"));
    }
    return std::ranges::any_of(
        manifest.mixtures, [&](const MixtureRef& ref) { return ref.number == mixture->decision && ref.nonce == mixture->nonce; });
  }
  if (std::holds_alternative<FinishEdit>(edit)) return manifest.finished;
  // These say how things shall be, so it does not matter whose they are.
  if (const auto* unpin = std::get_if<UnpinEdit>(&edit)) return manifest.FindPin(unpin->name) == nullptr;
  if (const auto* expire = std::get_if<ExpireEdit>(&edit)) return manifest.FindPin(expire->name) == nullptr;
  if (const auto* seal = std::get_if<SealEdit>(&edit))
    return seal->ref.level == 0 && manifest.sealed_block() >= seal->ref.end_block;
  if (const auto* trim = std::get_if<TrimEdit>(&edit)) return manifest.trim_block == trim->block;
  return false;
}

}  // namespace headrace
