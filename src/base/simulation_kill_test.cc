// Killing simulated processes: what stops, what is given back, and what nobody ever sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/simulation.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{};

// Counts itself, and what its destructor could see.
class Witness {
 public:
  Witness(Simulation& simulation, int& alive) : simulation_(simulation), alive_(alive) { ++alive_; }
  ~Witness() {
    --alive_;
    EXPECT_TRUE(simulation_.Unwinding());
  }

 private:
  Simulation& simulation_;
  int& alive_;
};

TEST(SimulationKill, SleepingProcessNeverGoesOnAndItsMemoryComesBack) {
  Simulation simulation(1);
  int alive = 0;
  auto process = simulation.Start("sleeper", [&] {
    Witness witness(simulation, alive);
    simulation.SleepFor(1h);
    ADD_FAILURE() << "a killed process went on";
  });
  simulation.RunUntil(kStart + 1s);
  EXPECT_TRUE(simulation.Alive(process));
  EXPECT_EQ(alive, 1);
  simulation.Kill(process);
  EXPECT_FALSE(simulation.Alive(process));
  simulation.Run();
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(simulation.Now(), kStart + 1s) << "the dead do not sleep on";
  EXPECT_EQ(simulation.stuck(), 0u);
}

TEST(SimulationKill, ProcessThatWaitsForASignal) {
  Simulation simulation(1);
  int alive = 0;
  std::mutex mutex;
  auto signal = simulation.MakeSignal();
  auto process = simulation.Start("waiter", [&] {
    Witness witness(simulation, alive);
    std::unique_lock lock(mutex);
    signal->Wait(lock);
    ADD_FAILURE() << "a killed process went on";
  });
  simulation.Run();
  simulation.Kill(process);
  simulation.Run();
  EXPECT_EQ(alive, 0);
  EXPECT_TRUE(mutex.try_lock()) << "the dead hold no lock";
  mutex.unlock();
  signal->NotifyAll();
  simulation.Run();
}

TEST(SimulationKill, ProcessThatKillsItself) {
  Simulation simulation(1);
  int alive = 0;
  simulation.Start("suicide", [&] {
    Witness witness(simulation, alive);
    simulation.Kill(simulation.current());
    ADD_FAILURE() << "a killed process went on";
  });
  simulation.Run();
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(simulation.stuck(), 0u);
}

TEST(SimulationKill, ProcessThatHasNotBegun) {
  Simulation simulation(1);
  int alive = 0;
  auto witness = std::make_shared<Witness>(simulation, alive);
  auto process = simulation.Start("unborn", [witness] { ADD_FAILURE() << "a killed process began"; });
  simulation.Kill(process);
  witness.reset();
  EXPECT_EQ(alive, 1);
  simulation.Run();
  EXPECT_EQ(alive, 0) << "what the work had captured is kept";
}

TEST(SimulationKill, ChildrenDieWithIt) {
  Simulation simulation(1);
  int alive = 0, survived = 0;
  auto process = simulation.Start("parent", [&] {
    for (int i = 0; i < 10; ++i) {
      simulation.Spawn([&] {
        Witness child(simulation, alive);
        simulation.Spawn([&] {
          Witness grandchild(simulation, alive);
          simulation.SleepFor(1h);
          ++survived;
        });
        simulation.SleepFor(1h);
        ++survived;
      });
    }
  });
  simulation.Start("another", [&] {
    simulation.SleepFor(1h);
    ++survived;
  });
  simulation.RunUntil(kStart + 1s);
  EXPECT_EQ(alive, 20);
  EXPECT_TRUE(simulation.Alive(process)) << "its first fiber has ended, its children have not";
  simulation.Kill(process);
  simulation.Run();
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(survived, 1);
}

TEST(SimulationKill, TheYoungestGoFirst) {
  Simulation simulation(1);
  std::vector<int> order;
  struct Note {
    ~Note() { order.push_back(generation); }
    std::vector<int>& order;
    int generation;
  };
  std::function<void(int)> live = [&](int generation) {
    Note note{order, generation};
    if (generation < 5) simulation.Spawn([&, generation] { live(generation + 1); });
    simulation.SleepFor(1h);
  };
  auto process = simulation.Start("ancestor", [&] { live(0); });
  simulation.RunUntil(kStart + 1s);
  simulation.Kill(process);
  simulation.Run();
  EXPECT_THAT(order, testing::ElementsAre(5, 4, 3, 2, 1, 0));
}

TEST(SimulationKill, ChildrenAreGoneBeforeTheParentsVariablesThatTheyUse) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Simulation simulation(seed);
    auto process = simulation.Start("parent", [&] {
      auto shared = std::make_unique<int>(0);
      struct Touch {
        ~Touch() { --where; }
        int& where;
      };
      TaskGroup group(simulation);
      for (int i = 0; i < 5; ++i) {
        group.Spawn([&] {
          Touch touch{++*shared};
          simulation.SleepFor(1h);
        });
      }
      simulation.SleepFor(1min);
      // By its own hand for some seeds: then the oldest fiber is the one that runs.
      if (seed % 2 == 0) simulation.Kill(simulation.current());
      group.Wait();
    });
    simulation.RunUntil(kStart + 30min);
    simulation.Kill(process);
    simulation.Run();
    EXPECT_EQ(simulation.stuck(), 0u) << "seed " << seed;
  }
}

TEST(SimulationKill, OwnerOfATaskGroupThatWaitsInItsDestructor) {
  Simulation simulation(1);
  int went_on = 0, alive = 0;
  auto process = simulation.Start("owner", [&] {
    Witness witness(simulation, alive);
    {
      TaskGroup group(simulation);
      group.Spawn([&] {
        simulation.SleepFor(1h);
        ++went_on;
      });
    }  // waits here when the kill comes, inside a destructor that no exception may leave
    EXPECT_TRUE(simulation.Unwinding()) << "whoever runs on after that is told that it is dead";
    simulation.SleepFor(0s);
    ++went_on;
  });
  simulation.RunUntil(kStart + 1s);
  simulation.Kill(process);
  simulation.Run();
  EXPECT_EQ(went_on, 0);
  EXPECT_EQ(alive, 0) << "the owner was left behind instead of being unwound";
  EXPECT_EQ(simulation.stuck(), 0u);
}

TEST(SimulationKill, DestructorThatSleepsDoesNotEndTheProgram) {
  Simulation simulation(1);
  struct Lingering {
    ~Lingering() {
      for (int i = 0; i < 3; ++i) simulation.SleepFor(1min);
    }
    Simulation& simulation;
  };
  int went_on = 0;
  auto in_destructor = simulation.Start("in the destructor", [&] {
    {
      auto lingering = std::make_unique<Lingering>(simulation);
    }
    simulation.SleepFor(0s);
    ++went_on;
  });
  auto before_it = simulation.Start("before the destructor", [&] {
    Lingering lingering{simulation};
    simulation.SleepFor(1h);
    ++went_on;
  });
  simulation.RunUntil(kStart + 1s);
  simulation.Kill(in_destructor);
  simulation.Kill(before_it);
  simulation.Run();
  EXPECT_EQ(went_on, 0);
  EXPECT_EQ(simulation.Now(), kStart + 1s) << "the dead do not sleep";
}

TEST(SimulationKill, SignalMayBeGoneBeforeItsWaiters) {
  Simulation simulation(1);
  std::mutex mutex;
  std::unique_ptr<Signal> signal = simulation.MakeSignal();
  auto process = simulation.Start("old", [&] {
    std::unique_lock lock(mutex);
    signal->Wait(lock);
  });
  simulation.Run();
  simulation.Spawn([&] {
    simulation.Kill(process);
    signal.reset();
  });
  simulation.Run();
  EXPECT_EQ(simulation.stuck(), 0u);
}

TEST(SimulationKill, TheDeadStartNothing) {
  Simulation simulation(1);
  int started = 0;
  struct StartsOnItsWayOut {
    ~StartsOnItsWayOut() {
      simulation.Spawn([&count = started] { ++count; });
      simulation.Start("heir", [&count = started] { ++count; });
    }
    Simulation& simulation;
    int& started;
  };
  auto process = simulation.Start("founder", [&] {
    StartsOnItsWayOut last_will{simulation, started};
    simulation.SleepFor(1h);
  });
  simulation.RunUntil(kStart + 1s);
  simulation.Kill(process);
  simulation.Run();
  EXPECT_EQ(started, 0);
}

TEST(SimulationKill, IsPartOfTheFingerprintAndRepeatable) {
  auto run = [](uint64_t seed, Duration when) {
    Simulation simulation(seed);
    auto process = simulation.Start("victim", [&] {
      TaskGroup group(simulation);
      for (int i = 0; i < 4; ++i) {
        group.Spawn([&] {
          while (true) simulation.SleepFor(1ms);
        });
      }
    });
    simulation.Spawn([&] {
      simulation.SleepFor(when);
      simulation.Kill(process);
    });
    simulation.Run();
    return simulation.fingerprint();
  };
  EXPECT_EQ(run(1, 10ms), run(1, 10ms));
  EXPECT_NE(run(1, 10ms), run(1, 11ms));
  EXPECT_NE(run(1, 10ms), run(2, 10ms));
}

TEST(SimulationKill, SimulationThatEndsGivesBackWhatIsStillWaiting) {
  int alive = 0;
  {
    Simulation simulation(1);
    std::mutex mutex;
    auto signal = simulation.MakeSignal();
    simulation.Spawn([&] {
      Witness witness(simulation, alive);
      TaskGroup group(simulation);
      group.Spawn([&] {
        Witness child(simulation, alive);
        std::unique_lock lock(mutex);
        signal->Wait(lock);
      });
      simulation.SleepFor(1h);
    });
    auto unborn = std::make_shared<Witness>(simulation, alive);
    simulation.RunUntil(kStart + 1s);
    simulation.Spawn([unborn] {});
    unborn.reset();
    EXPECT_EQ(alive, 3);
  }
  EXPECT_EQ(alive, 0);
}

TEST(SimulationDeathTest, DestructorThatWaitsForKilledWorkForEverIsNamed) {
  EXPECT_DEATH(
      {
        struct WaitsForDone {
          ~WaitsForDone() {
            std::unique_lock lock(mutex);
            while (!done) signal->WaitInDestructor(lock);
          }
          std::mutex mutex;
          std::unique_ptr<Signal> signal;
          bool done = false;
        };
        Simulation simulation(1);
        simulation.Spawn([&] {
          WaitsForDone waits{{}, simulation.MakeSignal()};
          simulation.SleepFor(1h);
        });
        simulation.RunUntil(kStart + 1s);
      },
      "never count itself down");
}

}  // namespace
}  // namespace headrace
