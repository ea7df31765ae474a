// Signals in a simulation: who is woken, when, and that nobody's notification is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/simulation.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using testing::UnorderedElementsAre;

constexpr Instant kStart{};

struct Gate {
  explicit Gate(Simulation& simulation) : signal(simulation.MakeSignal()) {}
  std::mutex mutex;
  std::unique_ptr<Signal> signal;

  bool WaitUntil(Instant until) {
    std::unique_lock lock(mutex);
    bool in_time = signal->WaitUntil(lock, until);
    EXPECT_TRUE(lock.owns_lock());
    return in_time;
  }
};

TEST(SimulatedSignal, NotifyOneWakesOneAndNotifyAllTheRest) {
  Simulation simulation(1);
  Gate gate(simulation);
  int woken = 0;
  for (int i = 0; i < 5; ++i) {
    simulation.Spawn([&] {
      gate.WaitUntil(Instant::max());
      ++woken;
    });
  }
  simulation.Run();
  gate.signal->NotifyOne();
  simulation.Run();
  EXPECT_EQ(woken, 1);
  gate.signal->NotifyOne();
  gate.signal->NotifyOne();
  simulation.Run();
  EXPECT_EQ(woken, 3) << "two notifications before anybody ran are for two waiters";
  gate.signal->NotifyAll();
  simulation.Run();
  EXPECT_EQ(woken, 5);
}

TEST(SimulatedSignal, NotificationsAreNotStored) {
  Simulation simulation(1);
  Gate gate(simulation);
  gate.signal->NotifyOne();
  gate.signal->NotifyAll();
  simulation.Spawn([&] { EXPECT_FALSE(gate.WaitUntil(kStart + 1s)); });
  simulation.Run();
  EXPECT_EQ(simulation.Now(), kStart + 1s);
}

TEST(SimulatedSignal, SeedDecidesWhomNotifyOneWakes) {
  std::set<int> first;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Simulation simulation(seed);
    Gate gate(simulation);
    for (int i = 0; i < 4; ++i) {
      simulation.Spawn([&, i] {
        simulation.SleepFor(i * 1ms);  // they come in this order whatever the seed is
        gate.WaitUntil(Instant::max());
        first.insert(i);
      });
    }
    simulation.Run();
    gate.signal->NotifyOne();
    simulation.Run();
  }
  EXPECT_THAT(first, UnorderedElementsAre(0, 1, 2, 3));
}

TEST(SimulatedSignal, WaitSaysWhetherTheTimeHasCome) {
  Simulation simulation(1);
  Gate gate(simulation);
  simulation.Spawn([&] {
    EXPECT_TRUE(gate.WaitUntil(kStart + 10s));
    EXPECT_EQ(simulation.Now(), kStart + 2s);
    EXPECT_FALSE(gate.WaitUntil(kStart + 10s));
    EXPECT_EQ(simulation.Now(), kStart + 10s);
    EXPECT_FALSE(gate.WaitUntil(kStart + 5s)) << "the time was over before";
    EXPECT_EQ(simulation.Now(), kStart + 10s);
  });
  simulation.Spawn([&] {
    simulation.SleepFor(2s);
    gate.signal->NotifyOne();
  });
  simulation.Run();
}

TEST(SimulatedSignal, WaiterThatGaveUpDoesNotTakeTheNotificationOfAnother) {
  Simulation simulation(1);
  Gate gate(simulation);
  int woken = 0;
  for (int i = 0; i < 10; ++i) simulation.Spawn([&] { EXPECT_FALSE(gate.WaitUntil(kStart + 1s)); });
  simulation.Spawn([&] { woken += gate.WaitUntil(kStart + 1h); });
  simulation.RunUntil(kStart + 2s);
  gate.signal->NotifyOne();
  simulation.Run();
  EXPECT_EQ(woken, 1);
}

TEST(SimulatedSignal, NotificationInTheInstantOfTheTimeoutIsNotLost) {
  int both = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Simulation simulation(seed);
    Gate gate(simulation);
    bool gave_up = false, notified = false;
    simulation.Spawn([&] {
      bool told = gate.WaitUntil(kStart + 1s);
      gave_up = true;
      EXPECT_EQ(told, notified) << "seed " << seed;
    });
    simulation.Spawn([&] {
      simulation.SleepFor(1s);
      notified = !gave_up;
      both += notified;
      gate.signal->NotifyOne();
    });
    simulation.Run();
  }
  EXPECT_GT(both, 10) << "the seeds must bring both orders";
  EXPECT_LT(both, 40);
}

TEST(SimulatedSignal, KilledWaiterDoesNotTakeTheNotificationOfALivingOne) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Simulation simulation(seed);
    Gate gate(simulation);
    bool woken = false;
    auto doomed = simulation.Start("doomed", [&] {
      gate.WaitUntil(Instant::max());
      ADD_FAILURE() << "a killed process went on";
    });
    simulation.Start("living", [&] { woken = gate.WaitUntil(Instant::max()); });
    simulation.Run();
    simulation.Spawn([&] {
      simulation.Kill(doomed);
      gate.signal->NotifyOne();  // the dead one has not been unwound yet
    });
    simulation.Run();
    EXPECT_TRUE(woken) << "seed " << seed;
  }
}

TEST(SimulatedSignal, WaiterKilledAfterItsNotificationHandsItOn) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Simulation simulation(seed);
    Gate gate(simulation);
    int woken = 0;
    std::vector<Simulation::ProcessId> processes;
    for (int i = 0; i < 2; ++i) {
      processes.push_back(simulation.Start("waiter", [&] { woken += gate.WaitUntil(Instant::max()); }));
    }
    simulation.Run();
    simulation.Spawn([&] {
      gate.signal->NotifyOne();
      simulation.Kill(processes[0]);  // for half of the seeds this is the one that was notified
    });
    simulation.Run();
    EXPECT_EQ(woken, 1) << "seed " << seed;
  }
}

TEST(SimulatedSignal, ManyWaitersAreNotifiedOneByOneInReasonableTime) {
  Simulation simulation(1);
  Gate gate(simulation);
  int woken = 0;
  simulation.Run([&] {
    TaskGroup group(simulation);
    for (int i = 0; i < 3000; ++i) {
      group.Spawn([&] {
        gate.WaitUntil(kStart + 1h);
        ++woken;
      });
    }
    simulation.SleepFor(1s);
    for (int i = 0; i < 3000; ++i) gate.signal->NotifyOne();
  });
  EXPECT_EQ(woken, 3000);
  EXPECT_EQ(simulation.Now(), kStart + 1s);
}

}  // namespace
}  // namespace headrace
