#include "load/loader.h"

#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"
#include "base/size.h"
#include "base/text.h"

namespace headrace {
namespace {

double Seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

constexpr size_t kMixturesRemembered = 64;

Status Closed() { return Status(Code::kCancelled, "the loader is closed"); }

struct LoaderMetrics {
  Counter& wait = Metrics::Default().GetCounter("headrace_loader_wait_seconds_total", "Time that trainers waited for a step.");
  Counter& steps = Metrics::Default().GetCounter("headrace_loader_steps_total", "Steps handed to trainers.");
  Gauge& step = Metrics::Default().GetGauge("headrace_loader_step", "The step handed over last.");
  Gauge& frontier = Metrics::Default().GetGauge("headrace_frontier_step", "Steps of the stream that are visible.");
  Gauge& ahead = Metrics::Default().GetGauge("headrace_steps_ahead", "Visible steps that the trainer has still before it.");
};

LoaderMetrics& TheMetrics() {
  static LoaderMetrics metrics;
  return metrics;
}

}  // namespace

Loader::Loader(std::shared_ptr<StreamLog> log, LoaderOptions options, Executor& executor)
    : log_(std::move(log)), reader_(std::make_shared<StreamReader>(log_)), executor_(executor), options_(options) {}

std::shared_ptr<Prefetch> Loader::Current() {
  if (prefetch_) return prefetch_;
  PrefetchOptions options;
  options.habit = habit_;
  options.pool = pool_;
  options.first_step = cursor_;
  options.lanes = options_.lanes;
  options.skipped = skipped_;
  options.window_bytes = options_.window_bytes;
  prefetch_ = Prefetch::Start(log_, reader_, executor_, counts_, std::move(options));
  if (options_.hold && !session_ && !session_over_) session_ = SessionPin::Start(log_, executor_, cursor_);
  return prefetch_;
}

Result<Loader::Turn> Loader::Next(Instant until) {
  while (true) {
    Instant began = clock().Now();
    std::shared_ptr<Prefetch> prefetch;
    uint64_t step = 0;
    {
      std::lock_guard lock(mutex_);
      if (closed_) return Closed();
      step = cursor_ = skipped_.NotIn(cursor_);
      prefetch = Current();
    }
    Result<Prefetch::Turn> turn = prefetch->Take(step, until);
    Instant now = clock().Now();

    std::unique_lock lock(mutex_);
    if (closed_) return Closed();
    if (prefetch_ != prefetch || cursor_ != step) continue;  // somebody else moved the cursor meanwhile
    if (!turn.ok()) {
      waiting_since_.reset();
      return std::move(turn).status();
    }
    wait_ += now - began;
    if (handed_over_ == 0) first_wait_ += now - began;
    TheMetrics().wait.Add(Seconds(now - began));
    if (turn->kind == Prefetch::Turn::kNotYet) {
      if (!waiting_since_) waiting_since_ = began;
      Duration waited = now - *waiting_since_;
      if (waited >= options_.timeout) {
        waiting_since_.reset();
        warned_ = looked_ = false;
        lock.unlock();
        return Stalled(step, *prefetch, waited);
      }
      if (waited >= options_.warn_after && !warned_) {
        warned_ = looked_ = true;
        lock.unlock();
        HR_LOG(kWarning, "training waits for data", {"stream", log_->store().Describe()}, {"step", step},
               {"seconds", Seconds(waited)}, {"why", prefetch->Waiting()});
      } else if (waited >= options_.timeout / 2 && !looked_) {
        looked_ = true;
        lock.unlock();
        prefetch->LookWhoIsLate();
      }
      return Turn{Turn::kNotYet, std::nullopt};
    }
    waiting_since_.reset();
    warned_ = looked_ = false;
    if (turn->kind == Prefetch::Turn::kEnd) return Turn{Turn::kEnd, std::nullopt};
    cursor_ = step + 1;
    ++handed_over_;
    Step handed(std::move(turn->block), step);
    NoteMixture(step, handed.mixture());
    lock.unlock();
    habit_->HandedOver();
    NoteHandedOver(step);
    return Turn{Turn::kStep, std::move(handed)};
  }
}

void Loader::NoteHandedOver(uint64_t step) {
  uint64_t frontier = log_->known()->manifest.frontier_step;
  LoaderMetrics& metrics = TheMetrics();
  metrics.steps.Add(1);
  metrics.step.Set(static_cast<double>(step));
  metrics.frontier.Set(static_cast<double>(frontier));
  metrics.ahead.Set(static_cast<double>(frontier - std::min(frontier, step + 1)));
}

void Loader::NoteMixture(uint64_t step, uint32_t mixture) {
  if (!drawn_.empty() && drawn_.back().mixture == mixture) {
    drawn_.back().first = std::min(drawn_.back().first, step);
    drawn_.back().last = std::max(drawn_.back().last, step);
    return;
  }
  Drawn run{step, step, mixture};
  for (auto seen = drawn_.begin(); seen != drawn_.end(); ++seen) {
    if (seen->mixture != mixture) continue;
    run = {std::min(seen->first, step), std::max(seen->last, step), mixture};
    drawn_.erase(seen);
    break;
  }
  if (drawn_.size() >= kMixturesRemembered) drawn_.erase(drawn_.begin());
  drawn_.push_back(run);
}

std::optional<uint32_t> Loader::MixtureOf(uint64_t step) const {
  std::lock_guard lock(mutex_);
  for (const Drawn& run : drawn_) {
    if (step >= run.first && step <= run.last) return run.mixture;
  }
  return {};
}

Status Loader::Stalled(uint64_t step, Prefetch& prefetch, Duration waited) const {
  return Status(Code::kStalled,
                Cat("step ", step, " of ", log_->store().Describe(), " did not come within ", FormatDuration(waited), ": ",
                    prefetch.Waiting(), ". `headrace inspect` shows who writes; a longer timeout= waits longer"));
}

Result<Step> Loader::Read(uint64_t step, const Deadline& deadline) {
  LaneRange lanes = this->lanes();
  HR_ASSIGN_OR_RETURN(Entry entry, reader_->Find(step, deadline));
  // The same way as all others, checks and retries included: a prefetch of one block.
  PrefetchOptions options;
  options.habit = habit_;
  options.pool = pool_;
  options.first_step = step;
  options.lanes = lanes;
  options.skipped.Add(entry.end_step(), UINT64_MAX);
  std::shared_ptr<Prefetch> prefetch;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return Closed();
    prefetch = Prefetch::Start(log_, reader_, executor_, counts_, std::move(options));
    retired_.push_back(prefetch);
  }
  std::stop_callback stopped(deadline.stop(), [&] { prefetch->Stop(); });
  Result<Prefetch::Turn> turn = prefetch->Take(step, deadline.at());
  prefetch->Stop();
  HR_RETURN_IF_ERROR(turn.status());
  if (turn->kind != Prefetch::Turn::kBlock)
    return Status(Code::kUnavailable, Cat("step ", step, " could not be read in time: ", prefetch->Waiting()));
  return Step(std::move(turn->block), step);
}

uint64_t Loader::cursor() const {
  std::lock_guard lock(mutex_);
  return cursor_;
}

void Loader::Restart() {
  waiting_since_.reset();
  std::erase_if(retired_, [](const auto& prefetch) { return prefetch->idle(); });
  if (!prefetch_) return;
  prefetch_->Stop();
  retired_.push_back(std::move(prefetch_));
  prefetch_ = nullptr;
}

void Loader::Seek(uint64_t step) {
  std::lock_guard lock(mutex_);
  if (step == cursor_) return;
  cursor_ = step;
  Restart();
}

void Loader::Skip(uint64_t first, uint64_t end) {
  std::lock_guard lock(mutex_);
  skipped_.Add(first, end);
  // What is on its way was chosen without knowing this.
  if (end > cursor_) Restart();
}

StepRanges Loader::skipped() const {
  std::lock_guard lock(mutex_);
  return skipped_;
}

void Loader::SetLanes(LaneRange lanes) {
  std::lock_guard lock(mutex_);
  if (lanes == options_.lanes) return;
  options_.lanes = lanes;
  Restart();
}

void Loader::SetHold(bool hold) {
  std::lock_guard lock(mutex_);
  options_.hold = hold;
}

LaneRange Loader::lanes() const {
  std::lock_guard lock(mutex_);
  return options_.lanes;
}

Result<std::optional<uint64_t>> Loader::Length(const Deadline& deadline) {
  StreamLog::StatePtr state = log_->known();
  if (!state->manifest.finished) {
    HR_ASSIGN_OR_RETURN(state, log_->Refresh(deadline));
  }
  if (!state->manifest.finished) return std::optional<uint64_t>();
  return std::optional(state->manifest.frontier_step);
}

Status Loader::Pin(const std::string& name, uint64_t step, const Deadline& deadline) {
  std::shared_ptr<SessionPin> session;
  bool speaks = false;
  {
    std::lock_guard lock(mutex_);
    session = session_;
    session_over_ = true;
    speaks = options_.hold;
  }
  bool held = session && session->Stop();
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->Refresh(deadline));
  const headrace::Pin* there = state->manifest.FindPin(name);
  bool session_there = held && state->manifest.FindPin(session->name()) != nullptr;
  // All ranks say the same: one of them does it, the others find it done. One that was made before the job went back to an older
  // checkpoint is made anew, by the rank that speaks for the job: which pins are the last ones is told by their counters.
  const bool overtaken = there != nullptr && speaks && std::ranges::any_of(state->manifest.pins, [&](const headrace::Pin& pin) {
                           return pin.term_seconds == 0 && pin.counter > there->counter;
                         });
  if (there == nullptr || there->step != step || there->term_seconds != 0 || session_there || overtaken) {
    PinEdit edit;
    edit.pin.name = name;
    edit.pin.step = step;
    if (held) edit.instead_of = session->name();
    HR_RETURN_IF_ERROR(log_->Commit(edit, deadline).status());
  }
  std::lock_guard lock(mutex_);
  session_ = nullptr;
  return {};
}

Result<bool> Loader::Unpin(const std::string& name, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->Refresh(deadline));
  if (state->manifest.FindPin(name) == nullptr) return false;
  Status status = log_->Commit(UnpinEdit{name}, deadline).status();
  if (status.code() == Code::kNotFound) return false;
  if (!status.ok()) return status;
  return true;
}

Result<std::vector<Pin>> Loader::Pins(const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->Refresh(deadline));
  return state->manifest.pins;
}

std::vector<std::pair<std::string, double>> Loader::Stats() const {
  std::shared_ptr<Prefetch> prefetch;
  std::vector<std::pair<std::string, double>> stats;
  const Manifest& manifest = log_->known()->manifest;
  auto add = [&](const char* name, auto value) { stats.emplace_back(name, static_cast<double>(value)); };
  {
    std::lock_guard lock(mutex_);
    prefetch = prefetch_;
    add("next_step", cursor_);
    add("steps", handed_over_);
    add("wait_seconds", Seconds(wait_));
    add("first_wait_seconds", Seconds(first_wait_));
    add("frontier_step", manifest.frontier_step);
    add("steps_ahead", manifest.frontier_step - std::min(manifest.frontier_step, cursor_));
    add("window_bytes", options_.window_bytes);
  }
  Prefetch::Level level = prefetch ? prefetch->level() : Prefetch::Level{};
  add("window_used_bytes", level.bytes);
  add("ready_steps", level.ready_steps);
  add("blocks_in_window", level.blocks);
  add("depth_blocks", level.depth);
  add("blocks_read", counts_->blocks.load());
  add("reads", counts_->reads.load());
  add("read_retries", counts_->retries.load());
  add("bytes", counts_->bytes.load());
  add("fetched_bytes", reader_->fetched_bytes());
  return stats;
}

void Loader::Close(Duration patience) {
  std::vector<std::shared_ptr<Prefetch>> working;
  std::shared_ptr<SessionPin> session;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    Restart();
    working.swap(retired_);
    session.swap(session_);
  }
  for (auto& prefetch : working) prefetch->Stop();
  for (auto& prefetch : working) prefetch->Join();
  if (session && session->Stop() && patience > Duration::zero()) {
    Status status = log_->Commit(UnpinEdit{session->name()}, Deadline::After(clock(), patience)).status();
    if (!status.ok() && status.code() != Code::kNotFound) {
      HR_LOG(kInfo, "the session's pin is left to expire", {"pin", session->name()}, {"reason", status.message()});
    }
  }
  log_->Retire();  // views may keep the log for long; its hint would be waited for
}

bool Loader::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace headrace
