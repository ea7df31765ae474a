#include "base/simulation.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cassert>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define HR_ASAN_FIBERS 1
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define HR_TSAN_FIBERS 1
#endif

namespace headrace {
namespace {

// Ends a fiber whose process was killed. Not a std::exception, so that no ordinary handler takes it.
struct Killed {};

constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kGuardBytes = 4096;

}  // namespace

struct Simulation::Fiber {
  uint64_t id = 0;
  ProcessId process = kMain;
  std::function<void()> work;
  uint64_t generation = 0;  // counts waits, so that a late wake finds nobody
  bool parked = false;
  bool finished = false;
  bool unwinding = false;

  std::byte* stack = nullptr;
  ucontext_t context{};
  ucontext_t* back = nullptr;
#ifdef HR_ASAN_FIBERS
  void* fake_stack = nullptr;
  const void* back_bottom = nullptr;
  size_t back_size = 0;
#endif
#ifdef HR_TSAN_FIBERS
  void* tsan_fiber = nullptr;
  void* tsan_back = nullptr;
#endif

  Fiber() {
    void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory, kGuardBytes, PROT_NONE);
    stack = static_cast<std::byte*>(memory) + kGuardBytes;
  }
  ~Fiber() {
    munmap(stack - kGuardBytes, kStackBytes + kGuardBytes);
#ifdef HR_TSAN_FIBERS
    if (tsan_fiber != nullptr) __tsan_destroy_fiber(tsan_fiber);
#endif
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
};

bool Simulation::Wake::operator>(const Wake& other) const {
  if (at != other.at) return at > other.at;
  if (tie != other.tie) return tie > other.tie;
  return order > other.order;
}

// Waiters by (fiber, generation of its wait): a fiber that gave up waiting is skipped.
class SimulatedSignal final : public Signal {
 public:
  explicit SimulatedSignal(Simulation& simulation) : simulation_(simulation) {}

  bool WaitUntil(std::unique_lock<std::mutex>& lock, Instant until) override {
    Simulation::Fiber& self = *simulation_.running_;
    waiters_.emplace_back(self.id, self.generation);
    if (until != Instant::max()) simulation_.Schedule(self, until);
    lock.unlock();
    simulation_.Park();
    lock.lock();
    return simulation_.Now() < until;
  }

  void NotifyOne() override {
    while (!waiters_.empty()) {
      auto [id, generation] = waiters_.front();
      waiters_.erase(waiters_.begin());
      if (Notify(id, generation)) return;
    }
  }

  void NotifyAll() override {
    for (auto [id, generation] : std::exchange(waiters_, {})) Notify(id, generation);
  }

 private:
  bool Notify(uint64_t id, uint64_t generation) {
    auto found = simulation_.fibers_.find(id);
    if (found == simulation_.fibers_.end() || found->second->generation != generation) return false;
    simulation_.Schedule(*found->second, simulation_.Now());
    return true;
  }

  Simulation& simulation_;
  std::vector<std::pair<uint64_t, uint64_t>> waiters_;
};

Simulation::Simulation(uint64_t seed) : random_(seed) {}

Simulation::~Simulation() {
  // Whoever is still parked is unwound, so that its memory comes back.
  for (auto& [id, fiber] : fibers_) dead_[fiber->process] = true;
  while (!fibers_.empty()) Resume(*fibers_.begin()->second);
}

bool Simulation::RunUntil(Instant until) {
  assert(running_ == nullptr && "a fiber cannot run the simulation that it is part of");
  while (!wakes_.empty()) {
    Wake wake = wakes_.top();
    if (wake.at > until) {
      now_ = std::max(now_, until);
      return false;
    }
    wakes_.pop();
    auto found = fibers_.find(wake.fiber);
    if (found == fibers_.end() || found->second->generation != wake.generation) continue;
    now_ = std::max(now_, wake.at);
    MixIntoFingerprint(wake.fiber);
    MixIntoFingerprint(static_cast<uint64_t>(now_.time_since_epoch().count()));
    Resume(*found->second);
  }
  return true;
}

void Simulation::Run(std::function<void()> body) {
  Schedule(*NewFiber(kMain, std::move(body)), now_);
  Run();
}

Simulation::ProcessId Simulation::Start(std::string name, std::function<void()> body) {
  ProcessId process = next_process_++;
  for (char c : name) MixIntoFingerprint(static_cast<unsigned char>(c));
  Schedule(*NewFiber(process, std::move(body)), now_);
  return process;
}

void Simulation::Kill(ProcessId process) {
  dead_[process] = true;
  for (auto& [id, fiber] : fibers_) {
    if (fiber->process == process && fiber.get() != running_) Schedule(*fiber, now_);
  }
  if (running_ != nullptr && running_->process == process) {
    running_->unwinding = true;
    throw Killed();
  }
}

bool Simulation::Alive(ProcessId process) const {
  if (dead_.contains(process)) return false;
  for (const auto& [id, fiber] : fibers_) {
    if (fiber->process == process) return true;
  }
  return false;
}

Simulation::ProcessId Simulation::current() const { return running_ == nullptr ? kMain : running_->process; }

bool Simulation::Unwinding() const { return running_ != nullptr && running_->unwinding; }

void Simulation::MixIntoFingerprint(uint64_t value) {
  fingerprint_ = (fingerprint_ ^ value) * 1099511628211ull;
  fingerprint_ ^= fingerprint_ >> 29;
}

size_t Simulation::stuck() const { return fibers_.size(); }

void Simulation::Spawn(std::function<void()> work) {
  if (Unwinding()) return;
  Schedule(*NewFiber(current(), std::move(work)), now_);
}

std::unique_ptr<Signal> Simulation::MakeSignal() { return std::make_unique<SimulatedSignal>(*this); }

WallTime Simulation::WallNow() {
  // Some day, so that dates look like dates.
  constexpr auto kStart = WallTime(std::chrono::seconds(1'800'000'000));
  return kStart + now_.time_since_epoch() + wall_offset_;
}

void Simulation::SleepUntil(Instant until, std::stop_token stop) {
  assert(running_ != nullptr && "only a fiber can sleep in a simulation");
  Fiber& self = *running_;
  if (until != Instant::max()) Schedule(self, std::max(until, now_));
  if (stop.stop_requested()) Schedule(self, now_);
  std::stop_callback on_stop(stop, [this, id = self.id, generation = self.generation] {
    auto found = fibers_.find(id);
    if (found != fibers_.end() && found->second->generation == generation) Schedule(*found->second, now_);
  });
  Park();
}

// Apart from `NewFiber`, because the compiler takes getcontext for a function that returns twice.
void Simulation::PrepareContext(Fiber& fiber) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  auto address = reinterpret_cast<uintptr_t>(this);
  makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Simulation::Entry), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address & 0xFFFFFFFFu));
}

Simulation::Fiber* Simulation::NewFiber(ProcessId process, std::function<void()> work) {
  std::unique_ptr<Fiber> fiber;
  if (spare_.empty()) {
    fiber = std::make_unique<Fiber>();
  } else {
    fiber = std::move(spare_.back());
    spare_.pop_back();
  }
  fiber->id = next_fiber_++;
  fiber->process = process;
  fiber->work = std::move(work);
  fiber->finished = fiber->unwinding = false;
  fiber->parked = true;
  ++fiber->generation;
  PrepareContext(*fiber);
#ifdef HR_TSAN_FIBERS
  if (fiber->tsan_fiber == nullptr) fiber->tsan_fiber = __tsan_create_fiber(0);
#endif
  return fibers_.emplace(fiber->id, std::move(fiber)).first->second.get();
}

void Simulation::Schedule(Fiber& fiber, Instant at) {
  wakes_.push(Wake{at, random_.Next(), next_order_++, fiber.id, fiber.generation});
}

void Simulation::Park() {
  Fiber& self = *running_;
  // A destructor that waits while its stack is unwound must not: everything that it could wait for is dead as well.
  if (self.unwinding) return;
  self.parked = true;
  SwitchOut(false);
  if (dead_.contains(self.process)) {
    self.unwinding = true;
    throw Killed();
  }
}

void Simulation::Resume(Fiber& fiber) {
  ucontext_t here;
  Fiber* before = running_;
  running_ = &fiber;
  fiber.parked = false;
  ++fiber.generation;
  fiber.back = &here;
#ifdef HR_TSAN_FIBERS
  fiber.tsan_back = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber.tsan_fiber, 0);
#endif
#ifdef HR_ASAN_FIBERS
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, fiber.stack, kStackBytes);
#endif
  swapcontext(&here, &fiber.context);
#ifdef HR_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  running_ = before;
  if (fiber.finished) {
    auto node = fibers_.extract(fiber.id);
    node.mapped()->work = nullptr;
    spare_.push_back(std::move(node.mapped()));
  }
}

void Simulation::Entry(unsigned high, unsigned low) {
  auto* simulation = reinterpret_cast<Simulation*>(static_cast<uintptr_t>(high) << 32 | low);
  Fiber& self = *simulation->running_;
#ifdef HR_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(nullptr, &self.back_bottom, &self.back_size);
#endif
  try {
    if (!simulation->dead_.contains(self.process)) self.work();
  } catch (const Killed&) {
  }
  self.work = nullptr;
  simulation->SwitchOut(true);
  std::abort();  // a finished fiber is never resumed
}

void Simulation::SwitchOut(bool finished) {
  Fiber& self = *running_;
  self.finished = finished;
#ifdef HR_TSAN_FIBERS
  __tsan_switch_to_fiber(self.tsan_back, 0);
#endif
#ifdef HR_ASAN_FIBERS
  __sanitizer_start_switch_fiber(finished ? nullptr : &self.fake_stack, self.back_bottom, self.back_size);
#endif
  swapcontext(&self.context, self.back);
#ifdef HR_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(self.fake_stack, &self.back_bottom, &self.back_size);
#endif
}

}  // namespace headrace
