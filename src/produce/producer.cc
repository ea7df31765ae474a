#include "produce/producer.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/log.h"
#include "base/metrics.h"
#include "base/size.h"
#include "base/text.h"
#include "produce/retention.h"
#include "stream/owners.h"

namespace headrace {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr int kMostConflicts = 6;

std::string HostName() {
  char name[256] = "host";
  if (gethostname(name, sizeof(name) - 1) != 0) return "host";
  return name;
}

// Whether trying again later can help.
bool Passing(Code code) {
  switch (code) {
    case Code::kConflict:
    case Code::kUnavailable:
    case Code::kTimeout:
    case Code::kThrottled:
    case Code::kOutcomeUnknown:
    case Code::kStalled:
    case Code::kFull:
    case Code::kExpired: return true;
    default: return false;
  }
}

struct ProducerMetrics {
  Gauge& frontier = Metrics::Default().GetGauge("headrace_frontier_step", "Steps of the stream that are visible.");
  Gauge& ahead =
      Metrics::Default().GetGauge("headrace_steps_ahead", "Visible steps that the slowest trainer has still before it.");
  Gauge& spread = Metrics::Default().GetGauge(
      "headrace_step_cost_spread_ratio",
      "Cost of the most expensive lane over the mean, after balancing: the worst step of the last block.");
  Gauge& strands = Metrics::Default().GetGauge("headrace_producer_strands", "Strands that this producer has.");
  Gauge& producers = Metrics::Default().GetGauge("headrace_producers", "Producers of the stream that give signs of life.");
  Counter& steps = Metrics::Default().GetCounter("headrace_producer_steps_total", "Steps that this producer has made.");
  Counter& bytes = Metrics::Default().GetCounter("headrace_producer_bytes_total", "Bytes of chunks that this producer has made.");
  Counter& padding =
      Metrics::Default().GetCounter("headrace_producer_padding_tokens_total", "Padding in steps of this producer.");

  static Counter& Tokens(const std::string& source) {
    return Metrics::Default().GetCounter("headrace_source_tokens_total", "Tokens of a source in steps of this producer.",
                                         {{"source", source}});
  }
  static Counter& Samples(const std::string& source) {
    return Metrics::Default().GetCounter("headrace_source_samples_total", "Samples of a source in steps of this producer.",
                                         {{"source", source}});
  }
  static Counter& Skipped(const std::string& source) {
    return Metrics::Default().GetCounter("headrace_source_skipped_total", "Bad samples of a source that were left out.",
                                         {{"source", source}});
  }
  static Gauge& Waiting(const std::string& what) {
    return Metrics::Default().GetGauge("headrace_producer_waiting", "1 while the producer waits for this.", {{"for", what}});
  }
};

ProducerMetrics& TheMetrics() {
  static ProducerMetrics metrics;
  return metrics;
}

}  // namespace

Producer::Producer(LakeStream& lake, ProducerOptions options)
    : lake_(lake),
      options_(std::move(options)),
      clock_(lake.log()->clock()),
      board_(lake.log()->store(), clock_, options_.take_over_after),
      watch_(3 * options_.take_over_after),
      random_(lake.log()->owner()) {
  const std::string who = options_.owner.empty() ? Cat(HostName(), "-", getpid()) : options_.owner;
  id_ = Cat(PercentEncode(who), "-", OwnerText(lake.log()->owner()).substr(0, 8));
  const uint64_t block = std::max<uint64_t>(1, lake.memory_need().block);
  most_making_ = static_cast<uint32_t>(std::clamp<uint64_t>(options_.memory / block, 1, std::max(1u, options_.threads)));
}

Producer::~Producer() = default;

uint64_t Producer::MostSteps() const {
  uint64_t most = options_.steps.value_or(UINT64_MAX);
  const Lead& lead = lake_.recipe().lead;
  if (lead.kind == Lead::kUnlimited) return most;
  const StreamLog::StatePtr state = lake_.log()->known();
  uint64_t from = Retention::LowestPin(state->manifest).value_or(state->manifest.trim_step);
  if (report_.readers) from = report_.reader_step;
  uint64_t ahead = lead.amount;
  if (lead.kind == Lead::kAuto) {
    if (!report_.readers) return most;
    const StreamInfo& info = lake_.log()->info();
    ahead = 256 + uint64_t{2} * info.window * info.blocks.Steps(state->manifest.frontier_block);
  } else if (lead.kind == Lead::kBytes) {
    const uint64_t step = report_.steps == 0 ? 1 : std::max<uint64_t>(1, report_.bytes / report_.steps);
    ahead = std::max<uint64_t>(1, lead.amount / step);
  }
  return std::min(most, from + ahead);
}

// The idle strand whose next block is furthest behind, if its block may be made now.
std::optional<uint16_t> Producer::Choose() {
  if (making_ >= most_making_ || stopping_) return std::nullopt;
  const StreamLog::StatePtr state = lake_.log()->known();
  const StreamInfo& info = lake_.log()->info();
  const Instant now = clock_.Now();
  std::optional<uint16_t> chosen;
  for (auto& [strand, held] : held_) {
    if (held.busy) continue;
    if (const auto trouble = troubles_.find(strand); trouble != troubles_.end() && now < trouble->second.not_before) continue;
    if (!chosen || held.next_block < held_.at(*chosen).next_block) chosen = strand;
  }
  if (!chosen) return std::nullopt;
  const uint64_t block = held_.at(*chosen).next_block;
  report_.waiting.clear();
  if (info.order == Order::kPlanned && block >= state->manifest.frontier_block + info.window) {
    report_.waiting = "other strands";
    return std::nullopt;
  }
  // Blocks of strands that have ended are void, so that the plan's own numbers would be too high.
  uint64_t first = state->manifest.frontier_step;
  for (uint64_t b = state->manifest.frontier_block; info.order == Order::kPlanned && b < block; ++b)
    first += state->manifest.strands[b % info.strands].ended ? 0 : info.blocks.Steps(b);
  if (first >= MostSteps()) {
    report_.waiting = options_.steps && first >= *options_.steps ? "other producers" : "readers";
    return std::nullopt;
  }
  return chosen;
}

void Producer::Note(const StrandLine::Made& made) {
  ++report_.blocks;
  report_.steps += made.steps;
  report_.bytes += made.bytes;
  report_.padding += made.padding;
  for (size_t i = 0; i < made.tokens.size(); ++i) {
    const std::string& name = lake_.sources().spec(i).name;
    report_.tokens += made.tokens[i];
    report_.tokens_by_source[name] += made.tokens[i];
    report_.samples_by_source[name] += made.samples[i];
    ProducerMetrics::Tokens(name).Add(static_cast<double>(made.tokens[i]));
    ProducerMetrics::Samples(name).Add(static_cast<double>(made.samples[i]));
  }
  for (size_t i = 0; i < made.skipped.size(); ++i) {
    if (made.skipped[i] == 0) continue;
    const std::string& name = lake_.sources().spec(i).name;
    report_.skipped_by_source[name] += made.skipped[i];
    ProducerMetrics::Skipped(name).Add(static_cast<double>(made.skipped[i]));
  }
  ProducerMetrics& metrics = TheMetrics();
  metrics.steps.Add(made.steps);
  metrics.bytes.Add(static_cast<double>(made.bytes));
  metrics.padding.Add(static_cast<double>(made.padding));
  metrics.spread.Set(made.spread);
}

void Producer::Suffer(uint16_t strand, const Status& why) {
  Trouble& trouble = troubles_[strand];
  ++trouble.failures;
  const bool conflict = why.code() == Code::kConflict;
  if (!Passing(why.code()) || (conflict && ++trouble.conflicts > kMostConflicts)) {
    if (failure_.ok()) failure_ = why;
    stopping_ = true;
    return;
  }
  // A block that lost a race is made anew at once, and that is nothing to speak of.
  if (conflict && trouble.failures == 1) return;
  HR_LOG(kWarning, "a strand cannot go on; trying again", {"strand", strand}, {"tries", trouble.failures},
         {"why", why.message()});
  const Duration pause = std::chrono::milliseconds(100) * (1 << std::min(trouble.failures, 9));
  // Somebody makes room, and looks whether it helped.
  const Duration longest =
      why.code() == Code::kFull ? std::max<Duration>(options_.take_over_after / 5, kTick) : std::chrono::seconds(30);
  if (why.code() == Code::kFull) report_.waiting = "space";
  trouble.not_before = Later(clock_.Now(), std::min(pause, longest));
}

void Producer::Work(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::optional<uint16_t> strand = Choose();
    if (!strand) {
      changed_.wait_for(lock, kTick);
      continue;
    }
    Held& held = held_.at(*strand);
    held.busy = true;
    ++making_;
    StrandLine& line = *held.line;
    lock.unlock();
    Result<StrandLine::Made> made = line.MakeBlock(deadline);
    lock.lock();
    --making_;
    held.busy = false;
    if (made.ok()) {
      troubles_.erase(*strand);
      if (made->ended) {
        ended_.insert(*strand);
        held_.erase(*strand);
      } else {
        Note(*made);
        held.next_block = line.next_block();
      }
    } else if (made.code() == Code::kCancelled) {
      break;
    } else if (made.code() == Code::kFenced) {
      held_.erase(*strand);  // its new owner goes on
    } else {
      Suffer(*strand, made.status());
    }
    changed_.notify_all();
  }
}

// The strands that this process should take now, and how many it should have in all.
std::vector<uint16_t> Producer::Wanted(const Manifest& manifest, size_t* share) {
  std::map<std::string, std::set<uint16_t>> holds;  // by owner, of those who are alive
  std::set<std::string> dead;
  std::vector<std::string> alive = {id_};
  for (const StatusBoard::Participant& other : board_.Of("producer")) {
    const std::string id = other.status.value("id", "");
    if (id == id_) continue;
    const std::string owner = other.status.value("owner", "");
    const bool left = other.status.value("left", false);
    const bool replaced = options_.replaces && other.status.value("pid", int64_t{-1}) == *options_.replaces &&
                          other.status.value("host", "") == HostName();
    if ((!other.alive || replaced) && !left) {
      dead.insert(owner);
      continue;
    }
    std::set<uint16_t>& strands = holds[owner];
    if (left) continue;
    alive.push_back(id);
    for (const nlohmann::json& strand : other.status.value("strands", nlohmann::json::array())) {
      if (strand.is_number_unsigned()) strands.insert(strand.get<uint16_t>());
    }
  }
  std::ranges::sort(alive);
  const size_t rank = static_cast<size_t>(std::ranges::find(alive, id_) - alive.begin());
  const auto active = static_cast<size_t>(std::ranges::count_if(manifest.strands, [](const Strand& row) { return !row.ended; }));
  rank_ = rank;
  *share = std::min<size_t>(options_.capacity, active / alive.size() + (rank < active % alive.size() ? 1 : 0));
  {
    std::lock_guard lock(mutex_);
    report_.producers = static_cast<uint32_t>(alive.size());
  }

  const std::vector<uint16_t> offered = watch_.Offered(manifest, lake_.log()->owner(), clock_.Now());
  std::vector<uint16_t> wanted;
  for (uint16_t strand = 0; strand < manifest.strands.size(); ++strand) {
    const Strand& row = manifest.strands[strand];
    const std::string owner = OwnerText(row.owner);
    if (row.ended) continue;
    const auto holder = holds.find(owner);
    const bool given_back = holder != holds.end() && !holder->second.contains(strand);
    if (row.epoch == 0 || row.owner == lake_.log()->owner() || given_back || dead.contains(owner) ||
        std::ranges::find(offered, strand) != offered.end())
      wanted.push_back(strand);
  }
  // Those who start together begin at different places.
  std::ranges::stable_sort(wanted, {}, [&](uint16_t strand) { return strand % alive.size() == rank ? 0 : 1; });
  return wanted;
}

Status Producer::TakeStrand(uint16_t strand, const Deadline& deadline) {
  Result<std::unique_ptr<StrandLine>> line = StrandLine::Take(lake_, strand, deadline);
  if (!line.ok()) {
    if (line.code() == Code::kFenced) return {};
    if (line.code() == Code::kCancelled) return line.status();
    std::lock_guard lock(mutex_);
    Suffer(strand, line.status());
    return {};
  }
  std::lock_guard lock(mutex_);
  if ((*line)->ended()) {
    ended_.insert(strand);
    return {};
  }
  Held& held = held_[strand];
  held.next_block = (*line)->next_block();
  held.line = *std::move(line);
  changed_.notify_all();
  return {};
}

// One finisher at a time, as a rule: two of them would take the strand from each other again and again. The first of those who are alive begins; the others
// give it some time each.
Instant Producer::NextFinish(Instant now) {
  if (!all_ended_) {
    all_ended_ = now;
    next_finish_ = Later(now, static_cast<int64_t>(rank_.load()) * (options_.take_over_after + std::chrono::seconds(1)));
  }
  return next_finish_;
}

Status Producer::TryFinish(const Deadline& deadline) {
  const Status done = [&]() -> Status {
    if (!finisher_) {
      HR_ASSIGN_OR_RETURN(finisher_, StrandLine::Take(lake_, 0, deadline));
    }
    HR_ASSIGN_OR_RETURN(const StrandLine::Made made, finisher_->Finish(deadline));
    std::lock_guard lock(mutex_);
    if (made.steps > 0) Note(made);
    return {};
  }();
  if (done.code() == Code::kFenced) {  // another finisher is at it
    finisher_.reset();
    return {};
  }
  if (!Passing(done.code())) return done;
  if (lake_.log()->known()->manifest.finished) return {};  // another was quicker
  if (done.code() == Code::kConflict && ++finish_conflicts_ > kMostConflicts) return done;
  HR_LOG(kWarning, "the stream cannot be sealed; trying again", {"why", done.message()});
  return {};
}

Status Producer::Govern(const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, lake_.log()->Refresh(deadline));
  nlohmann::json status = {{"owner", OwnerText(lake_.log()->owner())}, {"pid", getpid()}, {"host", HostName()}};
  {
    std::lock_guard lock(mutex_);
    nlohmann::json strands = nlohmann::json::array();
    for (const auto& [strand, held] : held_) strands.push_back(strand);
    status["strands"] = strands;
    status["steps"] = report_.steps;
    status["bytes"] = report_.bytes;
    status["waiting"] = report_.waiting;
  }
  // Nothing here is needed for safety: a store that refuses status objects costs sharing, not correctness.
  if (Status written = board_.Write("producer", id_, std::move(status), deadline); !written.ok())
    HR_LOG(kWarning, "cannot tell other producers what this one does", {"why", written.message()});
  (void)board_.Refresh("producer", deadline);
  (void)board_.Refresh("loader", deadline);
  {
    std::lock_guard lock(mutex_);
    report_.readers = false;
    for (const StatusBoard::Participant& reader : board_.Of("loader")) {
      if (!reader.alive || reader.status.value("reader", "train") != "train" || !reader.status.contains("next_step")) continue;
      const auto next = reader.status["next_step"].get<uint64_t>();
      report_.reader_step = report_.readers ? std::min(report_.reader_step, next) : next;
      report_.readers = true;
    }
  }
  size_t share = 0;
  std::vector<uint16_t> wanted = Wanted(state->manifest, &share);
  size_t have = 0;
  {
    std::lock_guard lock(mutex_);
    // What another process has taken: a strand that waits for its turn would not notice by itself.
    std::erase_if(held_, [&](const auto& held) {
      return !held.second.busy && state->manifest.strands[held.first].owner != lake_.log()->owner();
    });
    // More than our share: others have come. Strands in the making are kept until their block is done.
    for (auto held = held_.end(); held_.size() > share && held != held_.begin();) {
      --held;
      if (!held->second.busy) held = held_.erase(held);
    }
    std::erase_if(wanted, [&](uint16_t strand) {
      const auto trouble = troubles_.find(strand);
      return held_.contains(strand) || ended_.contains(strand) ||
             (trouble != troubles_.end() && clock_.Now() < trouble->second.not_before);
    });
    have = held_.size();
  }
  for (uint16_t strand : wanted) {
    if (have >= share || deadline.stop().stop_requested()) break;
    HR_RETURN_IF_ERROR(TakeStrand(strand, deadline));
    ++have;
  }
  return {};
}

void Producer::Retain(std::stop_token stop) {
  if (lake_.recipe().retain == "all") return;
  Retention retention(lake_.recipe(), lake_.log());
  while (clock_.SleepFor(options_.collect_every, stop), !stop.stop_requested()) {
    if (rank_ != 0) continue;  // one of them is enough
    std::optional<uint64_t> reader;
    {
      std::lock_guard lock(mutex_);
      if (report_.readers) reader = report_.reader_step;
    }
    Result<Collected> collected = retention.Act(reader, options_.grace, Deadline::OnlyStop(stop));
    if (!collected.ok() && !stop.stop_requested())
      HR_LOG(kWarning, "old steps could not be given back; it is tried again", {"why", collected.status().message()});
  }
}

ProducerReport Producer::Report() {
  std::lock_guard lock(mutex_);
  const StreamLog::StatePtr state = lake_.log()->known();
  report_.frontier = state->manifest.frontier_step;
  report_.sealed = state->manifest.finished;
  if (lake_.kept().blocks != 0) report_.wanted = lake_.log()->info().blocks.FirstStep(lake_.kept().blocks);
  report_.strands = static_cast<uint32_t>(held_.size());
  ProducerMetrics& metrics = TheMetrics();
  metrics.frontier.Set(static_cast<double>(report_.frontier));
  // Without a trainer nobody is behind.
  metrics.ahead.Set(report_.readers && report_.frontier > report_.reader_step
                        ? static_cast<double>(report_.frontier - report_.reader_step)
                        : 0);
  metrics.strands.Set(report_.strands);
  metrics.producers.Set(report_.producers);
  for (const char* what : {"readers", "space", "other strands", "other producers"})
    ProducerMetrics::Waiting(what).Set(report_.waiting == what ? 1 : 0);
  return report_;
}

Result<ProducerReport> Producer::Run(std::stop_token stop, const std::function<void(const ProducerReport&)>& progress) {
  // Work that was begun goes on for a while after `stop`, so that a block is not thrown away.
  std::stop_source hard;
  const Deadline deadline = Deadline::OnlyStop(hard.get_token());
  std::vector<std::jthread> workers;
  for (uint32_t i = 0; i < std::max(1u, options_.threads); ++i) workers.emplace_back([&] { Work(deadline); });
  const auto end = [&] {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  };

  std::jthread retain([this](std::stop_token ended) { Retain(std::move(ended)); });

  Status failure;
  Instant next_look{}, next_refresh{};
  const Duration look_every = std::max<Duration>(options_.take_over_after / 5, kTick);
  while (failure.ok()) {
    const Instant now = clock_.Now();
    if (now >= next_look) {
      failure = Govern(Deadline::OnlyStop(stop));
      next_look = Later(clock_.Now(), look_every);
      if (failure.code() == Code::kCancelled || (!failure.ok() && Passing(failure.code()))) {
        if (!stop.stop_requested()) HR_LOG(kWarning, "cannot look at the stream; trying again", {"why", failure.message()});
        failure = {};
      }
    }
    bool idle;
    {
      std::lock_guard lock(mutex_);
      if (!failure_.ok()) failure = failure_;
      idle = making_ == 0;
    }
    const StreamLog::StatePtr state = lake_.log()->known();
    if (state->manifest.finished || stop.stop_requested() || (options_.steps && state->manifest.frontier_step >= *options_.steps))
      break;
    if (idle && now >= next_refresh) {
      (void)lake_.log()->Refresh(Deadline::OnlyStop(stop));
      next_refresh = Later(clock_.Now(), 5 * kTick);
    }
    if (options_.seal && state->manifest.AllEnded() && now >= NextFinish(now)) {
      Status finished = TryFinish(Deadline::OnlyStop(stop));
      next_finish_ = Later(clock_.Now(), options_.take_over_after +
                                             Duration(random_.Below(static_cast<uint64_t>(options_.take_over_after.count()))));
      if (!finished.ok() && finished.code() != Code::kCancelled) failure = finished;
      continue;
    }
    if (progress) progress(Report());
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, kTick, [] { return false; });
  }
  end();
  retain.request_stop();
  std::jthread drain([&](const std::stop_token& done) {
    clock_.SleepFor(options_.drain, done);
    if (!done.stop_requested()) hard.request_stop();
  });
  if (!failure.ok()) hard.request_stop();
  workers.clear();
  drain.request_stop();
  {
    std::lock_guard lock(mutex_);
    held_.clear();
    finisher_.reset();
    if (failure.ok() && !failure_.ok() && failure_.code() != Code::kCancelled) failure = failure_;
  }
  nlohmann::json status = {{"owner", OwnerText(lake_.log()->owner())}, {"strands", nlohmann::json::array()}, {"left", true}};
  (void)board_.Write("producer", id_, std::move(status), Deadline::After(clock_, std::chrono::seconds(2)));
  HR_RETURN_IF_ERROR(failure);
  return Report();
}

}  // namespace headrace
