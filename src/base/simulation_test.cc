#include "base/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/text.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr Instant kStart{};

// Eight workers that take turns on a shared list, with sleeps of equal length: only the seed can decide who is first.
std::string Interleaving(uint64_t seed, uint64_t* fingerprint = nullptr) {
  Simulation simulation(seed);
  std::string order;
  simulation.Run([&] {
    TaskGroup group(simulation);
    for (char name = 'a'; name < 'i'; ++name) {
      group.Spawn([&, name] {
        for (int round = 0; round < 3; ++round) {
          simulation.SleepFor(1ms);
          order += name;
        }
      });
    }
    group.Wait();
  });
  if (fingerprint != nullptr) *fingerprint = simulation.fingerprint();
  return order;
}

TEST(Simulation, SameSeedGivesTheSameRun) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    uint64_t first = 0, second = 0;
    EXPECT_EQ(Interleaving(seed, &first), Interleaving(seed, &second));
    EXPECT_EQ(first, second);
  }
}

TEST(Simulation, DifferentSeedsGiveDifferentInterleavings) {
  std::set<std::string> orders;
  std::set<uint64_t> fingerprints;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    uint64_t fingerprint = 0;
    orders.insert(Interleaving(seed, &fingerprint));
    fingerprints.insert(fingerprint);
  }
  EXPECT_EQ(orders.size(), 50u);
  EXPECT_EQ(fingerprints.size(), 50u);
}

TEST(Simulation, FingerprintKnowsWhatATestMixesIn) {
  auto run = [](uint64_t value) {
    Simulation simulation(1);
    simulation.Run([&] { simulation.MixIntoFingerprint(value); });
    return simulation.fingerprint();
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST(Simulation, SleepingTakesVirtualTimeOnly) {
  Simulation simulation(1);
  simulation.Run([&] {
    simulation.SleepFor(24h * 365);
    EXPECT_EQ(simulation.Now(), kStart + 24h * 365);
    simulation.SleepUntil(kStart);  // long gone: returns at once
    EXPECT_EQ(simulation.Now(), kStart + 24h * 365);
  });
}

TEST(Simulation, EventsComeInOrderOfTime) {
  Simulation simulation(3);
  std::vector<int> order;
  for (int ms : {30, 10, 20}) {
    simulation.Spawn([&, ms] {
      simulation.SleepFor(ms * 1ms);
      order.push_back(ms);
    });
  }
  simulation.Run();
  EXPECT_THAT(order, ElementsAre(10, 20, 30));
}

TEST(Simulation, RunUntilStopsAtTheTimeAndGoesOn) {
  Simulation simulation(1);
  int ticks = 0;
  simulation.Spawn([&] {
    for (; ticks < 10; ++ticks) simulation.SleepFor(1s);
  });
  EXPECT_FALSE(simulation.RunUntil(kStart + 3500ms));
  EXPECT_EQ(ticks, 3);
  EXPECT_EQ(simulation.Now(), kStart + 3500ms);
  EXPECT_TRUE(simulation.RunUntil(kStart + 1h));
  EXPECT_EQ(ticks, 10);
}

TEST(Simulation, RunUntilIsDoneWhenOnlyATimeoutOfThePastIsLeft) {
  Simulation simulation(1);
  std::mutex mutex;
  auto signal = simulation.MakeSignal();
  simulation.Spawn([&] {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(signal->WaitUntil(lock, kStart + 1h));
  });
  simulation.Spawn([&] {
    simulation.SleepFor(1s);
    signal->NotifyOne();
  });
  EXPECT_TRUE(simulation.RunUntil(kStart + 1min));
}

TEST(Simulation, WallClockFollowsVirtualTimeAndCanBeMoved) {
  Simulation simulation(1);
  simulation.Run([&] {
    WallTime before = simulation.WallNow();
    simulation.SleepFor(90s);
    EXPECT_EQ(simulation.WallNow() - before, 90s);
    Instant now = simulation.Now();
    simulation.JumpWallClock(-1h);
    EXPECT_EQ(simulation.WallNow() - before, 90s - 1h);
    EXPECT_EQ(simulation.Now(), now);
  });
}

TEST(Simulation, StopWakesASleeperAtOnce) {
  Simulation simulation(1);
  std::stop_source stop;
  simulation.Spawn([&] {
    simulation.SleepFor(1h, stop.get_token());
    EXPECT_EQ(simulation.Now(), kStart + 2s);
    simulation.SleepFor(1h, stop.get_token());
    EXPECT_EQ(simulation.Now(), kStart + 2s) << "a stop that was asked for before the sleep began";
    simulation.SleepFor(1h);
  });
  simulation.Spawn([&] {
    simulation.SleepFor(2s);
    stop.request_stop();
  });
  simulation.Run();
  EXPECT_EQ(simulation.Now(), kStart + 2s + 1h) << "an earlier wake ended a later sleep";
}

TEST(Simulation, SleepWithoutEndIsWokenByStopOnly) {
  Simulation simulation(1);
  std::stop_source stop;
  bool woken = false;
  simulation.Spawn([&] {
    simulation.SleepFor(Duration::max(), stop.get_token());
    woken = true;
  });
  simulation.Run();
  EXPECT_FALSE(woken);
  EXPECT_EQ(simulation.stuck(), 1u);
  stop.request_stop();
  simulation.Run();
  EXPECT_TRUE(woken);
}

TEST(Simulation, WorkThatWaitsForNobodyIsCountedAsStuck) {
  Simulation simulation(1);
  std::mutex mutex;
  auto signal = simulation.MakeSignal();
  for (int i = 0; i < 3; ++i) {
    simulation.Spawn([&] {
      std::unique_lock lock(mutex);
      signal->Wait(lock);
      ADD_FAILURE() << "nobody notified";
    });
  }
  simulation.Spawn([] {});
  simulation.Run();
  EXPECT_EQ(simulation.stuck(), 3u);
}

TEST(Simulation, ThousandsOfFibersAtOnceAndTheirStacksAreUsedAgain) {
  Simulation simulation(1);
  int done = 0;
  simulation.Run([&] {
    for (int round = 0; round < 3; ++round) {
      TaskGroup group(simulation);
      for (int i = 0; i < 3000; ++i) {
        group.Spawn([&, i] {
          char on_stack[4096] = {};
          on_stack[i % 4096] = 1;
          simulation.SleepFor(i * 1us);
          done += on_stack[i % 4096];
        });
      }
    }
  });
  EXPECT_EQ(done, 9000);
  EXPECT_EQ(simulation.stuck(), 0u);
}

TEST(Simulation, ExceptionsOfOneFiberDoNotMixWithThoseOfAnother) {
  Simulation simulation(1);
  std::vector<std::string> seen;
  simulation.Run([&] {
    TaskGroup group(simulation);
    // The handlers overlap in time and are left in the order in which they were entered: not like a stack.
    for (int i = 0; i < 3; ++i) {
      group.Spawn([&, i] {
        simulation.SleepFor(i * 1ms);
        try {
          throw std::string(1, static_cast<char>('a' + i));
        } catch (const std::string&) {
          simulation.SleepFor(10ms);
          try {
            throw;  // the current exception must still be this fiber's own
          } catch (const std::string& name) {
            seen.push_back(name);
          }
        }
        EXPECT_EQ(std::uncaught_exceptions(), 0);
      });
    }
  });
  EXPECT_THAT(seen, ElementsAre("a", "b", "c"));
}

TEST(SimulationDeathTest, WaitingOutsideOfAFiberSaysWhatIsWrong) {
  EXPECT_DEATH(
      {
        Simulation simulation(1);
        simulation.SleepFor(1s);
      },
      "only a fiber can sleep");
  EXPECT_DEATH(
      {
        Simulation simulation(1);
        std::mutex mutex;
        std::unique_lock lock(mutex);
        simulation.MakeSignal()->Wait(lock);
      },
      "only a fiber can wait");
}

}  // namespace
}  // namespace headrace
