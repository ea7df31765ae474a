#include "load/session_pin.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"

namespace headrace {
namespace {

constexpr Duration kAttempt = std::chrono::seconds(60);

std::string NameFor(uint64_t nonce) { return Cat("session-", Hex(&nonce, sizeof(nonce))); }

}  // namespace

SessionPin::SessionPin(std::shared_ptr<StreamLog> log, Executor& executor, uint64_t step, Duration term)
    : log_(std::move(log)), step_(step), term_(term), name_(NameFor(log_->NewNonce())), changed_(executor.MakeSignal()) {}

std::shared_ptr<SessionPin> SessionPin::Start(std::shared_ptr<StreamLog> log, Executor& executor, uint64_t step, Duration term) {
  std::shared_ptr<SessionPin> pin(new SessionPin(std::move(log), executor, step, term));
  // However the work ends, even if it never ran, nobody waits for it for ever.
  struct Running {
    explicit Running(std::shared_ptr<SessionPin> session) : self(std::move(session)) {}
    ~Running() {
      std::lock_guard lock(self->mutex_);
      self->running_ = false;
      self->changed_->NotifyAll();
    }
    std::shared_ptr<SessionPin> self;
  };
  executor.Spawn([running = std::make_shared<Running>(pin)] { running->self->Hold(); });
  return pin;
}

Status SessionPin::Pin() {
  Deadline deadline = Deadline::After(log_->clock(), kAttempt, stop_.get_token());
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->Refresh(deadline));
  headrace::Pin pin;
  pin.name = name_;
  pin.step = std::min(step_, state->manifest.frontier_step);
  pin.term_seconds = static_cast<uint32_t>(std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::seconds>(term_).count()));
  {
    std::lock_guard lock(mutex_);
    held_ = true;  // or perhaps: an attempt that failed may have landed
  }
  return log_->Commit(PinEdit{std::move(pin), ""}, deadline).status();
}

void SessionPin::Hold() {
  bool said = false;
  bool pinned = false;
  while (!stop_.stop_requested()) {
    Status status =
        pinned ? log_->Commit(RenewEdit{name_}, Deadline::After(log_->clock(), kAttempt, stop_.get_token())).status() : Pin();
    if (status.code() == Code::kNotFound && pinned) pinned = false;  // expired while this process stood still
    if (status.ok()) pinned = true;
    if (!status.ok() && !stop_.stop_requested() && !said) {
      said = true;
      HR_LOG(kWarning, "the stream is not held for this job: old steps may be deleted before its first checkpoint is pinned",
             {"stream", log_->store().Describe()}, {"reason", status.message()});
    }
    if (status.code() == Code::kDenied || status.code() == Code::kTrimmed || status.code() == Code::kInvalidArgument) return;
    log_->clock().SleepFor(pinned ? term_ / 4 : std::min<Duration>(term_ / 4, std::chrono::seconds(5)), stop_.get_token());
  }
}

bool SessionPin::Stop() {
  stop_.request_stop();
  std::unique_lock lock(mutex_);
  while (running_) changed_->WaitInDestructor(lock);
  return held_;
}

}  // namespace headrace
