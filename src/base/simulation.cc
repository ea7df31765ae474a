#include "base/simulation.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HR_ASAN_FIBERS 1
#endif
#if __has_feature(thread_sanitizer)
#define HR_TSAN_FIBERS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HR_ASAN_FIBERS 1
#endif
#if defined(__SANITIZE_THREAD__)
#define HR_TSAN_FIBERS 1
#endif
#ifdef HR_ASAN_FIBERS
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#ifdef HR_TSAN_FIBERS
#include <sanitizer/tsan_interface.h>
#endif

namespace headrace {
namespace {

// Ends a fiber whose process was killed. Not a std::exception, so that no ordinary handler takes it.
struct Killed {};

// Only what is touched takes memory.
constexpr size_t kStackBytes = 512 * 1024;
constexpr size_t kGuardBytes = 4096;

// A misuse that could only end in a hang or a crash far away.
void Require(bool holds, const char* message) {
  if (holds) return;
  std::fprintf(stderr, "simulation: %s\n", message);
  std::abort();
}

// The language keeps the exceptions in flight per thread, and several fibers share one: each has its own copy, put in when it runs.
struct ExceptionsInFlight {
  void* caught = nullptr;  // laid out as __cxa_eh_globals of the C++ ABI
  unsigned int uncaught = 0;

  static ExceptionsInFlight Exchange(const ExceptionsInFlight& next) {
    abi::__cxa_eh_globals* current = abi::__cxa_get_globals();
    ExceptionsInFlight before;
    std::memcpy(static_cast<void*>(&before), current, sizeof(before));
    std::memcpy(static_cast<void*>(current), &next, sizeof(next));
    return before;
  }
};

// The simulation that runs on this thread, and what the program did before there was one.
thread_local Simulation* g_running = nullptr;
std::terminate_handler g_terminate_before = nullptr;

}  // namespace

struct Simulation::Fiber {
  uint64_t id = 0;
  ProcessId process = kMain;
  std::function<void()> work;
  uint64_t generation = 0;  // counts waits, so that a late wake finds nobody
  bool finished = false;
  bool unwinding = false;  // `Killed` is on its way through the stack
  bool abandoned = false;  // its stack could not be unwound to the end

  std::byte* stack = nullptr;
  ucontext_t context{};
  ucontext_t* back = nullptr;
  ExceptionsInFlight exceptions;
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
    void* memory =
        mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory, kGuardBytes, PROT_NONE);
    stack = static_cast<std::byte*>(memory) + kGuardBytes;
  }
  ~Fiber() {
    ForgetFrames();
    munmap(stack - kGuardBytes, kStackBytes + kGuardBytes);
#ifdef HR_TSAN_FIBERS
    if (tsan_fiber != nullptr) __tsan_destroy_fiber(tsan_fiber);
#endif
  }
  // Frames that were left without returning may have marked parts of the stack as out of bounds.
  void ForgetFrames() {
#ifdef HR_ASAN_FIBERS
    __asan_unpoison_memory_region(stack, kStackBytes);
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

// The fibers that wait for a signal. Shared by the signal and the waits: when a process is killed, a fiber may be unwound out of
// its wait after another one has destroyed the signal.
struct Simulation::Waiters {
  Simulation& simulation;
  std::vector<uint64_t> fibers;

  // The seed decides who: a real condition variable promises nothing either. False if all are dead, or there are none.
  bool WakeOneOfTheLiving() {
    std::vector<uint64_t> dead;
    bool woken = false;
    while (!fibers.empty() && !woken) {
      std::swap(fibers[simulation.random_.Below(fibers.size())], fibers.back());
      Fiber& fiber = *simulation.fibers_.at(fibers.back());
      fibers.pop_back();
      woken = !simulation.dead_.contains(fiber.process);
      if (woken) {
        simulation.Schedule(fiber, simulation.now_);
      } else {
        dead.push_back(fiber.id);
      }
    }
    fibers.insert(fibers.end(), dead.begin(), dead.end());
    return woken;
  }

  void WakeAll() {
    for (uint64_t id : std::exchange(fibers, {})) simulation.Schedule(*simulation.fibers_.at(id), simulation.now_);
  }
};

class SimulatedSignal final : public Signal {
 public:
  explicit SimulatedSignal(Simulation& simulation)
      : waiters_(std::make_shared<Simulation::Waiters>(Simulation::Waiters{simulation, {}})) {}

  bool WaitUntil(std::unique_lock<std::mutex>& lock, Instant until) override {
    Simulation& simulation = waiters_->simulation;
    Require(simulation.running_ != nullptr, "only a fiber can wait for a signal");
    simulation.LeaveIfDead();
    Stay stay(waiters_, simulation.running_->id);
    if (until != Instant::max()) simulation.Schedule(*simulation.running_, std::max(until, simulation.now_));
    lock.unlock();
    simulation.SwitchOut();
    simulation.LeaveIfDead();
    lock.lock();
    return stay.notified() || simulation.now_ < until;
  }

  void WaitInDestructor(std::unique_lock<std::mutex>& lock) override {
    Simulation& simulation = waiters_->simulation;
    Require(simulation.running_ != nullptr, "only a fiber can wait for a signal");
    Stay stay(waiters_, simulation.running_->id);
    lock.unlock();
    simulation.SwitchOut();
    lock.lock();
  }

  void NotifyOne() override {
    // The dead are woken for the sake of destructors that wait.
    if (!waiters_->WakeOneOfTheLiving()) waiters_->WakeAll();
  }
  void NotifyAll() override { waiters_->WakeAll(); }

 private:
  // A fiber's stay among the waiters. If it dies between being notified and running, it hands the notification on.
  class Stay {
   public:
    Stay(std::shared_ptr<Simulation::Waiters> waiters, uint64_t fiber) : waiters_(std::move(waiters)), fiber_(fiber) {
      waiters_->fibers.push_back(fiber_);
    }
    ~Stay() {
      if (notified() && waiters_->simulation.Unwinding()) waiters_->WakeOneOfTheLiving();
      std::erase(waiters_->fibers, fiber_);
    }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

    bool notified() const { return std::ranges::find(waiters_->fibers, fiber_) == waiters_->fibers.end(); }

   private:
    std::shared_ptr<Simulation::Waiters> waiters_;
    uint64_t fiber_;
  };

  std::shared_ptr<Simulation::Waiters> waiters_;
};

Simulation::Simulation(uint64_t seed) : random_(seed) {
  [[maybe_unused]] static const bool installed = [] {
    g_terminate_before = std::set_terminate(&Simulation::OnTerminate);
    return true;
  }();
}

Simulation::~Simulation() {
  // Whoever is still parked is unwound, so that its memory comes back.
  while (!fibers_.empty()) {
    std::vector<uint64_t> youngest_first;
    for (auto at = fibers_.rbegin(); at != fibers_.rend(); ++at) {
      dead_.insert(at->second->process);
      youngest_first.push_back(at->first);
    }
    for (uint64_t id : youngest_first) Resume(*fibers_.at(id));
    Require(fibers_.size() < youngest_first.size(), "a destructor waits for killed work that will never count itself down");
  }
}

bool Simulation::RunUntil(Instant until) {
  Require(running_ == nullptr, "a fiber cannot run the simulation that it is part of");
  while (!wakes_.empty()) {
    Wake wake = wakes_.top();
    if (Stale(wake)) {
      wakes_.pop();
      continue;
    }
    if (wake.at > until) {
      now_ = std::max(now_, until);
      return false;
    }
    wakes_.pop();
    now_ = std::max(now_, wake.at);
    MixIntoFingerprint(wake.fiber);
    MixIntoFingerprint(static_cast<uint64_t>(now_.time_since_epoch().count()));
    Resume(*fibers_.at(wake.fiber));
  }
  return true;
}

bool Simulation::Stale(const Wake& wake) const {
  auto found = fibers_.find(wake.fiber);
  return found == fibers_.end() || found->second->generation != wake.generation;
}

void Simulation::Run(std::function<void()> body) {
  Schedule(*NewFiber(kMain, std::move(body)), now_);
  Run();
}

Simulation::ProcessId Simulation::Start(std::string name, std::function<void()> body) {
  ProcessId process = next_process_++;
  if (Unwinding()) return process;
  for (char c : name) MixIntoFingerprint(static_cast<unsigned char>(c));
  Schedule(*NewFiber(process, std::move(body)), now_);
  return process;
}

void Simulation::Kill(ProcessId process) {
  if (!dead_.insert(process).second) return;
  // Before anybody else runs, and children before the parents whose variables they may refer to: no random tie.
  for (auto at = fibers_.rbegin(); at != fibers_.rend(); ++at) {
    const Fiber& fiber = *at->second;
    if (fiber.process == process) wakes_.push(Wake{now_, 0, next_order_++, fiber.id, fiber.generation});
  }
  if (Unwinding()) {
    SwitchOut();
    LeaveIfDead();
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

bool Simulation::Unwinding() const { return running_ != nullptr && dead_.contains(running_->process); }

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
  Require(running_ != nullptr, "only a fiber can sleep");
  LeaveIfDead();
  if (Unwinding()) return;  // a destructor, with nothing to wait for
  Fiber& self = *running_;
  if (until != Instant::max()) Schedule(self, std::max(until, now_));
  // Runs at once if the stop was asked for before.
  std::stop_callback on_stop(stop, [this, wake = Wake{{}, 0, 0, self.id, self.generation}] {
    if (!Stale(wake)) Schedule(*fibers_.at(wake.fiber), now_);
  });
  SwitchOut();
  LeaveIfDead();
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
  fiber->exceptions = {};
  fiber->ForgetFrames();
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

void Simulation::LeaveIfDead() {
  if (!Unwinding() || running_->unwinding) return;
  running_->unwinding = true;
  throw Killed();
}

void Simulation::OnTerminate() {
  // A process was killed while it waited inside a destructor or another function that no exception may leave. It is left where it is.
  if (g_running != nullptr && g_running->running_ != nullptr && g_running->running_->unwinding) {
    Fiber& self = *g_running->running_;
    self.abandoned = self.finished = true;
    g_running->SwitchOut();
  }
  if (g_terminate_before != nullptr) g_terminate_before();
  std::abort();
}

void Simulation::Resume(Fiber& fiber) {
  ucontext_t here;
  Simulation* others = std::exchange(g_running, this);
  running_ = &fiber;
  ++fiber.generation;
  fiber.back = &here;
  ExceptionsInFlight ours = ExceptionsInFlight::Exchange(fiber.exceptions);
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
  fiber.exceptions = ExceptionsInFlight::Exchange(ours);
  running_ = nullptr;
  g_running = others;
  if (!fiber.finished) return;
  std::unique_ptr<Fiber> done = std::move(fibers_.extract(fiber.id).mapped());
  done->work = nullptr;
  if (done->abandoned) {
    // What its frames own will never be given back, but it is not lost either: this is where it hangs.
#ifdef HR_ASAN_FIBERS
    __lsan_register_root_region(done->stack, kStackBytes);
#endif
    (void)done.release();
  } else {
    spare_.push_back(std::move(done));
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
  self.finished = true;
  simulation->SwitchOut();
  std::abort();  // a finished fiber is never resumed
}

void Simulation::SwitchOut() {
  Fiber& self = *running_;
#ifdef HR_TSAN_FIBERS
  __tsan_switch_to_fiber(self.tsan_back, 0);
#endif
#ifdef HR_ASAN_FIBERS
  __sanitizer_start_switch_fiber(self.finished && !self.abandoned ? nullptr : &self.fake_stack, self.back_bottom, self.back_size);
#endif
  swapcontext(&self.context, self.back);
#ifdef HR_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(self.fake_stack, &self.back_bottom, &self.back_size);
#endif
}

}  // namespace headrace
