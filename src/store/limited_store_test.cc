#include "store/limited_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "base/text.h"
#include "base/thread_executor.h"
#include "store/faulty_store.h"
#include "store/memory_store.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

// Answers after 20 ms; refuses at once what exceeds its capacity, as S3 does.
class BusyStore final : public StoreDecorator {
 public:
  BusyStore(Clock& clock, size_t capacity)
      : StoreDecorator(std::make_shared<MemoryStore>("busy")), capacity_(capacity), clock_(clock) {}

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string&, const GetOptions&, const Deadline&) override {
    if (in_flight_ >= capacity_) {
      ++refused_;
      return Status(Code::kThrottled, "503 SlowDown");
    }
    ++in_flight_;
    most_ = std::max(most_, in_flight_);
    clock_.SleepFor(milliseconds(20));
    --in_flight_;
    ++served_;
    return std::optional<Object>();
  }

  size_t capacity_;
  size_t in_flight_ = 0, most_ = 0, refused_ = 0, served_ = 0;

 private:
  Clock& clock_;
};

class LimitedStoreTest : public testing::Test {
 protected:
  // Callers that ask again and again, without a pause, for this long.
  void Load(LimitedStore& store, int callers, Duration time) {
    Instant end = simulation_.Now() + time;
    for (int i = 0; i < callers; ++i) {
      simulation_.Spawn([this, &store, end] {
        while (simulation_.Now() < end) {
          if (!store.Get("k", Deadline()).ok()) simulation_.SleepFor(milliseconds(5));
        }
      });
    }
    simulation_.Run();
  }
  Deadline In(Duration time, std::stop_token stop = {}) { return Deadline::After(simulation_, time, std::move(stop)); }

  Simulation simulation_{1};
  std::shared_ptr<BusyStore> busy_ = std::make_shared<BusyStore>(simulation_, 50);
};

TEST_F(LimitedStoreTest, NeverMoreAtOnceThanTheLimit) {
  busy_->capacity_ = 1000;
  LimitedStore store(busy_, {.start = 8, .min = 1, .max = 8}, simulation_);
  Load(store, 100, seconds(2));
  EXPECT_EQ(busy_->most_, 8u);
  EXPECT_EQ(store.in_flight(), 0u);
  EXPECT_NEAR(static_cast<double>(busy_->served_), 8 * 100, 110);
}

TEST_F(LimitedStoreTest, SettlesJustBelowWhatTheStoreRefuses) {
  for (size_t start : {4u, 200u}) {
    LimitedStore store(busy_, {.start = start, .min = 1, .max = 256}, simulation_);
    Load(store, 80, seconds(2));
    EXPECT_GE(store.limit(), 30u) << "started at " << start;
    EXPECT_LE(store.limit(), 52u) << "started at " << start;
    busy_->served_ = busy_->refused_ = 0;
    Load(store, 80, seconds(2));
    EXPECT_GT(static_cast<double>(busy_->served_), 0.75 * 50 * 100) << "most of the capacity is used";
    EXPECT_LT(static_cast<double>(busy_->refused_), 0.01 * static_cast<double>(busy_->served_)) << "and little is refused";
  }
}

TEST_F(LimitedStoreTest, BacksOffWhenTheStoreHasLessAndRecoversWhenItHasMore) {
  LimitedStore store(busy_, {.start = 40, .min = 1, .max = 256}, simulation_);
  busy_->capacity_ = 5;
  Load(store, 100, seconds(2));
  EXPECT_LE(store.limit(), 6u);
  busy_->capacity_ = 100;
  Load(store, 100, seconds(3));
  EXPECT_GE(store.limit(), 60u);
}

TEST_F(LimitedStoreTest, DoesNotGrowWhileNobodyIsHeldBack) {
  LimitedStore store(busy_, {.start = 10, .min = 1, .max = 256}, simulation_);
  Load(store, 5, seconds(10));
  EXPECT_EQ(store.limit(), 10u);
}

TEST_F(LimitedStoreTest, OneBurstOfRefusalsCountsOnce) {
  auto faulty = std::make_shared<FaultyStore>(busy_, FaultPlan(), simulation_, Random(1));
  faulty->Add({.fault = Fault::Refuse(Code::kThrottled), .op = StoreOp::kPut});
  // Refused only after a while, when all of them are in flight.
  class Late final : public StoreDecorator {
   public:
    Late(std::shared_ptr<ObjectStore> inner, Clock& clock) : StoreDecorator(std::move(inner)), clock_(clock) {}
    Status Put(const std::string& key, const Body& body, const Deadline& deadline) override {
      clock_.SleepFor(milliseconds(20));
      return StoreDecorator::Put(key, body, deadline);
    }
    Clock& clock_;
  };
  LimitedStore store(std::make_shared<Late>(faulty, simulation_), {.start = 100, .min = 1, .max = 256, .back_off = 0.7},
                     simulation_);
  for (int i = 0; i < 100; ++i) simulation_.Spawn([&] { (void)store.Put("k", std::string(), Deadline()); });
  simulation_.Run();
  EXPECT_EQ(store.limit(), 70u);
}

TEST_F(LimitedStoreTest, ARefusalInsideAnUnknownOutcomeCounts) {
  auto faulty = std::make_shared<FaultyStore>(std::make_shared<MemoryStore>(), FaultPlan(), simulation_, Random(1));
  LimitedStore store(faulty, {.start = 100, .min = 1, .max = 256, .back_off = 0.5}, simulation_);
  faulty->Add({.fault = Fault::FailBefore(Code::kThrottled)});
  simulation_.Run([&] { EXPECT_EQ(store.PutIfAbsent("k", std::string(), Deadline())->kind, PutOutcome::kUnknown); });
  EXPECT_EQ(store.limit(), 50u);
  faulty->Add({.fault = Fault::Refuse(Code::kUnavailable, seconds(1))});
  simulation_.Run([&] { EXPECT_FALSE(store.List({}, Deadline()).ok()); });
  EXPECT_EQ(store.limit(), 25u) << "a 503 with Retry-After";
  faulty->Add({.fault = Fault::Refuse(Code::kUnavailable)});
  simulation_.Run([&] { EXPECT_FALSE(store.List({}, Deadline()).ok()); });
  EXPECT_EQ(store.limit(), 25u) << "a lost connection says nothing about load";
}

TEST_F(LimitedStoreTest, NeverBelowTheMinimum) {
  busy_->capacity_ = 0;
  LimitedStore store(busy_, {.start = 64, .min = 3, .max = 256}, simulation_);
  Load(store, 20, seconds(2));
  EXPECT_EQ(store.limit(), 3u);
}

TEST_F(LimitedStoreTest, WaitersGetTheirTurnInTheOrderTheyCame) {
  LimitedStore store(busy_, {.start = 1, .min = 1, .max = 1}, simulation_);
  std::vector<int> order;
  for (int i = 0; i < 6; ++i) {
    simulation_.Spawn([&, i] {
      simulation_.SleepFor(milliseconds(i));
      EXPECT_TRUE(store.Get("k", Deadline()).ok());
      order.push_back(i);
    });
  }
  simulation_.Run();
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(simulation_.Now() - Instant(), milliseconds(6 * 20));
}

TEST_F(LimitedStoreTest, WaitingEndsAtTheDeadlineAndAtAStop) {
  LimitedStore store(busy_, {.start = 1, .min = 1, .max = 1}, simulation_);
  std::stop_source stop;
  simulation_.Spawn([&] { EXPECT_TRUE(store.Get("k", Deadline()).ok()); });
  simulation_.Spawn([&] {
    simulation_.SleepFor(milliseconds(1));
    auto got = store.PutIfAbsent("k", std::string(), In(milliseconds(9)));
    EXPECT_EQ(got.code(), Code::kTimeout) << "certainly nothing was created: an error, not an unknown outcome";
    EXPECT_THAT(got.status().message(), HasSubstr("waiting for a turn"));
    EXPECT_EQ(simulation_.Now() - Instant(), milliseconds(10));
  });
  simulation_.Spawn([&] {
    simulation_.SleepFor(milliseconds(2));
    EXPECT_EQ(store.Get("k", In(seconds(60), stop.get_token())).code(), Code::kCancelled);
    EXPECT_EQ(simulation_.Now() - Instant(), milliseconds(15));
  });
  simulation_.Spawn([&] {
    simulation_.SleepFor(milliseconds(15));
    stop.request_stop();
  });
  simulation_.Spawn([&] {
    simulation_.SleepFor(milliseconds(3));
    EXPECT_TRUE(store.Get("k", Deadline()).ok());
    EXPECT_EQ(simulation_.Now() - Instant(), milliseconds(40)) << "those who left do not hold up the line";
  });
  simulation_.Run();
  EXPECT_EQ(simulation_.stuck(), 0u);
  EXPECT_EQ(store.in_flight(), 0u);
}

TEST_F(LimitedStoreTest, AKilledProcessGivesItsPlacesBack) {
  LimitedStore store(busy_, {.start = 1, .min = 1, .max = 1}, simulation_);
  auto victim = simulation_.Start("victim", [&] {
    simulation_.Spawn([&] { (void)store.Get("k", Deadline()); });
    simulation_.Spawn([&] { (void)store.Get("k", Deadline()); });
  });
  simulation_.RunUntil(simulation_.Now() + milliseconds(5));
  simulation_.Kill(victim);
  busy_->in_flight_ = 0;
  simulation_.Run([&] { EXPECT_TRUE(store.Get("k", In(seconds(1))).ok()); });
  EXPECT_EQ(store.in_flight(), 0u);
}

TEST_F(LimitedStoreTest, ShowsItsLimit) {
  Metrics metrics;
  LimitedStore store(busy_, {.start = 17, .min = 1, .max = 256, .metrics = &metrics, .name = "lake"}, simulation_);
  EXPECT_THAT(metrics.ToPrometheus(), HasSubstr("headrace_store_concurrency_limit{store=\"lake\"} 17"));
}

TEST(LimitedStoreThreads, HoldsWithThreads) {
  ThreadExecutor executor;
  std::atomic<int> in_flight = 0, most = 0;
  class Counting final : public StoreDecorator {
   public:
    Counting(std::atomic<int>& in_flight, std::atomic<int>& most)
        : StoreDecorator(std::make_shared<MemoryStore>()), in_flight_(in_flight), most_(most) {}
    Status Put(const std::string& key, const Body& body, const Deadline& deadline) override {
      int now = ++in_flight_;
      for (int seen = most_; seen < now && !most_.compare_exchange_weak(seen, now);) {
      }
      Status put = StoreDecorator::Put(key, body, deadline);
      std::this_thread::yield();
      --in_flight_;
      return put;
    }
    std::atomic<int>&in_flight_, &most_;
  };
  LimitedStore store(std::make_shared<Counting>(in_flight, most), {.start = 3, .min = 1, .max = 3}, executor);
  TaskGroup group(executor);
  for (int t = 0; t < 8; ++t) {
    group.Spawn([&, t] {
      for (int i = 0; i < 200; ++i) EXPECT_TRUE(store.Put(Cat("k", t), std::string("v"), Deadline()).ok());
    });
  }
  group.Wait();
  EXPECT_LE(most.load(), 3);
  EXPECT_EQ(store.in_flight(), 0u);
}

}  // namespace
}  // namespace headrace
