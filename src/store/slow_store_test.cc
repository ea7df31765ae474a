#include "store/slow_store.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/simulation.h"
#include "store/memory_store.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SlowStoreTest : public testing::Test {
 protected:
  double Seconds(std::function<void()> body) {
    Instant began = simulation_.Now();
    Instant ended;
    simulation_.Run([&] {
      body();
      ended = simulation_.Now();
    });
    return std::chrono::duration<double>(ended - began).count();
  }

  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("m", simulation_);
};

TEST_F(SlowStoreTest, TimesAreLogNormalAroundTheMedianOfTheOperation) {
  SlowStore store(memory_, {}, simulation_, Random(7));
  auto check = [&](double median, std::function<void()> call) {
    std::vector<double> times;
    for (int i = 0; i < 2001; ++i) times.push_back(Seconds(call));
    std::ranges::sort(times);
    EXPECT_NEAR(times[1000], median, 0.03 * median);
    EXPECT_NEAR(std::log(times[1682] / times[1000]), 0.25, 0.03) << "one sigma above";
  };
  check(0.060, [&] { EXPECT_TRUE(store.PutIfAbsent("k", std::string(), Deadline()).ok()); });
  check(0.040, [&] { EXPECT_TRUE(store.Put("k", std::string(), Deadline()).ok()); });
  check(0.030, [&] { EXPECT_TRUE(store.List({}, Deadline()).ok()); });
  check(0.020, [&] { EXPECT_TRUE(store.Get("k", Deadline()).ok()); });
}

TEST_F(SlowStoreTest, BytesComeAtTheRateOfTheConnection) {
  SlowStore store(memory_, {.get = {}, .connection_bytes_per_second = 25e6, .total_bytes_per_second = 0}, simulation_, Random(7));
  ASSERT_TRUE(memory_->Put("k", std::string(5'000'000, 'x'), Deadline()).ok());
  EXPECT_NEAR(Seconds([&] { EXPECT_TRUE(store.Get("k", Deadline()).ok()); }), 0.2, 1e-6);
  EXPECT_NEAR(Seconds([&] { EXPECT_TRUE(store.Get("k", {.range = ByteRange::At(0, 500'000)}, Deadline()).ok()); }), 0.02, 1e-6);
}

TEST_F(SlowStoreTest, AllTogetherShareTheNetwork) {
  SlowStore store(memory_, {.get = {}, .connection_bytes_per_second = 25e6, .total_bytes_per_second = 50e6}, simulation_,
                  Random(7));
  ASSERT_TRUE(memory_->Put("k", std::string(5'000'000, 'x'), Deadline()).ok());
  double took = Seconds([&] {
    TaskGroup group(simulation_);
    for (int i = 0; i < 10; ++i) group.Spawn([&] { EXPECT_TRUE(store.Get("k", Deadline()).ok()); });
    group.Wait();
  });
  EXPECT_NEAR(took, 1.0, 1e-6);
}

TEST_F(SlowStoreTest, WhoRunsOutOfTimeCannotTell) {
  int happened = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SlowStore store(memory_, {.sigma = 0}, simulation_, Random(seed));
    double took = Seconds([&] {
      auto put = store.PutIfAbsent("k", std::string("v"), Deadline::After(simulation_, milliseconds(30)));
      ASSERT_TRUE(put.ok());
      EXPECT_EQ(put->kind, PutOutcome::kUnknown);
      EXPECT_EQ(put->reason.code(), Code::kTimeout);
      EXPECT_EQ(store.Put("p", std::string("v"), Deadline::After(simulation_, milliseconds(1))).code(), Code::kTimeout);
    });
    EXPECT_NEAR(took, 0.031, 1e-9) << "the caller waits until its deadline, as for a real one";
    happened += memory_->Get("k", Deadline())->has_value();
    ASSERT_TRUE(memory_->DeleteOne("k", Deadline()).ok());
  }
  EXPECT_GT(happened, 60);
  EXPECT_LT(happened, 140);
}

TEST_F(SlowStoreTest, AStopEndsTheWait) {
  SlowStore store(memory_, {.get = seconds(100)}, simulation_, Random(7));
  std::stop_source stop;
  simulation_.Spawn([&] {
    simulation_.SleepFor(seconds(1));
    stop.request_stop();
  });
  EXPECT_NEAR(Seconds([&] { EXPECT_EQ(store.Get("k", Deadline::OnlyStop(stop.get_token())).code(), Code::kCancelled); }), 1,
              1e-9);
}

TEST_F(SlowStoreTest, TheSameSeedTakesTheSameTime) {
  auto run = [&](uint64_t seed) {
    SlowStore store(memory_, {}, simulation_, Random(seed));
    return Seconds([&] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(store.Get("k", Deadline()).ok());
    });
  };
  EXPECT_DOUBLE_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

}  // namespace
}  // namespace headrace
