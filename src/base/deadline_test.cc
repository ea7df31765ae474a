#include "headrace/deadline.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/simulation.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, DefaultNeverPasses) {
  Simulation clock(1);
  clock.Run([&] {
    Deadline deadline;
    EXPECT_TRUE(deadline.never());
    clock.SleepFor(1000h);
    EXPECT_TRUE(deadline.Check(clock, "waiting").ok());
    EXPECT_EQ(deadline.Remaining(clock), Duration::max());
  });
}

TEST(Deadline, PassesAtItsPointInTime) {
  Simulation clock(1);
  clock.Run([&] {
    Deadline deadline = Deadline::After(clock, 10s);
    EXPECT_EQ(deadline.Remaining(clock), 10s);
    clock.SleepFor(10s - 1ns);
    EXPECT_TRUE(deadline.Check(clock, "reading").ok());
    clock.SleepFor(1ns);
    EXPECT_EQ(deadline.Check(clock, "reading a/b").ToString(), "Timeout: reading a/b: out of time");
    clock.SleepFor(1h);
    EXPECT_EQ(deadline.Remaining(clock), 0s) << "never less than nothing";
  });
}

TEST(Deadline, AfterForEverIsNever) {
  Simulation clock(1);
  clock.Run([&] {
    clock.SleepFor(1h);
    EXPECT_TRUE(Deadline::After(clock, Duration::max()).never());
  });
}

TEST(Deadline, NotAfterOnlyShortens) {
  Simulation clock(1);
  std::stop_source stop;
  Deadline deadline = Deadline::After(clock, 10s, stop.get_token());
  EXPECT_EQ(deadline.NotAfter(clock.Now() + 3s).at(), clock.Now() + 3s);
  EXPECT_EQ(deadline.NotAfter(clock.Now() + 30s).at(), clock.Now() + 10s);
  stop.request_stop();
  EXPECT_EQ(deadline.NotAfter(clock.Now() + 3s).Check(clock, "x").code(), Code::kCancelled) << "the caller is still the same";
}

TEST(Deadline, StopIsSaidEvenIfTheTimeIsOverToo) {
  Simulation clock(1);
  clock.Run([&] {
    std::stop_source stop;
    Deadline only_stop = Deadline::OnlyStop(stop.get_token());
    EXPECT_TRUE(only_stop.never());
    EXPECT_TRUE(only_stop.Check(clock, "x").ok());
    Deadline both = Deadline::After(clock, 1s, stop.get_token());
    clock.SleepFor(2s);
    stop.request_stop();
    EXPECT_EQ(only_stop.Check(clock, "x").ToString(), "Cancelled: x: asked to stop");
    EXPECT_EQ(both.Check(clock, "x").code(), Code::kCancelled);
  });
}

TEST(Deadline, SleepTakesItsTime) {
  Simulation clock(1);
  clock.Run([&] {
    EXPECT_TRUE(Deadline::After(clock, 10s).Sleep(clock, 9s, "backing off").ok());
    EXPECT_EQ(clock.Now(), Instant{} + 9s);
    EXPECT_TRUE(Deadline().Sleep(clock, 1h, "backing off").ok());
    EXPECT_EQ(clock.Now(), Instant{} + 9s + 1h);
  });
}

TEST(Deadline, SleepThatWouldEndTooLateFailsAtOnce) {
  Simulation clock(1);
  clock.Run([&] {
    Deadline deadline = Deadline::After(clock, 10s);
    EXPECT_EQ(deadline.Sleep(clock, 10s, "backing off").code(), Code::kTimeout);
    EXPECT_EQ(deadline.Sleep(clock, Duration::max(), "backing off").code(), Code::kTimeout);
    EXPECT_EQ(clock.Now(), Instant{}) << "the time is lost anyway: no reason to spend it";
  });
}

TEST(Deadline, SleepEndsWhenAskedToStop) {
  Simulation clock(1);
  std::stop_source stop;
  clock.Spawn([&] {
    EXPECT_EQ(Deadline::OnlyStop(stop.get_token()).Sleep(clock, 1h, "backing off").code(), Code::kCancelled);
    EXPECT_EQ(clock.Now(), Instant{} + 2s);
  });
  clock.Spawn([&] {
    clock.SleepFor(2s);
    stop.request_stop();
  });
  clock.Run();
}

TEST(RealClock, GoesForwardAndSleepsAtLeastAsLongAsAsked) {
  Clock& clock = RealClock();
  Instant before = clock.Now();
  clock.SleepFor(2ms);
  EXPECT_GE(clock.Now() - before, 2ms);
  clock.SleepUntil(before);  // the past: returns at once
  EXPECT_GT(clock.WallNow().time_since_epoch(), 24h * 365 * 50);
}

TEST(RealClock, StopEndsASleepWithoutEnd) {
  std::stop_source stop;
  stop.request_stop();
  RealClock().SleepUntil(Instant::max(), stop.get_token());
  RealClock().SleepFor(Duration::max(), stop.get_token());

  std::stop_source later;
  std::jthread other([&] { later.request_stop(); });
  RealClock().SleepUntil(Instant::max(), later.get_token());
}

}  // namespace
}  // namespace headrace
