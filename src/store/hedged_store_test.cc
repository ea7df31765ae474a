#include "store/hedged_store.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/simulation.h"
#include "base/text.h"
#include "base/thread_executor.h"
#include "store/memory_store.h"
#include "store/pass_time.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Patience of 1.25 × 10 ms, then a second get of 10 ms.
constexpr Duration kOvertaken = std::chrono::microseconds(22'500);

// Gets take 10 ms; those that `slow` picks by their number take as long as it says. Obeys a stop.
class TailStore final : public StoreDecorator {
 public:
  TailStore(std::shared_ptr<ObjectStore> inner, Clock& clock) : StoreDecorator(std::move(inner)), clock_(clock) {}

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
    int number = ++gets_;
    Duration time = slow ? slow(number).value_or(milliseconds(10)) : Duration(milliseconds(10));
    ++in_flight_;
    Status passed = PassTime(clock_, deadline, time, "get");
    --in_flight_;
    if (!passed.ok()) {
      stopped_ += passed.code() == Code::kCancelled;
      return passed;
    }
    if (fail && fail(number)) return Status(Code::kUnavailable, "reset");
    return StoreDecorator::Get(key, options, deadline);
  }

  std::function<std::optional<Duration>(int)> slow;
  std::function<bool(int)> fail;
  int gets_ = 0, in_flight_ = 0, stopped_ = 0;

 private:
  Clock& clock_;
};

class HedgedStoreTest : public testing::Test {
 protected:
  HedgedStoreTest() { EXPECT_TRUE(memory_->Put("k", std::string("payload"), Deadline()).ok()); }

  void Use(HedgeOptions options = {}) { store_ = std::make_shared<HedgedStore>(tail_, options, simulation_); }
  // One get; how long it took.
  Duration Get(const GetOptions& options = {}) {
    Instant began = simulation_.Now();
    auto got = store_->Get("k", options, Deadline());
    EXPECT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_EQ((*got)->bytes.AsText(), "payload");
    return simulation_.Now() - began;
  }
  void Warm(int gets = 100) {
    for (int i = 0; i < gets; ++i) Get();
  }
  void Run(std::function<void()> body) {
    simulation_.Run(std::move(body));
    EXPECT_EQ(simulation_.stuck(), 0u);
    EXPECT_EQ(tail_->in_flight_, 0);
  }

  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("m", simulation_);
  std::shared_ptr<TailStore> tail_ = std::make_shared<TailStore>(memory_, simulation_);
  std::shared_ptr<HedgedStore> store_;
};

TEST_F(HedgedStoreTest, ASlowGetIsOvertakenByASecondOne) {
  Use();
  Run([&] {
    Warm();
    tail_->slow = [](int n) { return n == 101 ? std::optional<Duration>(seconds(30)) : std::nullopt; };
    EXPECT_EQ(Get(), kOvertaken);
  });
  EXPECT_EQ(store_->hedges(), 1u);
  EXPECT_EQ(store_->wins(), 1u);
  EXPECT_EQ(tail_->stopped_, 1) << "the loser was told to stop";
}

TEST_F(HedgedStoreTest, TheWinnersBytesAreInTheCallersMemory) {
  Use();
  Run([&] {
    Warm();
    std::array<std::byte, 7> memory{};
    for (int i = 0; i < 100; ++i) Get({.into = memory});
    tail_->slow = [](int n) { return n == 201 ? std::optional<Duration>(seconds(30)) : std::nullopt; };
    memory = {};
    auto got = store_->Get("k", {.into = memory}, Deadline());
    ASSERT_TRUE(got.ok());
    EXPECT_EQ((*got)->bytes.data(), memory.data());
    EXPECT_EQ((*got)->bytes.AsText(), "payload");
    EXPECT_EQ((*got)->size, 7u);
    EXPECT_EQ(store_->wins(), 1u);
  });
}

TEST_F(HedgedStoreTest, TheFirstMayStillWin) {
  Use();
  Run([&] {
    Warm();
    tail_->slow = [](int n) -> std::optional<Duration> {
      if (n == 101) return milliseconds(15);
      return n == 102 ? std::optional<Duration>(seconds(30)) : std::nullopt;
    };
    EXPECT_EQ(Get(), milliseconds(15));
    EXPECT_EQ(store_->hedges(), 1u);
    EXPECT_EQ(store_->wins(), 0u);
  });
  EXPECT_EQ(tail_->stopped_, 1);
}

TEST_F(HedgedStoreTest, AFailedHedgeIsNoAnswer) {
  Use();
  Run([&] {
    Warm();
    tail_->slow = [](int n) { return n == 101 ? std::optional<Duration>(milliseconds(80)) : std::nullopt; };
    tail_->fail = [](int n) { return n == 102; };
    EXPECT_EQ(Get(), milliseconds(80));
  });
  EXPECT_EQ(store_->wins(), 0u);
}

TEST_F(HedgedStoreTest, AHedgeSavesAGetThatFailsLate) {
  Use();
  Run([&] {
    Warm();
    tail_->slow = [](int n) { return n == 101 ? std::optional<Duration>(milliseconds(14)) : std::nullopt; };
    tail_->fail = [](int n) { return n == 101; };
    EXPECT_EQ(Get(), kOvertaken);
  });
  EXPECT_EQ(store_->wins(), 1u);
}

TEST_F(HedgedStoreTest, AGetThatFailsEarlyIsNotAskedAgainHere) {
  Use();
  Run([&] {
    Warm();
    tail_->fail = [](int n) { return n == 101; };
    EXPECT_EQ(store_->Get("k", Deadline()).code(), Code::kUnavailable);
  });
  EXPECT_EQ(tail_->gets_, 101);
}

TEST_F(HedgedStoreTest, OffUntilItHasSeenEnough) {
  Use({.min_samples = 64});
  tail_->slow = [](int n) { return n == 60 || n == 70 ? std::optional<Duration>(seconds(5)) : std::nullopt; };
  Run([&] {
    Warm(59);
    EXPECT_EQ(Get(), seconds(5));
    Warm(9);
    EXPECT_EQ(Get(), kOvertaken);
  });
}

TEST_F(HedgedStoreTest, ALargeReadIsNotComparedWithSmallOnes) {
  Use();
  Run([&] {
    Warm();
    ASSERT_TRUE(memory_->Put("large", std::string(4 << 20, 'x'), Deadline()).ok());
    tail_->slow = [](int) { return milliseconds(500); };
    EXPECT_TRUE(store_->Get("large", {.range = ByteRange::At(0, 4 << 20)}, Deadline()).ok());
  });
  EXPECT_EQ(store_->hedges(), 0u);
}

TEST_F(HedgedStoreTest, NotFoundIsAnAnswer) {
  Use();
  Run([&] {
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(store_->Get("absent", Deadline())->has_value());
    tail_->slow = [](int n) { return n == 101 ? std::optional<Duration>(seconds(30)) : std::nullopt; };
    EXPECT_FALSE(store_->Get("absent", Deadline())->has_value());
  });
  EXPECT_EQ(store_->wins(), 1u);
}

TEST_F(HedgedStoreTest, AStopReachesBoth) {
  Use();
  std::stop_source stop;
  Run([&] {
    Warm();
    tail_->slow = [](int) { return seconds(1000); };
    simulation_.Spawn([&] {
      simulation_.SleepFor(seconds(1));
      stop.request_stop();
    });
    Instant began = simulation_.Now();
    EXPECT_EQ(store_->Get("k", Deadline::OnlyStop(stop.get_token())).code(), Code::kCancelled);
    EXPECT_EQ(simulation_.Now() - began, seconds(1));
  });
  EXPECT_EQ(tail_->stopped_, 2);
}

TEST_F(HedgedStoreTest, TheDeadlineHoldsForBoth) {
  Use();
  Run([&] {
    Warm();
    tail_->slow = [](int) { return seconds(1000); };
    Instant began = simulation_.Now();
    EXPECT_EQ(store_->Get("k", Deadline::After(simulation_, seconds(2))).code(), Code::kTimeout);
    EXPECT_EQ(simulation_.Now() - began, seconds(2));
  });
}

// A tail as S3 has it: the slowest go away, for a few percent more requests.
TEST_F(HedgedStoreTest, CutsTheTailForFewRequestsMore) {
  Use();
  Random random(5);
  tail_->slow = [&](int) -> std::optional<Duration> {
    double ms = random.LogNormal(20, 0.25);
    if (random.Chance(0.02)) ms *= 20;
    return Duration(static_cast<int64_t>(ms * 1e6));
  };
  constexpr int kReaders = 20, kGets = 500;
  std::vector<Duration> times;
  for (int r = 0; r < kReaders; ++r) {
    simulation_.Spawn([&] {
      for (int i = 0; i < kGets; ++i) times.push_back(Get());
    });
  }
  Run([] {});
  std::ranges::sort(times);
  EXPECT_LT(times[times.size() * 99 / 100], milliseconds(90)) << "without hedges: about 400 ms";
  EXPECT_LE(tail_->gets_, kReaders * kGets * 1.05 + 10);
  EXPECT_GT(store_->wins(), 50u);
}

// Each get takes longer than those before, so that the estimate is always behind and every one seems to be worth a second.
TEST_F(HedgedStoreTest, AStoreThatIsSlowAsAWholeIsNotAskedTwiceAsMuch) {
  Use({.max_at_once = 1000});
  Run([&] { Warm(); });
  int before = tail_->gets_;
  tail_->slow = [&](int n) { return Duration(static_cast<int64_t>(10e6 * std::pow(1.025, std::min(n - before, 500)))); };
  constexpr int kReaders = 10, kGets = 40;
  for (int r = 0; r < kReaders; ++r) {
    simulation_.Spawn([&] {
      for (int i = 0; i < kGets; ++i) Get();
    });
  }
  Run([] {});
  EXPECT_LE(tail_->gets_ - before, kReaders * kGets * 1.05 + 10);
  EXPECT_GE(store_->hedges(), 10u) << "there was reason to hedge, or nothing was tried here";
}

TEST(HedgedStoreThreads, NobodyWritesToTheCallersMemoryAfterTheAnswer) {
  ThreadExecutor executor;
  auto memory = std::make_shared<MemoryStore>();
  ASSERT_TRUE(memory->Put("k", std::string(4096, 'x'), Deadline()).ok());
  static thread_local bool asking;  // this thread is a caller's, and not that of a hedge
  // Now and then a caller's own get dawdles until it is told to stop, and writes as it goes. Only a hedge helps, whenever it comes.
  class Dawdling final : public StoreDecorator {
   public:
    using StoreDecorator::StoreDecorator;
    Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
      if (asking && ++gets_ % 40 == 0) {
        const Instant give_up = RealClock().Now() + std::chrono::minutes(1);
        while (!deadline.stop().stop_requested() && RealClock().Now() < give_up) {
          std::ranges::fill(options.into, std::byte('?'));
          RealClock().SleepFor(std::chrono::microseconds(200));
        }
        return Status(Code::kCancelled, "stopped");
      }
      return StoreDecorator::Get(key, options, deadline);
    }
    std::atomic<int> gets_ = 0;
  };
  // A hedge is always allowed: a busy machine makes many.
  HedgedStore store(
      std::make_shared<Dawdling>(memory),
      {.least_patience = std::chrono::microseconds(500), .budget = {.share = 1, .burst = 10'000}, .max_at_once = 10'000},
      executor);
  for (int i = 0; i < 100; ++i) {
    std::vector<std::byte> into(4096);
    ASSERT_TRUE(store.Get("k", {.into = into}, Deadline()).ok());  // until it knows what is usual
  }
  TaskGroup group(executor);
  for (int t = 0; t < 4; ++t) {
    group.Spawn([&] {
      std::vector<std::byte> into(4096);
      for (int i = 0; i < 150; ++i) {
        asking = true;
        auto got = store.Get("k", {.into = into}, Deadline());
        asking = false;
        ASSERT_TRUE(got.ok()) << got.status().ToString();
        std::string before((*got)->bytes.AsText());
        EXPECT_EQ(before, std::string(4096, 'x'));
      }
    });
  }
  group.Wait();
  EXPECT_GE(store.wins(), 15u);
}

}  // namespace
}  // namespace headrace
