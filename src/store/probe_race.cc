// The race of creators, the check on which everything rests.
#include <algorithm>

#include "base/text.h"
#include "store/create.h"
#include "store/probe_checks.h"

namespace headrace {
namespace {

// Lets everybody go at the same moment, so that the requests overlap.
class StartingLine {
 public:
  StartingLine(Executor& executor, int runners) : executor_(executor), signal_(executor.MakeSignal()), missing_(runners) {}

  void Wait() {
    // An executor with fewer threads than runners must not wait for ever.
    Instant patience = executor_.clock().Now() + std::chrono::milliseconds(500);
    std::unique_lock lock(mutex_);
    if (--missing_ == 0) signal_->NotifyAll();
    while (missing_ > 0 && executor_.clock().Now() < patience) signal_->WaitUntil(lock, patience);
  }

 private:
  Executor& executor_;
  std::mutex mutex_;
  std::unique_ptr<Signal> signal_;
  int missing_;
};

struct Racer {
  Racer(std::string text, const Random& own) : body(Bytes::FromString(std::move(text))), random(own) {}

  Bytes body;
  Random random;
  Result<CreateResult> result = Status(Code::kInternal, "did not run");
};

std::string InWords(size_t count) { return count == 2 ? "two" : Cat(count); }

// What is wrong with the outcome of one race; empty if nothing. `held` is what the key holds after it.
std::string Judge(const std::vector<Racer>& racers, const std::optional<Object>& held) {
  size_t created = 0;
  const Racer* winner = nullptr;
  for (const Racer& racer : racers) {
    if (!racer.result.ok() || racer.result->kind != CreateResult::kCreated) continue;
    ++created;
    winner = &racer;
  }
  if (created > 1) return Cat("the store accepted ", InWords(created), " creators of the same key");
  if (!held) return "the store shows nothing under a key after a race for it";
  if (winner == nullptr) return "the store told every one of the creators of a key that another one was first";
  if (!(held->bytes == winner->body))
    return "the store told one creator of a key that it won, and kept other bytes than that one's";
  for (const Racer& racer : racers) {
    if (racer.result.ok() && racer.result->kind == CreateResult::kLost && !(racer.result->winner == winner->body)) {
      return "the store showed a losing creator other bytes than the winner's";
    }
  }
  return "";
}

}  // namespace

Result<ProbeFinding> CheckRace(ProbeRun& run) {
  const int rounds = run.options.rounds;
  std::vector<Bytes> winners;
  for (int round = 1; round <= rounds; ++round) {
    run.Progress(round - 1, rounds);
    const std::string key = Cat("race/", round);
    std::vector<Racer> racers;
    for (int i = 0; i < run.options.racers; ++i) {
      Random random = run.random.Fork(Cat(key, " ", i));
      // Of different lengths, so that a mixture of two would show as well.
      std::string body = Cat("race ", round, " racer ", i, " ", random.Hex(16), std::string(static_cast<size_t>(i) * 37, '.'));
      racers.emplace_back(std::move(body), random);
    }
    StartingLine line(run.executor, run.options.racers);
    TaskGroup group(run.executor);
    for (Racer& racer : racers) {
      group.Spawn([&] {
        line.Wait();
        racer.result = Create(run.store, key, Body(racer.body), run.ForOneCreate(), run.clock(), racer.random);
      });
    }
    group.Wait();

    auto held = run.store.Get(key, run.deadline);
    if (!held.ok()) return held.status();
    auto in_round = [&](std::string_view wrong) { return Cat(wrong, " (race ", round, " of ", rounds, ")"); };
    size_t created = 0;
    for (const Racer& racer : racers) created += racer.result.ok() && racer.result->kind == CreateResult::kCreated;
    if (created <= 1) {
      // With one creator at the most, an outcome that nobody can tell leaves the race undecided.
      for (const Racer& racer : racers) {
        if (!racer.result.ok()) return racer.result.status();
        if (racer.result->kind == CreateResult::kUnknown) return racer.result->reason;
      }
    }
    if (std::string wrong = Judge(racers, *held); !wrong.empty()) return ProbeFinding{false, in_round(wrong)};
    winners.push_back((*held)->bytes);
  }
  // A loser's bytes must not come up later either.
  for (int round = 1; round <= rounds; ++round) {
    auto held = run.store.Get(Cat("race/", round), run.deadline);
    if (!held.ok()) return held.status();
    if (!*held || !((*held)->bytes == winners[static_cast<size_t>(round - 1)])) {
      return ProbeFinding{false,
                          Cat("the store did not keep the winner's bytes after the race (race ", round, " of ", rounds, ")")};
    }
  }
  return ProbeFinding{true, Cat(rounds, " races of ", run.options.racers, " creators: one winner each, and all saw its bytes")};
}

}  // namespace headrace
