#include "store/s3/credentials_refresh.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "store/s3/credentials_answer.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLead = 5min;       // how long before their end credentials are renewed
constexpr Duration kMargin = 10s;      // a request that is signed now is checked that much later at the most
constexpr Duration kFetchLimit = 2min;

bool Same(const Credentials& a, const Credentials& b) {
  return a.access_key_id == b.access_key_id && a.secret_access_key == b.secret_access_key && a.session_token == b.session_token;
}

}  // namespace

struct RefreshingCredentials::State {
  State(Fetch how, Executor& on, Random jitter)
      : fetch(std::move(how)), executor(on), clock(on.clock()), random(jitter), signal(on.MakeSignal()) {}

  // What is at hand, and how long it lasts. Both clocks count: the calendar may be put back, and the other one may stand still
  // in a suspended machine.
  struct Held {
    Credentials credentials;
    Instant since;
    Duration lifetime = Duration::max();
    Duration lead{}, margin{};

    Duration Remaining(Clock& now) const {
      if (!credentials.expires) return Duration::max();
      return std::min(*credentials.expires - now.WallNow(), lifetime - (now.Now() - since));
    }
  };

  // The outcome of a fetch becomes what everybody sees.
  void Settle(Result<Credentials> fetched);
  Status Admit(Credentials fetched);
  void RenewInBackground(const std::shared_ptr<State>& self);

  const Fetch fetch;
  Executor& executor;
  Clock& clock;
  std::stop_source closing;

  std::mutex mutex;
  Random random;
  std::unique_ptr<Signal> signal;  // a fetch has ended
  std::optional<Held> held;
  std::vector<Credentials> refused;  // the last few
  bool fetching = false;
  bool queued = false;   // a renewal waits for its turn on the executor
  uint64_t rounds = 0;   // fetches that ended
  Status failure;        // of the last one
  Instant pause_until{};  // after a failure
};

Status RefreshingCredentials::State::Admit(Credentials fetched) {
  Held next;
  next.since = clock.Now();
  if (std::any_of(refused.begin(), refused.end(), [&](const Credentials& old) { return Same(old, fetched); })) {
    return Status(fetched.expires ? Code::kExpired : Code::kDenied,
                  Cat("the credentials from ", fetched.origin, " (access key ", fetched.access_key_id,
                      ") were refused as expired, and there are no newer ones there. Renew them"));
  }
  if (fetched.expires) {
    next.lifetime = *fetched.expires - clock.WallNow();
    if (next.lifetime <= Duration::zero()) {
      return Status(Code::kExpired,
                    Cat("the credentials from ", fetched.origin, " (access key ", fetched.access_key_id, ") ended at ",
                        FormatTimestamp(*fetched.expires), ". Renew them, or set the clock of this machine right"));
    }
    // Spread, so that a thousand machines that started together do not come back together.
    auto lead = std::chrono::duration<double, std::nano>(std::min(kLead, next.lifetime / 4)) * random.Uniform(0.8, 1.0);
    next.lead = std::chrono::duration_cast<Duration>(lead);
    next.margin = std::min(kMargin, next.lifetime / 10);
  }
  next.credentials = std::move(fetched);
  held = std::move(next);
  return Status::Ok();
}

void RefreshingCredentials::State::Settle(Result<Credentials> fetched) {
  failure = fetched.ok() ? Admit(*std::move(fetched)) : std::move(fetched).status();
  fetching = false;
  ++rounds;
  signal->NotifyAll();
  if (failure.ok()) return;
  Duration left = held ? held->Remaining(clock) : Duration::zero();
  if (left <= Duration::zero()) {
    pause_until = clock.Now() + 1s;
    return;
  }
  Duration pause = std::clamp<Duration>(left / 10, 1s, 60s);
  pause_until = clock.Now() + std::chrono::duration_cast<Duration>(pause * random.Uniform(0.5, 1.0));
  HR_LOG(kWarning, "cannot renew credentials yet, going on with the old ones", {"origin", held->credentials.origin},
         {"seconds_left", std::chrono::duration_cast<std::chrono::seconds>(left).count()}, {"reason", failure.message()});
}

void RefreshingCredentials::State::RenewInBackground(const std::shared_ptr<State>& self) {
  queued = true;
  executor.Spawn([self] {
    {
      std::lock_guard lock(self->mutex);
      self->queued = false;
      // Somebody in need may have been faster.
      if (self->fetching || !self->held || self->held->Remaining(self->clock) > self->held->lead) return;
      self->fetching = true;
    }
    Result<Credentials> fetched = self->fetch(Deadline::After(self->clock, kFetchLimit, self->closing.get_token()));
    std::lock_guard lock(self->mutex);
    self->Settle(std::move(fetched));
  });
}

RefreshingCredentials::RefreshingCredentials(Fetch fetch, Executor& executor, Random random)
    : state_(std::make_shared<State>(std::move(fetch), executor, random)) {}

RefreshingCredentials::~RefreshingCredentials() { state_->closing.request_stop(); }

Result<Credentials> RefreshingCredentials::Get(const Deadline& deadline) {
  State& state = *state_;
  // Declared before the lock: its end waits for a callback that may be waiting for the lock.
  std::stop_callback on_stop(deadline.stop(), [&state] {
    std::lock_guard lock(state.mutex);
    state.signal->NotifyAll();
  });
  std::unique_lock lock(state.mutex);
  const uint64_t first_round = state.rounds;
  while (true) {
    Duration left = state.held ? state.held->Remaining(state.clock) : Duration::zero();
    const bool may_try = state.clock.Now() >= state.pause_until;
    if (state.held && left > state.held->margin) {
      if (left <= state.held->lead && may_try && !state.fetching && !state.queued) state.RenewInBackground(state_);
      return state.held->credentials;
    }
    if (!state.fetching && !state.failure.ok() && (!may_try || state.rounds != first_round)) {
      if (left > Duration::zero()) return state.held->credentials;
      return state.failure;
    }
    HR_RETURN_IF_ERROR(deadline.Check(state.clock, "waiting for credentials"));
    if (state.fetching) {
      state.signal->WaitUntil(lock, deadline.at());
      continue;
    }
    state.fetching = true;
    lock.unlock();
    Result<Credentials> fetched = state.fetch(deadline.NotAfter(state.clock.Now() + kFetchLimit));
    lock.lock();
    Status mine = deadline.Check(state.clock, "fetching credentials");
    if (!fetched.ok() && !mine.ok()) {
      // It was this caller who had no time; another one may have.
      state.fetching = false;
      state.signal->NotifyAll();
      return fetched.status();
    }
    state.Settle(std::move(fetched));
  }
}

void RefreshingCredentials::Invalidate(const Credentials& refused) {
  std::lock_guard lock(state_->mutex);
  state_->refused.push_back(refused);
  if (state_->refused.size() > 4) state_->refused.erase(state_->refused.begin());
  if (!state_->held || !Same(state_->held->credentials, refused)) return;
  state_->held.reset();
  state_->failure = Status::Ok();
  state_->pause_until = {};
}

}  // namespace headrace
