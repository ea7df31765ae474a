// The next manifest: what fits into it, and whether it became the next one.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "stream/commit_metrics.h"
#include "stream/rules.h"
#include "stream/stream_log.h"

namespace headrace {
namespace {

constexpr int kHelpAfter =
    8;  // stalls after which a producer looks whether the edit that it waits for is posted, its owner being dead

// All checks off, for the mutation that trusts an edit once it was checked.
Rules Lax() {
  Rules rules;
  for (StreamRule rule : {StreamRule::kCheckUuid, StreamRule::kCheckEpoch, StreamRule::kCheckPrev, StreamRule::kCheckMixture})
    rules.Break(rule);
  return rules;
}

}  // namespace

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
      CommitMetrics::OfProcess().commits.Add(1);
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
      CommitMetrics::OfProcess().conflicts.Add(1);
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

}  // namespace headrace
