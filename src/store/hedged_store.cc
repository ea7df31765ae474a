#include "store/hedged_store.h"

#include <algorithm>
#include <bit>

namespace headrace {
namespace {

// Gets are compared with those of their size: up to 64 KiB, 128 KiB, …; and all of unknown size with each other.
constexpr size_t kClasses = 12;
constexpr size_t kUnknownSize = kClasses - 1;

size_t SizeClass(uint64_t bytes) {
  if (bytes == UINT64_MAX) return kUnknownSize;
  return std::min<size_t>(std::bit_width(bytes >> 16), kUnknownSize - 1);
}

uint64_t BytesAsked(const GetOptions& options) {
  return options.into.empty() ? options.range.length : std::min<uint64_t>(options.into.size(), options.range.length);
}

}  // namespace

struct HedgedStore::Flight {
  std::string key;
  ByteRange range;
  size_t into_bytes = 0;
  Instant deadline;
  std::stop_source first_stop;   // of the caller's request
  std::stop_source second_stop;  // of the hedge

  // Guarded by the state's mutex.
  std::optional<Queue::iterator> queued;
  bool hedged = false;
  std::optional<GetResult> second;
};

struct HedgedStore::State {
  State(std::shared_ptr<ObjectStore> store, const HedgeOptions& opts, Executor& exec)
      : inner(std::move(store)), options(opts), executor(exec), budget(opts.budget, exec.clock()), signal(exec.MakeSignal()) {}

  const std::shared_ptr<ObjectStore> inner;
  const HedgeOptions options;
  Executor& executor;
  RequestBudget budget;
  const std::unique_ptr<Signal> signal;  // for the watcher, and for callers that wait for a hedge

  std::mutex mutex;
  std::array<LatencyEstimate, kClasses> usual;
  Queue queue;  // by when patience ends
  bool watching = false;
  Instant watcher_wakes = Instant::max();
  size_t hedging = 0;
  uint64_t hedges = 0;
  uint64_t wins = 0;
};

HedgedStore::HedgedStore(std::shared_ptr<ObjectStore> inner, const HedgeOptions& options, Executor& executor)
    : StoreDecorator(inner), state_(std::make_shared<State>(std::move(inner), options, executor)) {}

HedgedStore::~HedgedStore() {
  // The watcher finds an empty queue and ends.
  std::lock_guard lock(state_->mutex);
  state_->signal->NotifyAll();
}

uint64_t HedgedStore::hedges() const {
  std::lock_guard lock(state_->mutex);
  return state_->hedges;
}

uint64_t HedgedStore::wins() const {
  std::lock_guard lock(state_->mutex);
  return state_->wins;
}

std::optional<Duration> HedgedStore::Patience(size_t size_class) {
  std::lock_guard lock(state_->mutex);
  const LatencyEstimate& usual = state_->usual[size_class];
  if (usual.count() < state_->options.min_samples || !usual.value()) return std::nullopt;
  std::chrono::duration<double, std::nano> patience = state_->options.margin * *usual.value();
  return std::max(std::chrono::duration_cast<Duration>(patience), state_->options.least_patience);
}

HedgedStore::GetResult HedgedStore::Get(const std::string& key, const GetOptions& options, const Deadline& deadline) {
  Clock& clock = state_->executor.clock();
  const uint64_t bytes = BytesAsked(options);
  const size_t size_class = SizeClass(bytes);
  state_->budget.Earn();
  Instant began = clock.Now();
  auto record = [&](const GetResult& result) {
    if (!result.ok()) return;
    std::lock_guard lock(state_->mutex);
    state_->usual[size_class].Add(clock.Now() - began, state_->options.quantile);
  };

  std::optional<Duration> patience = Patience(size_class);
  // What is of unknown size may be small; what is known to be large is left alone.
  if (!patience || (bytes != UINT64_MAX && bytes > state_->options.max_bytes)) {
    GetResult only = inner().Get(key, options, deadline);
    record(only);
    return only;
  }

  auto flight = std::make_shared<Flight>();
  flight->key = key;
  flight->range = options.range;
  flight->into_bytes = options.into.size();
  flight->deadline = deadline.at();
  std::stop_callback on_stop(deadline.stop(), [flight] {
    flight->first_stop.request_stop();
    flight->second_stop.request_stop();
  });
  Enqueue(began + *patience, flight);
  GetResult first = inner().Get(key, options, Deadline(deadline.at(), flight->first_stop.get_token()));
  GetResult chosen = Choose(flight, std::move(first), options, deadline);
  record(chosen);
  return chosen;
}

void HedgedStore::Enqueue(Instant at, const std::shared_ptr<Flight>& flight) {
  bool start = false;
  {
    std::lock_guard lock(state_->mutex);
    flight->queued = state_->queue.emplace(at, flight);
    start = !std::exchange(state_->watching, true);
    if (!start && at < state_->watcher_wakes) state_->signal->NotifyAll();
  }
  if (start) state_->executor.Spawn([state = state_] { Watch(state); });
}

void HedgedStore::Watch(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (!state->queue.empty()) {
    auto next = state->queue.begin();
    if (next->first > state->executor.clock().Now()) {
      state->watcher_wakes = next->first;
      state->signal->WaitUntil(lock, next->first);
      state->watcher_wakes = Instant::max();
      continue;
    }
    std::shared_ptr<Flight> flight = std::move(next->second);
    state->queue.erase(next);
    flight->queued.reset();
    if (state->hedging >= state->options.max_at_once || !state->budget.Spend()) continue;
    flight->hedged = true;
    ++state->hedging;
    ++state->hedges;
    lock.unlock();
    state->executor.Spawn([state, flight] { Hedge(state, flight); });
    lock.lock();
  }
  state->watching = false;
}

void HedgedStore::Hedge(const std::shared_ptr<State>& state, const std::shared_ptr<Flight>& flight) {
  std::optional<Buffer> buffer;
  GetOptions options{.range = flight->range};
  if (flight->into_bytes > 0) options.into = buffer.emplace(flight->into_bytes).span();
  GetResult second = state->inner->Get(flight->key, options, Deadline(flight->deadline, flight->second_stop.get_token()));
  // The answer keeps the buffer alive.
  if (buffer && second.ok() && *second) (*second)->bytes = std::move(*buffer).Freeze((*second)->bytes.size());
  bool good = second.ok();
  {
    std::lock_guard lock(state->mutex);
    flight->second = std::move(second);
    --state->hedging;
    state->signal->NotifyAll();
  }
  if (good) flight->first_stop.request_stop();
}

HedgedStore::GetResult HedgedStore::Choose(const std::shared_ptr<Flight>& flight, GetResult first, const GetOptions& options,
                                           const Deadline& deadline) {
  std::unique_lock lock(state_->mutex);
  if (flight->queued) {
    state_->queue.erase(*flight->queued);
    flight->queued.reset();
  }
  if (!flight->hedged) return first;
  if (first.ok()) {
    lock.unlock();
    flight->second_stop.request_stop();
    return first;
  }
  // The caller's own request failed, or was stopped because the hedge has won.
  while (!flight->second) {
    if (deadline.stop().stop_requested() || state_->executor.clock().Now() >= deadline.at()) return first;
    state_->signal->WaitUntil(lock, deadline.at());
  }
  if (!flight->second->ok()) return first;
  ++state_->wins;
  GetResult second = *std::move(flight->second);
  lock.unlock();
  if (*second && !options.into.empty()) {
    std::ranges::copy((*second)->bytes.span(), options.into.begin());
    (*second)->bytes = Bytes::Borrow(options.into.first((*second)->bytes.size()));
  }
  return second;
}

}  // namespace headrace
