#include "feedback/reporter.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/text.h"

namespace headrace {
namespace {

constexpr Duration kAttempt = std::chrono::seconds(20);
constexpr Duration kAfterFailure = std::chrono::seconds(10);
constexpr Duration kAfterFailureAtTheEnd = std::chrono::milliseconds(200);
constexpr size_t kMaxName = 200;
constexpr size_t kMaxNames = 1000;
constexpr size_t kMaxObjectBytes = 1'000'000;
constexpr uint64_t kProcessesAtFullPace = 32;
constexpr Duration kLongest = std::chrono::minutes(1);

struct ReportMetrics {
  Counter& reports = Metrics::Default().GetCounter("headrace_reports_total", "Reports of the trainer that were taken.");
  Counter& dropped =
      Metrics::Default().GetCounter("headrace_reports_dropped_total", "Reports dropped because none could be written.");
  Gauge& step = Metrics::Default().GetGauge("headrace_reported_step", "The step reported last.");
};

ReportMetrics& TheMetrics() {
  static ReportMetrics metrics;
  return metrics;
}

Status Wrong(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

Status CheckName(const std::string& name, const char* what) {
  if (name.empty() || name.size() > kMaxName)
    return Wrong(Cat("report(): the name of a ", what, " has 1 to ", kMaxName, " bytes"));
  if (!IsUtf8(name)) return Wrong(Cat("report(): the name of a ", what, " is no UTF-8"));
  return {};
}

}  // namespace

Duration Reporter::EveryFor(uint64_t processes) {
  const Duration usual = Options().every;
  const auto times = static_cast<double>(processes) / static_cast<double>(kProcessesAtFullPace);
  if (times <= 1) return usual;
  return std::min(kLongest, std::chrono::duration_cast<Duration>(std::chrono::duration<double>(usual) * times));
}

std::shared_ptr<Reporter> Reporter::Make(std::shared_ptr<StreamLog> log, Executor& executor, Options options) {
  return std::shared_ptr<Reporter>(new Reporter(std::move(log), executor, std::move(options)));
}

Reporter::Reporter(std::shared_ptr<StreamLog> log, Executor& executor, Options options)
    : log_(std::move(log)),
      executor_(executor),
      options_(std::move(options)),
      sources_(SourceNames::Make(log_, executor)),
      changed_(executor.MakeSignal()) {}

Status Reporter::CheckWords(const Report& report) {
  if (report.loss.size() + report.metrics.size() > kMaxNames)
    return Wrong(Cat("report() takes ", kMaxNames, " names at the most, not ", report.loss.size() + report.metrics.size()));
  for (const auto& [source, loss] : report.loss) {
    HR_RETURN_IF_ERROR(CheckName(source, "source"));
    if (!std::isfinite(loss.count) || loss.count < 0) {
      return Wrong(Cat("report(): the loss of \"", source, "\" has the count ", loss.count,
                       "; it is (sum, count), and a count is finite and at least 0"));
    }
  }
  for (const auto& [name, _] : report.metrics) HR_RETURN_IF_ERROR(CheckName(name, "metric"));
  return {};
}

Status Reporter::Add(Report report) {
  HR_RETURN_IF_ERROR(CheckWords(report));
  std::vector<std::string_view> names;
  names.reserve(report.loss.size());
  for (const auto& [source, _] : report.loss) names.push_back(source);
  HR_RETURN_IF_ERROR(sources_->Check(names).Annotate("report()"));
  report.time = WallSeconds(log_->clock().WallNow());
  const size_t bytes = report.bytes();

  std::lock_guard lock(mutex_);
  if (closing_) return Status(Code::kCancelled, "the loader is closed");
  if (!started_) Start();
  counts_.last_step = report.step;
  Show(report);
  if (bytes_ + bytes > options_.buffer_bytes) {
    ++counts_.dropped;
    TheMetrics().dropped.Add(1);
    if (!said_full_) {
      said_full_ = true;
      HR_LOG(kWarning, "reports are dropped: what waits to be written is full", {"stream", log_->store().Describe()},
             {"step", report.step}, {"waiting", counts_.waiting});
    }
    return {};
  }
  ++counts_.reports;
  ++counts_.waiting;
  TheMetrics().reports.Add(1);
  if (waiting_.empty()) oldest_ = log_->clock().Now();
  const bool wake = waiting_.empty() || (bytes_ < options_.flush_bytes && bytes_ + bytes >= options_.flush_bytes);
  bytes_ += bytes;
  waiting_.push_back(std::move(report));
  if (wake) changed_->NotifyAll();
  return {};
}

void Reporter::Start() {
  started_ = true;
  session_.manifest = log_->known()->manifest.number;
  session_.started = WallSeconds(log_->clock().WallNow());
  session_.nonce = log_->NewNonce();
  session_.reader = options_.reader;
  // Ranks begin at the same moment; their first flush puts them apart.
  wait_ = options_.every / 2 +
          std::chrono::duration_cast<Duration>(options_.every / 2 * (static_cast<double>(session_.nonce % 1024) / 1024.0));
  executor_.Spawn([self = shared_from_this()] { self->Run(); });
}

Gauge* Reporter::Series(const char* metric, const char* help, const char* label, const std::string& name) {
  const std::string key = Cat(metric, " ", name);
  if (auto found = series_.find(key); found != series_.end()) return found->second;
  // The registry forgets nothing: a name that is new with every step must not fill the memory.
  if (series_.size() >= options_.max_series) return nullptr;
  return series_[key] = &Metrics::Default().GetGauge(metric, help, {{label, name}});
}

void Reporter::Show(const Report& report) {
  TheMetrics().step.Set(static_cast<double>(report.step));
  for (const auto& [source, loss] : report.loss) {
    if (loss.count == 0) continue;
    if (Gauge* gauge = Series("headrace_loss", "Mean loss of a source, as this process reported it last.", "source", source))
      gauge->Set(loss.sum / loss.count);
  }
  for (const auto& [name, value] : report.metrics) {
    if (Gauge* gauge = Series("headrace_metric", "A metric of the trainer, as this process reported it last.", "name", name))
      gauge->Set(value);
  }
}

Instant Reporter::Due() const {
  if (waiting_.empty() && flushes_.empty()) return Instant::max();
  if (!flushes_.empty()) return not_before_;
  if (closing_ || bytes_ >= options_.flush_bytes) return std::max(not_before_, oldest_);
  return std::max(not_before_, oldest_ + wait_);
}

void Reporter::Cut() {
  std::vector<Report> some;
  FeedbackKey key;
  size_t bytes = 0;
  auto finish = [&] {
    if (some.empty()) return;
    key.nonce = session_.nonce;
    key.number = next_number_++;
    flushes_.push_back({key, EncodeFeedback(session_, key.number, some, UuidText(log_->info().uuid)), some.size(), bytes});
    some.clear();
    bytes = 0;
  };
  for (Report& report : waiting_) {
    const uint64_t first = some.empty() ? report.step : std::min(key.first_step, report.step);
    const uint64_t last = some.empty() ? report.step : std::max(key.last_step, report.step);
    if (first / FeedbackKey::kSpan != last / FeedbackKey::kSpan || bytes + report.bytes() > kMaxObjectBytes) finish();
    key.first_step = some.empty() ? report.step : first;
    key.last_step = some.empty() ? report.step : last;
    bytes += report.bytes();
    some.push_back(std::move(report));
  }
  finish();
  waiting_.clear();
  wait_ = options_.every;
}

Status Reporter::Write(const Flush& flush) {
  const Deadline deadline = Deadline::After(log_->clock(), kAttempt, stop_.get_token());
  HR_ASSIGN_OR_RETURN(PutOutcome outcome, log_->store().PutIfAbsent(flush.key.Key(), Body(flush.text), deadline));
  // Nobody else has this key: what exists is an earlier attempt of ours.
  return outcome.kind == PutOutcome::kUnknown ? outcome.reason : Status();
}

void Reporter::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_.stop_requested()) {
    const Instant now = log_->clock().Now();
    const Instant due = Due();
    if (closing_ && due == Instant::max()) break;
    if (due > now) {
      changed_->WaitUntil(lock, due);
      continue;
    }
    if (flushes_.empty()) Cut();
    const Flush flush = flushes_.front();
    lock.unlock();
    Status status = Write(flush);
    lock.lock();
    if (status.ok()) {
      flushes_.pop_front();
      bytes_ -= flush.bytes;
      counts_.written += flush.reports;
      counts_.waiting -= flush.reports;
      if (!waiting_.empty() && flushes_.empty()) oldest_ = std::max(oldest_, now);
      continue;
    }
    ++counts_.failures;
    not_before_ = log_->clock().Now() + (closing_ ? kAfterFailureAtTheEnd : kAfterFailure);
    if (!said_failed_ && !stop_.stop_requested()) {
      said_failed_ = true;
      HR_LOG(kWarning, "reports could not be written; they are kept and tried again", {"stream", log_->store().Describe()},
             {"reason", status.message()});
    }
  }
  ended_ = true;
  changed_->NotifyAll();
}

void Reporter::Close(Duration patience) {
  std::unique_lock lock(mutex_);
  if (closing_ && (ended_ || !started_)) return;  // the executor may be gone by now
  if (!closing_) {
    closing_ = true;
    not_before_ = {};
    changed_->NotifyAll();
  }
  const Instant until = Later(log_->clock().Now(), patience);
  while (started_ && !ended_ && log_->clock().Now() < until) changed_->WaitUntil(lock, until);
  stop_.request_stop();
  sources_->Stop();
  changed_->NotifyAll();
  while (started_ && !ended_) changed_->Wait(lock);
  if (counts_.waiting > 0) {
    HR_LOG(kWarning, "reports of the last steps are lost: they could not be written before the end",
           {"stream", log_->store().Describe()}, {"reports", counts_.waiting});
    counts_.waiting = 0;
  }
}

Reporter::Counts Reporter::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace headrace
