// Who commits what and when: callers that wait, the one of them that leads, intents, and stewards.
#include <algorithm>

#include "base/text.h"
#include "stream/commit_metrics.h"
#include "stream/stream_log.h"

namespace headrace {
namespace {

constexpr int kIdleTurns = 3;  // without anything to carry, before a steward stops
constexpr auto kChoreTime = std::chrono::seconds(20);

}  // namespace

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
  CommitMetrics::OfProcess().duration.Observe(std::chrono::duration<double>(clock().Now() - began).count());
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

}  // namespace headrace
