// What every executor promises, on both of them; then what only threads do.
#include "base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <latch>
#include <set>
#include <thread>

#include "base/simulation.h"
#include "base/thread_executor.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;

struct Threads {
  ThreadExecutor executor;
  void Run(std::function<void()> body) { body(); }
};

struct Fibers {
  Simulation executor{17};
  void Run(std::function<void()> body) { executor.Run(std::move(body)); }
};

template <typename Kind>
class ExecutorTest : public testing::Test {
 protected:
  Kind kind_;
  Executor& executor_ = kind_.executor;
};

using Kinds = testing::Types<Threads, Fibers>;
TYPED_TEST_SUITE(ExecutorTest, Kinds);

TYPED_TEST(ExecutorTest, GroupWaitsForAllItsWork) {
  this->kind_.Run([&] {
    std::atomic<int> done = 0;
    TaskGroup group(this->executor_);
    for (int i = 0; i < 200; ++i) {
      group.Spawn([&] {
        this->executor_.clock().SleepFor(1ms);
        ++done;
      });
    }
    group.Wait();
    EXPECT_EQ(done, 200);
  });
}

TYPED_TEST(ExecutorTest, GroupWithoutWorkDoesNotWait) {
  this->kind_.Run([&] {
    TaskGroup group(this->executor_);
    group.Wait();
    group.Wait();
  });
}

TYPED_TEST(ExecutorTest, GroupCanBeUsedAgain) {
  this->kind_.Run([&] {
    std::atomic<int> done = 0;
    TaskGroup group(this->executor_);
    for (int round = 1; round <= 3; ++round) {
      group.Spawn([&] { ++done; });
      group.Wait();
      EXPECT_EQ(done, round);
    }
  });
}

TYPED_TEST(ExecutorTest, GroupsDestructorWaits) {
  this->kind_.Run([&] {
    std::atomic<int> done = 0;
    {
      TaskGroup group(this->executor_);
      for (int i = 0; i < 20; ++i) {
        group.Spawn([&] {
          this->executor_.clock().SleepFor(2ms);
          ++done;
        });
      }
    }
    EXPECT_EQ(done, 20);
  });
}

TYPED_TEST(ExecutorTest, WhatWorkCapturedIsGoneWhenTheGroupHasWaited) {
  this->kind_.Run([&] {
    for (int round = 0; round < 50; ++round) {
      auto captured = std::make_shared<int>(1);
      std::weak_ptr<int> watch = captured;
      TaskGroup group(this->executor_);
      group.Spawn([captured = std::move(captured)] {});
      group.Wait();
      EXPECT_TRUE(watch.expired());
    }
  });
}

TYPED_TEST(ExecutorTest, WorkCanSpawnAndWaitForWork) {
  this->kind_.Run([&] {
    std::atomic<int> done = 0;
    TaskGroup group(this->executor_);
    for (int i = 0; i < 10; ++i) {
      group.Spawn([&] {
        TaskGroup inner(this->executor_);
        for (int k = 0; k < 10; ++k) inner.Spawn([&] { ++done; });
        inner.Wait();
        ++done;
      });
    }
    group.Wait();
    EXPECT_EQ(done, 110);
  });
}

TYPED_TEST(ExecutorTest, SignalsCarryABoundedQueue) {
  this->kind_.Run([&] {
    constexpr int kItems = 2000;
    constexpr size_t kCapacity = 4;
    std::mutex mutex;
    auto changed = this->executor_.MakeSignal();
    std::deque<int> queue;
    bool closed = false;
    std::multiset<int> received;
    TaskGroup group(this->executor_);
    for (int consumer = 0; consumer < 3; ++consumer) {
      group.Spawn([&] {
        std::unique_lock lock(mutex);
        while (true) {
          while (queue.empty() && !closed) changed->Wait(lock);
          if (queue.empty()) return;
          received.insert(queue.front());
          queue.pop_front();
          changed->NotifyAll();
        }
      });
    }
    for (int i = 0; i < kItems; ++i) {
      std::unique_lock lock(mutex);
      while (queue.size() >= kCapacity) changed->Wait(lock);
      queue.push_back(i);
      changed->NotifyAll();
    }
    {
      std::lock_guard lock(mutex);
      closed = true;
      changed->NotifyAll();
    }
    group.Wait();
    ASSERT_EQ(received.size(), static_cast<size_t>(kItems));
    for (int i = 0; i < kItems; ++i) ASSERT_EQ(received.count(i), 1u);
  });
}

TYPED_TEST(ExecutorTest, SignalWaitsUntilTheTimeAndNotLess) {
  this->kind_.Run([&] {
    std::mutex mutex;
    auto signal = this->executor_.MakeSignal();
    Clock& clock = this->executor_.clock();
    Instant until = clock.Now() + 5ms;
    std::unique_lock lock(mutex);
    while (signal->WaitUntil(lock, until)) {
    }
    EXPECT_GE(clock.Now(), until);
    EXPECT_FALSE(signal->WaitUntil(lock, until - 1s)) << "the time was over before";
    EXPECT_TRUE(lock.owns_lock());
  });
}

TEST(ThreadExecutor, ThousandsOfTasks) {
  std::atomic<int> done = 0;
  {
    ThreadExecutor executor(16);
    for (int i = 0; i < 5000; ++i) executor.Spawn([&] { ++done; });
  }
  EXPECT_EQ(done, 5000) << "the destructor waits for all of it";
}

TEST(ThreadExecutor, WorkThatBlocksDoesNotHoldUpOthers) {
  ThreadExecutor executor;
  TaskGroup group(executor);
  std::mutex mutex;
  auto all_here = executor.MakeSignal();
  int here = 0;
  // Each of them waits for all the others: with fewer threads than that, this would never end.
  for (int i = 0; i < 100; ++i) {
    group.Spawn([&] {
      std::unique_lock lock(mutex);
      if (++here == 100) all_here->NotifyAll();
      while (here < 100) all_here->Wait(lock);
    });
  }
  group.Wait();
  EXPECT_EQ(here, 100);
}

TEST(ThreadExecutor, NoMoreThreadsThanAllowedAndTheRestWaitsItsTurn) {
  std::atomic<int> running = 0, most = 0, done = 0;
  std::latch three(3);
  {
    ThreadExecutor executor(3);
    for (int i = 0; i < 60; ++i) {
      executor.Spawn([&, i] {
        int now = ++running;
        // The first three meet: as many threads as are allowed, however busy the machine is.
        if (i < 3) three.arrive_and_wait();
        int before = most;
        while (now > before && !most.compare_exchange_weak(before, now)) {
        }
        std::this_thread::sleep_for(1ms);
        --running;
        ++done;
      });
    }
  }
  EXPECT_EQ(done, 60);
  EXPECT_EQ(most, 3);
}

TEST(ThreadExecutor, IdleThreadsAreUsedAgain) {
  ThreadExecutor executor;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 200; ++i) {
    TaskGroup group(executor);
    group.Spawn([&] {
      std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
    group.Wait();
    // A thread counts as idle only a moment after its work is done; on a busy processor the next piece may find none.
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_LT(threads.size(), 100u);
}

TEST(ThreadExecutor, OneIdleThreadIsNotTakenForTwo) {
  ThreadExecutor executor;
  for (int round = 0; round < 200; ++round) {
    std::mutex mutex;
    auto met = executor.MakeSignal();
    int here = 0;
    TaskGroup group(executor);
    // Each waits for the other, so the second needs a thread of its own even if the first has just been given the idle one.
    for (int i = 0; i < 2 + round % 3; ++i) {
      group.Spawn([&, all = 2 + round % 3] {
        std::unique_lock lock(mutex);
        if (++here == all) met->NotifyAll();
        while (here < all) met->Wait(lock);
      });
    }
  }
}

TEST(ThreadExecutor, WorkMaySpawnMoreWhileTheExecutorCloses) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> done = 0;
    std::function<void(int)> tree;
    {
      ThreadExecutor executor(4);
      tree = [&](int depth) {
        ++done;
        if (depth == 0) return;
        for (int i = 0; i < 2; ++i) executor.Spawn([&tree, depth] { tree(depth - 1); });
      };
      executor.Spawn([&] { tree(6); });
    }
    EXPECT_EQ(done, 127);
  }
}

TEST(ThreadExecutor, WorkMayWaitForItsOwnWorkWhileTheExecutorCloses) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> done = 0;
    {
      ThreadExecutor executor(2);
      executor.Spawn([] {});  // a thread that is idle, and ends, when the executor closes
      executor.Spawn([&] {
        std::this_thread::sleep_for(1ms);
        TaskGroup group(executor);
        group.Spawn([&] { ++done; });
        group.Wait();
        ++done;
      });
    }
    EXPECT_EQ(done, 2);
  }
}

}  // namespace
}  // namespace headrace
