#include "stream/stream_log.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "store/create.h"
#include "stream/rules.h"

namespace headrace {
namespace {

constexpr std::string_view kInfoKey = "stream.json";
constexpr int kFollow = 4;                // manifests that are read one by one before the newest is searched
constexpr int kQuietRefreshes = 8;        // after so many with nothing new, make sure that we are not far behind
constexpr uint64_t kActiveManifests = 64;  // a strand that changed in the last so many is active
constexpr size_t kUrgent = 320;  // entries in a manifest from which on sealing cannot wait

// All checks off, for the mutation that trusts an edit once it was checked.
Rules Lax() {
  Rules rules;
  for (StreamRule rule : {StreamRule::kCheckUuid, StreamRule::kCheckEpoch, StreamRule::kCheckPrev, StreamRule::kCheckMixture})
    rules.Break(rule);
  return rules;
}

}  // namespace

StreamLog::StreamLog(StreamInfo info, StreamContext context, StatePtr newest)
    : info_(std::move(info)),
      context_(std::move(context)),
      log_(context_.store, *context_.executor, context_.random.Fork("log"), {info_.slots_per_marker, context_.rules}),
      index_(*context_.store, info_.uuid),
      owner_(context_.random.Fork("owner").Next() | 1),
      changed_(context_.executor->MakeSignal()),
      random_(context_.random.Fork("nonces")),
      pace_(context_.discipline, context_.random.Fork("pace")),
      newest_(std::move(newest)) {}

Result<std::shared_ptr<StreamLog>> StreamLog::Create(StreamInfo info, StreamContext context, const Deadline& deadline) {
  HR_RETURN_IF_ERROR(info.Check());
  Random random = context.random.Fork("create");
  Clock& clock = context.executor->clock();
  HR_ASSIGN_OR_RETURN(CreateResult created,
                      headrace::Create(*context.store, std::string(kInfoKey), Body(info.ToJson()), deadline, clock, random));
  if (created.kind == CreateResult::kUnknown) return Status(Code::kOutcomeUnknown, created.reason.message());
  if (created.kind == CreateResult::kLost) {
    return Status(Code::kConflict, Cat("there is a stream at ", context.store->Describe(), " already"));
  }
  Manifest first = Manifest::First(info, random.Next());
  std::string encoded = first.Encode();
  HR_ASSIGN_OR_RETURN(created, headrace::Create(*context.store, SlotKey(0), Body(encoded), deadline, clock, random));
  if (created.kind == CreateResult::kUnknown) return Status(Code::kOutcomeUnknown, created.reason.message());
  // Whoever opened the stream before its first manifest was there may have written it; it says the same.
  return Open(std::move(context), deadline);
}

Result<std::shared_ptr<StreamLog>> StreamLog::Open(StreamContext context, const Deadline& deadline) {
  // Side by side, since far stores take long to answer: where the log is does not depend on what stream.json says.
  Result<std::optional<Slot>> newest = std::optional<Slot>();
  Result<std::optional<Object>> info_object = std::optional<Object>();
  {
    Log log(context.store, *context.executor, context.random.Fork("open"), {.rules = context.rules});
    TaskGroup group(*context.executor);
    group.Spawn([&] { newest = log.FindNewest(std::nullopt, deadline); });
    info_object = context.store->Get(std::string(kInfoKey), deadline);
  }
  HR_ASSIGN_OR_RETURN(std::optional<Object> json, std::move(info_object));
  if (!json) return Status(Code::kNotFound, Cat("there is no stream at ", context.store->Describe()));
  Result<StreamInfo> info = StreamInfo::FromJson(json->bytes.AsText());
  if (!info.ok()) return info.status().Annotate(context.store->Describe(std::string(kInfoKey)));
  std::shared_ptr<StreamLog> stream(new StreamLog(*std::move(info), std::move(context), nullptr));
  // Markers are asked for by their numbers, which depend on the size of their groups.
  if (stream->info_.slots_per_marker != LogOptions{}.slots_per_marker) newest = stream->log_.FindNewest(std::nullopt, deadline);
  HR_ASSIGN_OR_RETURN(std::optional<Slot> slot, std::move(newest));
  if (!slot) {
    // Its creator died between the two writes. Anybody can write the first manifest: it holds nothing but what stream.json says.
    Random random = stream->context_.random.Fork("first");
    std::string encoded = Manifest::First(stream->info_, random.Next()).Encode();
    HR_ASSIGN_OR_RETURN(CreateResult created,
                        headrace::Create(stream->store(), SlotKey(0), Body(encoded), deadline, stream->clock(), random));
    if (created.kind == CreateResult::kUnknown) return Status(Code::kUnavailable, created.reason.message());
    HR_ASSIGN_OR_RETURN(slot, stream->log_.FindNewest(std::nullopt, deadline));
    if (!slot)
      return Status(Code::kCorrupt,
                    Cat("the log of ", stream->store().Describe(), " is empty although its first manifest was written"));
  }
  HR_ASSIGN_OR_RETURN(StatePtr state, stream->Decode(slot->number, std::move(slot->body)));
  HR_RETURN_IF_ERROR(stream->Learn(std::move(state)));
  return stream;
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
  if (!newest_ || state->manifest.number > newest_->manifest.number) newest_ = std::move(state);
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
  HR_ASSIGN_OR_RETURN(std::optional<Slot> slot, log_.FindNewest(number, deadline));
  if (!slot) return Status(Code::kCorrupt, Cat("the log of ", store().Describe(), " has vanished"));
  if (slot->number > number) {
    HR_ASSIGN_OR_RETURN(StatePtr state, Decode(slot->number, std::move(slot->body)));
    HR_RETURN_IF_ERROR(Learn(std::move(state)));
  }
  return known();
}

Result<StreamLog::StatePtr> StreamLog::Commit(const Edit& edit, const Deadline& deadline) {
  auto ticket = std::make_shared<Ticket>();
  ticket->edit = edit;
  std::unique_lock lock(mutex_);
  queue_.push_back(ticket);
  Status trouble;
  while (!ticket->settled) {
    if (!leading_) {
      leading_ = true;
      lock.unlock();
      trouble = Lead(deadline);
      lock.lock();
      leading_ = false;
      changed_->NotifyAll();
    } else {
      changed_->WaitUntil(lock, deadline.at());
      trouble = deadline.Check(clock(), "commit");
    }
    if (ticket->settled || trouble.ok()) continue;
    // Nobody may decide about it behind our back; but whether it happened already, we do not know if it ever left us.
    ticket->settled = true;
    bool doubt = ticket->in_doubt || ticket->in_flight || ticket->posted;
    ticket->refusal = doubt ? Status(Code::kOutcomeUnknown,
                                     Cat("cannot tell whether the edit is in ", store().Describe(), ": ", trouble.message()))
                            : trouble;
  }
  std::erase(queue_, ticket);
  changed_->NotifyAll();
  if (!ticket->refusal.ok()) return ticket->refusal;
  return ticket->in;
}

std::vector<std::shared_ptr<StreamLog::Ticket>> StreamLog::Waiting() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Ticket>> waiting;
  for (const auto& ticket : queue_) {
    if (!ticket->settled) waiting.push_back(ticket);
  }
  return waiting;
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

Status StreamLog::Settle(const StatePtr& state, const Deadline& deadline) {
  for (const auto& ticket : Waiting()) {
    // What never left this process cannot be in.
    if (!ticket->posted && !ticket->in_doubt) continue;
    Result<bool> in = Contains(state->manifest, ticket->edit, deadline);
    if (!in.ok() && in.code() != Code::kOutcomeUnknown) return std::move(in).status();
    if (in.ok() && !*in) continue;
    if (in.ok()) counts_.carried += 1;
    std::lock_guard lock(mutex_);
    ticket->settled = true;
    ticket->in = state;
    ticket->refusal = std::move(in).status();
  }
  return {};
}

Status StreamLog::Post(const std::vector<std::shared_ptr<Ticket>>& tickets, const Deadline& deadline) {
  for (const auto& ticket : tickets) {
    std::string key;
    if (const auto* chunk = std::get_if<ChunkEdit>(&ticket->edit)) {
      if (!chunk->finish) key = IntentKey(ticket->edit, chunk->name.seq);
    } else if (const auto* end = std::get_if<EndEdit>(&ticket->edit)) {
      key = IntentKey(ticket->edit, known()->manifest.strands[end->strand].next_seq);
    } else if (const auto* bump = std::get_if<BumpEdit>(&ticket->edit)) {
      key = IntentKey(ticket->edit, known()->manifest.strands[bump->strand].next_seq);
    }
    if (key.empty() || ticket->posted) continue;
    {
      std::lock_guard lock(mutex_);
      ticket->posted = true;
    }
    // Whether it got there does not matter: an intent only makes it likelier that somebody else carries the edit.
    (void)store().PutIfAbsent(key, Body(std::string("intent\n")), deadline);
  }
  return {};
}

Status StreamLog::Lead(const Deadline& deadline) {
  Status status = LeadOnce(deadline);
  std::lock_guard lock(mutex_);
  for (const auto& ticket : queue_) ticket->in_flight = false;
  return status;
}

Status StreamLog::LeadOnce(const Deadline& deadline) {
  HR_RETURN_IF_ERROR(deadline.Check(clock(), "commit"));
  StatePtr base = known();
  HR_RETURN_IF_ERROR(Settle(base, deadline));
  std::vector<std::shared_ptr<Ticket>> tickets = Waiting();
  if (tickets.empty()) return {};

  size_t rivals = Rivals(base->manifest);
  bool combine = pace_.Combines(rivals);
  if (combine) HR_RETURN_IF_ERROR(Post(tickets, deadline));
  if (Duration wait = pace_.BeforeAttempt(rivals); wait > Duration::zero()) {
    HR_RETURN_IF_ERROR(deadline.Sleep(clock(), wait, "commit"));
    HR_ASSIGN_OR_RETURN(base, Refresh(deadline));
    HR_RETURN_IF_ERROR(Settle(base, deadline));
    tickets = Waiting();
    if (tickets.empty()) {
      pace_.Carried();
      return {};
    }
  }
  HR_ASSIGN_OR_RETURN(Proposal proposal, Propose(*base, tickets, combine, deadline));
  if (proposal.full) {
    Result<std::optional<Edit>> seal = PrepareSeal(base->manifest, /*urgent=*/true, deadline);
    if (seal.code() == Code::kNotFound) return RefreshFully(deadline).status();  // a segment was folded away since
    if (!seal.ok()) return std::move(seal).status();
    if (*seal) {
      std::lock_guard lock(mutex_);
      seal_ = **seal;
    }
    HR_ASSIGN_OR_RETURN(proposal, Propose(*base, tickets, combine, deadline));
  }
  if (proposal.tickets.empty() && proposal.combined == 0) {
    HR_RETURN_IF_ERROR(Discard(std::move(proposal.done_intents), deadline));
    if (Waiting().empty()) return {};
    if (proposal.stale) return Refresh(deadline).status();
    // What is left waits for others: parked blocks are too far ahead, or a table is full.
    Duration wait = std::chrono::milliseconds(20 + static_cast<int64_t>(NewNonce() % 30));
    HR_RETURN_IF_ERROR(deadline.Sleep(clock(), wait, "wait for the other strands"));
    return Refresh(deadline).status();
  }
  return Attempt(base, proposal, deadline);
}

Result<StreamLog::Proposal> StreamLog::Propose(const State& base, const std::vector<std::shared_ptr<Ticket>>& tickets,
                                               bool combine, const Deadline& deadline) {
  const Rules& rules = context_.rules;
  Proposal proposal;
  proposal.manifest = Successor(base.manifest, base.encoded.AsText(), NewNonce());
  Manifest& next = proposal.manifest;
  {
    std::lock_guard lock(mutex_);
    // A seal that rivals have made superfluous is refused, and forgotten.
    if (seal_ && !Apply(next, *seal_, info_, rules).ok()) seal_.reset();
  }
  for (const auto& ticket : tickets) {
    {
      // From here on its caller cannot give up in the belief that nothing happened.
      std::lock_guard lock(mutex_);
      if (ticket->settled) continue;
      ticket->in_flight = true;
    }
    bool trusted = ticket->validated && !rules.Holds(StreamRule::kValidateAtRebase);
    Status fits = Apply(next, ticket->edit, info_, trusted ? Lax() : rules);
    if (fits.ok()) {
      ticket->validated = true;
      proposal.tickets.push_back(ticket);
      continue;
    }
    if (fits.code() == Code::kStalled) continue;
    if (fits.code() == Code::kFull && std::holds_alternative<ChunkEdit>(ticket->edit)) {
      proposal.full = true;
      continue;
    }
    // It may be another edit of this very proposal that it does not fit; then the next turn decides.
    Manifest alone = base.manifest;
    ++alone.number;
    if (Apply(alone, ticket->edit, info_, rules).ok()) continue;
    // What this process knows may be old. A refusal is final only by a manifest that was looked for after the edit came.
    if (!std::exchange(ticket->fresh, true)) {
      proposal.stale = true;
      continue;
    }
    std::lock_guard lock(mutex_);
    ticket->settled = true;
    ticket->refusal = fits;
  }
  if (combine) {
    HR_ASSIGN_OR_RETURN(std::vector<ListEntry> pending, ListAll(store(), "pending/", deadline));
    std::vector<Intent> intents;
    for (const ListEntry& entry : pending) {
      if (std::optional<Intent> intent = ParseIntentKey(entry.key)) intents.push_back(std::move(*intent));
    }
    // Bumps come last: what was finished under the old epoch still counts.
    std::ranges::sort(intents, {}, [](const Intent& intent) {
      return std::tuple(std::holds_alternative<BumpEdit>(intent.edit), intent.seq, intent.strand, intent.epoch);
    });
    for (Intent& intent : intents) {
      if (intent.strand >= next.strands.size()) continue;
      bool behind = Behind(intent, base.manifest);
      bool ours = std::ranges::any_of(proposal.tickets, [&](const auto& ticket) { return ticket->edit == intent.edit; });
      if (behind || ours) {
        proposal.done_intents.push_back(std::move(intent.key));
      } else if (Apply(next, intent.edit, info_, rules).ok()) {
        ++proposal.combined;
        proposal.done_intents.push_back(std::move(intent.key));
      }
    }
  }
  proposal.encoded = next.Encode();
  return proposal;
}

Status StreamLog::Attempt(const StatePtr& base, Proposal& proposal, const Deadline& deadline) {
  Instant began = clock().Now();
  if (proposal.encoded.size() > Manifest::kMaxBytes) {
    return Status(Code::kFull,
                  Cat("the next manifest would have ", proposal.encoded.size(), " bytes, more than ", Manifest::kMaxBytes));
  }
  uint64_t number = base->manifest.number + 1;
  Result<AppendResult> appended = log_.Append(number, Body(proposal.encoded), deadline);
  if (!appended.ok()) return std::move(appended).status();  // certainly nothing was written
  Duration took = clock().Now() - began;
  // A doubt stays: what becomes of a later attempt says nothing about this one.
  if (appended->kind == AppendResult::kUnknown || appended->kind == AppendResult::kStale) {
    std::lock_guard lock(mutex_);
    for (const auto& ticket : proposal.tickets) ticket->in_doubt = true;
  }
  switch (appended->kind) {
    case AppendResult::kLanded: {
      auto state =
          std::make_shared<const State>(State{std::move(proposal.manifest), Bytes::FromString(std::move(proposal.encoded))});
      HR_RETURN_IF_ERROR(Learn(state));
      counts_.commits += 1;
      counts_.combined += proposal.combined;
      {
        std::lock_guard lock(mutex_);
        for (const auto& ticket : proposal.tickets) {
          ticket->settled = true;
          ticket->in = state;
        }
        if (seal_) seal_.reset();
      }
      changed_->NotifyAll();
      pace_.Landed(took);
      // The edits are in, whatever becomes of the rest: it is done again by whoever comes next.
      (void)Discard(std::move(proposal.done_intents), deadline);
      log_.Hint(number, deadline);
      Result<std::optional<Edit>> seal = PrepareSeal(state->manifest, /*urgent=*/false, deadline);
      if (seal.ok() && *seal) {
        std::lock_guard lock(mutex_);
        seal_ = **seal;
      }
      return {};
    }
    case AppendResult::kLost: {
      counts_.lost += 1;
      pace_.Lost(took);
      HR_ASSIGN_OR_RETURN(StatePtr winner, Decode(number, std::move(appended->winner)));
      HR_RETURN_IF_ERROR(CheckLink(*base, *winner));
      return Learn(std::move(winner));
    }
    case AppendResult::kStale: {
      if (!context_.rules.Holds(StreamRule::kStaleIsUndecided)) {
        std::lock_guard lock(mutex_);
        for (const auto& ticket : proposal.tickets) {
          ticket->settled = true;
          ticket->refusal = Status(Code::kConflict, "another manifest holds the slot");
        }
        return {};
      }
      return RefreshFully(deadline).status();
    }
    case AppendResult::kUnknown: return deadline.Check(clock(), appended->reason.message());
  }
  return {};
}

Result<std::optional<Edit>> StreamLog::PrepareSeal(const Manifest& manifest, bool urgent, const Deadline& deadline) {
  const size_t sealed = info_.segment_entries;
  {
    std::lock_guard lock(mutex_);
    if (seal_ && !urgent) return std::optional<Edit>();
    // Rivals see the same tail: a little luck decides who writes the segment, until it becomes pressing.
    size_t entries = manifest.tail.size() + manifest.parked.size();
    bool pressing = urgent || entries >= kUrgent;
    bool ready = manifest.tail.size() >= sealed + sealed / 2 || (pressing && manifest.tail.size() >= sealed);
    bool fold = std::ranges::any_of(manifest.index, [](const auto& level) { return level.size() >= Manifest::kFold; });
    if (!ready && !fold) return std::optional<Edit>();
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
      std::vector<Entry> entries;
      for (const SegmentRef& ref : refs) {
        HR_ASSIGN_OR_RETURN(std::vector<Entry> more, index_.segments().Entries(ref, deadline));
        entries.insert(entries.end(), more.begin(), more.end());
      }
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

Status StreamLog::Discard(std::vector<std::string> intents, const Deadline& deadline) {
  if (intents.empty() || !context_.rules.Holds(StreamRule::kDeleteIntents)) return {};
  return store().Delete(intents, deadline);
}

}  // namespace headrace
