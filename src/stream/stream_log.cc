#include "stream/stream_log.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
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
constexpr int kIdleTurns = 3;  // without anything to carry, before a steward stops
constexpr int kHelpAfter =
    8;  // stalls after which a producer looks whether the edit that it waits for is posted, its owner being dead
constexpr size_t kDiscardAtOnce = 64;  // intents
constexpr auto kDiscardAfter = std::chrono::seconds(1);
constexpr auto kHintInterval = std::chrono::seconds(1);
constexpr auto kChoreTime = std::chrono::seconds(20);
constexpr auto kLastChoreTime = std::chrono::seconds(5);  // of somebody who is leaving

// All checks off, for the mutation that trusts an edit once it was checked.
Rules Lax() {
  Rules rules;
  for (StreamRule rule : {StreamRule::kCheckUuid, StreamRule::kCheckEpoch, StreamRule::kCheckPrev, StreamRule::kCheckMixture})
    rules.Break(rule);
  return rules;
}

struct CommitMetrics {
  Histogram& duration = Metrics::Default().GetHistogram("headrace_commit_duration_seconds",
                                                        "From asking for a change of a stream until it is committed.");
  Counter& conflicts = Metrics::Default().GetCounter("headrace_commit_conflicts_total",
                                                     "Attempts to commit that another process was quicker with.");
  Counter& commits = Metrics::Default().GetCounter("headrace_commits_total", "Manifests that this process has written.");
};

CommitMetrics& TheMetrics() {
  static CommitMetrics metrics;
  return metrics;
}

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
  std::optional<uint64_t> hint;
  Result<std::optional<Object>> read = std::optional<Object>();
  Status hinted;
  {
    TaskGroup beside(*context.executor);
    beside.Spawn([&] {
      Result<std::optional<uint64_t>> found = Log::ReadHint(*context.store, deadline);
      if (found.ok()) hint = *found;
      hinted = std::move(found).status();
    });
    read = context.store->Get(std::string(kInfoKey), deadline);
    beside.Wait();
  }
  HR_ASSIGN_OR_RETURN(std::optional<Object> json, std::move(read));
  if (!json) return Status(Code::kNotFound, Cat("there is no stream at ", context.store->Describe()));
  Result<StreamInfo> info = StreamInfo::FromJson(json->bytes.AsText());
  if (!info.ok()) return info.status().Annotate(context.store->Describe(std::string(kInfoKey)));
  HR_RETURN_IF_ERROR(hinted);
  std::shared_ptr<StreamLog> stream(new StreamLog(*std::move(info), std::move(context), nullptr));
  HR_ASSIGN_OR_RETURN(std::optional<Slot> slot, stream->log_.FindNewest(hint, deadline));
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

Result<StreamLog::StatePtr> StreamLog::Commit(const Edit& edit, const Deadline& deadline) {
  auto ticket = std::make_shared<Ticket>();
  ticket->edit = edit;
  const bool rivals = Rivals(known()->manifest) > 0;
  std::unique_lock lock(mutex_);
  queue_.push_back(ticket);
  ++arrivals_;
  const Instant began = clock().Now();
  changed_->NotifyAll();
  if (pace_.Combines(rivals) && pace_.Crowded() && !stewarding_) {
    lock.unlock();
    PostOne(*ticket, deadline);
    lock.lock();
  }
  Status trouble;
  while (!ticket->settled) {
    if (!leading_ && !stewarding_) {
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
  TheMetrics().duration.Observe(std::chrono::duration<double>(clock().Now() - began).count());
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
    {
      // What never left this process cannot be in.
      std::lock_guard lock(mutex_);
      if (!ticket->posted && !ticket->in_doubt) continue;
    }
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

void StreamLog::PostOne(Ticket& ticket, const Deadline& deadline) {
  std::string key;
  if (const auto* chunk = std::get_if<ChunkEdit>(&ticket.edit)) {
    if (!chunk->finish) key = IntentKey(ticket.edit, chunk->name.seq);
  } else if (const auto* end = std::get_if<EndEdit>(&ticket.edit)) {
    key = IntentKey(ticket.edit, known()->manifest.strands[end->strand].next_seq);
  } else if (const auto* bump = std::get_if<BumpEdit>(&ticket.edit)) {
    key = IntentKey(ticket.edit, known()->manifest.strands[bump->strand].next_seq);
  }
  if (key.empty()) return;
  Instant began = clock().Now();
  {
    std::lock_guard lock(mutex_);
    if (ticket.posted || ticket.settled) return;
    ticket.posted = true;
    ticket.look_at = Later(began, pace_.FirstLook());
    ticket.try_at = Later(began, pace_.Patience());
  }
  // Whether it got there does not matter: an intent only makes it likelier that somebody else carries the edit.
  (void)store().PutIfAbsent(key, Body(std::string("intent\n")), deadline);
  std::lock_guard lock(mutex_);
  Instant now = clock().Now();
  pace_.Posted(now - began);
  ticket.look_at = Later(now, pace_.FirstLook());
  ticket.try_at = Later(now, pace_.Patience());
}

void StreamLog::Post(const std::vector<std::shared_ptr<Ticket>>& tickets, const Deadline& deadline) {
  if (tickets.size() == 1) return PostOne(*tickets.front(), deadline);
  bool any = false;
  {
    std::lock_guard lock(mutex_);
    any = std::ranges::any_of(tickets, [](const auto& ticket) { return !ticket->posted; });
  }
  if (!any) return;
  TaskGroup posts(*context_.executor);
  for (const auto& ticket : tickets) {
    posts.Spawn([this, ticket, deadline] { PostOne(*ticket, deadline); });
  }
  posts.Wait();
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
  if (Waiting().empty()) return {};

  size_t rivals = Rivals(base->manifest);
  bool combine = pace_.Combines(rivals);
  if (combine) {
    HR_ASSIGN_OR_RETURN(bool time, WaitToBeCarried(deadline));
    if (!time) return {};
  } else {
    Duration wait;
    {
      std::lock_guard lock(mutex_);
      wait = pace_.BeforeAttempt(rivals);
    }
    if (wait > Duration::zero()) {
      HR_RETURN_IF_ERROR(deadline.Sleep(clock(), wait, "commit"));
      HR_ASSIGN_OR_RETURN(base, Refresh(deadline));
      HR_RETURN_IF_ERROR(Settle(base, deadline));
      if (Waiting().empty()) return {};
    }
  }
  return TakeTurn(combine, /*steward=*/false, deadline).status();
}

Result<bool> StreamLog::WaitToBeCarried(const Deadline& deadline) {
  bool crowded = false;
  {
    std::lock_guard lock(mutex_);
    crowded = pace_.Crowded();
  }
  if (crowded) Post(Waiting(), deadline);
  bool look = false;
  {
    std::unique_lock lock(mutex_);
    while (true) {
      Instant due = Instant::max();
      for (const auto& ticket : queue_) {
        if (!ticket->settled) due = std::min(due, ticket->look_at);
      }
      Instant now = clock().Now();
      if (due == Instant::max()) return false;
      if (due <= now) break;
      if (Status late = deadline.Check(clock(), "commit"); !late.ok()) return late;
      changed_->WaitUntil(lock, std::min(due, deadline.at()));
    }
    look = clock().Now() - known_at_ > pace_.Blink();
  }
  if (look) {
    HR_ASSIGN_OR_RETURN(StatePtr state, Look(deadline));
    HR_RETURN_IF_ERROR(Settle(state, deadline));
  }
  std::lock_guard lock(mutex_);
  Instant now = clock().Now();
  bool any = false;
  bool due = false;
  bool late = false;
  for (const auto& ticket : queue_) {
    if (ticket->settled) continue;
    any = true;
    due = due || ticket->look_at <= now;
    late = late || !ticket->posted || ticket->try_at <= now;
  }
  if (!any) pace_.Carried();
  if (!due) return false;
  if (late || !pace_.Crowded()) return true;
  for (const auto& ticket : queue_) {
    if (ticket->look_at <= now) ticket->look_at = Later(now, pace_.NextLook());
  }
  return false;
}

Result<StreamLog::Turn> StreamLog::TakeTurn(bool combine, bool steward, const Deadline& deadline) {
  StatePtr base = known();
  std::vector<std::shared_ptr<Ticket>> tickets = Waiting();
  uint64_t arrivals = 0;
  {
    std::lock_guard lock(mutex_);
    arrivals = arrivals_;
  }
  HR_ASSIGN_OR_RETURN(Proposal proposal, Propose(*base, tickets, combine, steward, deadline));
  if (proposal.full) {
    Result<std::optional<Edit>> seal = PrepareSeal(base->manifest, /*urgent=*/true, deadline);
    if (seal.code() == Code::kNotFound) {  // a segment was folded away since
      HR_RETURN_IF_ERROR(RefreshFully(deadline).status());
      return Turn::kOther;
    }
    if (!seal.ok()) return std::move(seal).status();
    if (*seal) {
      std::lock_guard lock(mutex_);
      seal_ = **seal;
    }
    HR_ASSIGN_OR_RETURN(proposal, Propose(*base, tickets, combine, steward, deadline));
  }
  // A fold may have to come before the seal that makes room.
  bool room = proposal.full && proposal.seal;
  if (!proposal.tickets.empty() || proposal.combined > 0 || room) return Attempt(base, proposal, deadline);

  Discard(std::move(proposal.done_intents));
  if (steward) {
    if (proposal.stale) HR_RETURN_IF_ERROR(Refresh(deadline).status());
    return Turn::kNothing;
  }
  if (Waiting().empty()) return Turn::kNothing;
  if (!proposal.stale) {
    // What is left waits for others: parked blocks are too far ahead, or a table is full. Or for another strand of this process.
    std::unique_lock lock(mutex_);
    int stalls = 0;
    for (const auto& ticket : queue_) stalls = std::max(stalls, ++ticket->stalls);
    Duration wait = std::chrono::milliseconds((20 + static_cast<int64_t>(random_.Below(30))) << std::min(stalls / 4, 3));
    Instant until = std::min(Later(clock().Now(), wait), deadline.at());
    while (arrivals_ == arrivals && clock().Now() < until) changed_->WaitUntil(lock, until);
    if (arrivals_ != arrivals) return Turn::kNothing;
  }
  HR_RETURN_IF_ERROR(deadline.Check(clock(), "wait for the other strands"));
  HR_RETURN_IF_ERROR(Refresh(deadline).status());
  return Turn::kNothing;
}

void StreamLog::Steward() {
  int idle = 0;
  int lost = 0;
  Instant began = clock().Now();
  while (true) {
    Duration turn;
    {
      std::lock_guard lock(mutex_);
      turn = pace_.Turn();
    }
    clock().SleepUntil(Later(began, turn), stop_.get_token());
    {
      std::unique_lock lock(mutex_);
      while (leading_ && !closing_) changed_->Wait(lock);
      if (closing_) break;
      leading_ = true;
    }
    began = clock().Now();
    Deadline deadline = Deadline::After(clock(), kChoreTime, stop_.get_token());
    Status settled = Settle(known(), deadline);
    Result<Turn> taken = settled.ok() ? TakeTurn(/*combine=*/true, /*steward=*/true, deadline) : Result<Turn>(settled);
    {
      std::lock_guard lock(mutex_);
      for (const auto& ticket : queue_) ticket->in_flight = false;
      leading_ = false;
      changed_->NotifyAll();
    }
    if (!taken.ok()) break;
    idle = *taken == Turn::kNothing ? idle + 1 : 0;
    lost = *taken == Turn::kOther ? lost + 1 : 0;
    if (idle >= kIdleTurns) {
      std::lock_guard lock(mutex_);
      pace_.Alone();
      break;
    }
    if (lost >= 2) break;  // somebody else does it
  }
  std::lock_guard lock(mutex_);
  stewarding_ = false;
  changed_->NotifyAll();
}

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

Result<StreamLog::Proposal> StreamLog::Propose(const State& base, const std::vector<std::shared_ptr<Ticket>>& tickets,
                                               bool combine, bool steward, const Deadline& deadline) {
  const Rules& rules = context_.rules;
  Proposal proposal;
  proposal.manifest = Successor(base.manifest, base.encoded.AsText(), NewNonce());
  Manifest& next = proposal.manifest;
  {
    std::lock_guard lock(mutex_);
    // A seal that rivals have made superfluous is refused, and forgotten.
    if (seal_ && !Apply(next, *seal_, info_, rules).ok()) seal_.reset();
    proposal.seal = seal_;
  }
  bool help = steward;
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
    if (fits.code() == Code::kStalled) {
      // The edit that it waits for may be posted, and its owner dead: then it helps to carry it. But not at every turn.
      proposal.stalled = true;
      help = help || ticket->stalls % kHelpAfter == kHelpAfter - 1;
      continue;
    }
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
  if (combine && (help || !proposal.tickets.empty())) {
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
      } else if (Status fits = Apply(next, intent.edit, info_, rules); fits.ok()) {
        ++proposal.combined;
        proposal.done_intents.push_back(std::move(intent.key));
      } else if (fits.code() == Code::kFull) {
        proposal.full = true;
      }
    }
  }
  proposal.encoded = next.Encode();
  return proposal;
}

Result<StreamLog::Turn> StreamLog::Attempt(const StatePtr& base, Proposal& proposal, const Deadline& deadline) {
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
      TheMetrics().commits.Add(1);
      counts_.combined += proposal.combined;
      {
        std::lock_guard lock(mutex_);
        for (const auto& ticket : proposal.tickets) {
          ticket->settled = true;
          ticket->in = state;
        }
        if (seal_ == proposal.seal) seal_.reset();
        known_at_ = clock().Now();
        pace_.Landed(took, proposal.combined);
        hint_owed_ = number;
        // Whoever has written to the stream, and found others' edits waiting, will find more of them.
        bool writes = std::ranges::any_of(state->manifest.strands, [&](const Strand& row) { return row.owner == owner_; });
        if (proposal.combined > 0 && writes && !closing_ && !std::exchange(stewarding_, true))
          background_.Spawn([this] { Steward(); });
        // A sealed stream's index is the collector's to finish: what is prepared after its last look would be left over.
        seal_due_ = !state->manifest.finished && ReadyToSeal(state->manifest, /*urgent=*/false);
        StartTending();
      }
      changed_->NotifyAll();
      Discard(std::move(proposal.done_intents));
      return Turn::kLanded;
    }
    case AppendResult::kLost: {
      counts_.lost += 1;
      TheMetrics().conflicts.Add(1);
      {
        std::lock_guard lock(mutex_);
        pace_.Lost(took);
      }
      HR_ASSIGN_OR_RETURN(StatePtr winner, Decode(number, std::move(appended->winner)));
      HR_RETURN_IF_ERROR(CheckLink(*base, *winner));
      HR_RETURN_IF_ERROR(Learn(std::move(winner)));
      return Turn::kOther;
    }
    case AppendResult::kStale: {
      if (!context_.rules.Holds(StreamRule::kStaleIsUndecided)) {
        std::lock_guard lock(mutex_);
        for (const auto& ticket : proposal.tickets) {
          ticket->settled = true;
          ticket->refusal = Status(Code::kConflict, "another manifest holds the slot");
        }
        return Turn::kOther;
      }
      HR_RETURN_IF_ERROR(RefreshFully(deadline).status());
      return Turn::kOther;
    }
    case AppendResult::kUnknown: {
      HR_RETURN_IF_ERROR(deadline.Check(clock(), appended->reason.message()));
      return Turn::kOther;
    }
  }
  return Turn::kOther;
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

void StreamLog::Discard(std::vector<std::string> intents) {
  if (intents.empty() || !context_.rules.Holds(StreamRule::kDeleteIntents)) return;
  std::lock_guard lock(mutex_);
  if (done_intents_.empty()) discard_at_ = Later(clock().Now(), kDiscardAfter);
  done_intents_.insert(intents.begin(), intents.end());
  StartTending();
}

}  // namespace headrace
