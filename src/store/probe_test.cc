#include "store/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "base/text.h"
#include "base/thread_executor.h"
#include "store/faulty_store.h"
#include "store/memory_store.h"
#include "store/slow_store.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;

// A store that takes time, so that requests overlap, with faults on top of it.
class ProbeTest : public testing::Test {
 protected:
  ProbeTest() { EXPECT_TRUE(memory_->Put("somebody/elses", std::string("object"), Deadline()).ok()); }

  std::shared_ptr<FaultyStore> Faulty(FaultPlan plan) {
    return std::make_shared<FaultyStore>(slow_, std::move(plan), simulation_, Random(seed_).Fork("faults"));
  }
  ProbeReport Probed(ObjectStore& store, Duration time = minutes(60), std::stop_token stop = {}) {
    ProbeReport report;
    simulation_.Run([&] {
      report = Probe(store, options_, Deadline::After(simulation_, time, std::move(stop)), simulation_, Random(seed_));
    });
    EXPECT_EQ(simulation_.stuck(), 0u);
    return report;
  }
  static std::string Summary(const ProbeReport& report) {
    std::string all;
    for (const ProbeCheck& check : report.checks) {
      all += Cat(check.verdict == ProbeCheck::kPassed   ? "passed "
                 : check.verdict == ProbeCheck::kFailed ? "FAILED "
                                                        : "untested ",
                 check.name, ": ", check.seen, "\n");
    }
    return Cat(all, report.untested.ToString(), "; ", report.left_behind.ToString());
  }
  static const ProbeCheck& Check(const ProbeReport& report, std::string_view name) {
    return *std::ranges::find(report.checks, name, &ProbeCheck::name);
  }
  std::vector<std::string> WhatIsThere() {
    auto all = ListAll(*memory_, "", Deadline());
    std::vector<std::string> keys;
    for (const ListEntry& entry : *all) keys.push_back(entry.key);
    return keys;
  }
  void ExpectCleanedUp(const ProbeReport& report) {
    EXPECT_TRUE(report.left_behind.ok()) << report.left_behind.ToString();
    EXPECT_THAT(WhatIsThere(), testing::ElementsAre("somebody/elses"));
  }
  // The property `name` does not hold, and the reason contains these words.
  void ExpectRefused(const FaultPlan& plan, std::string_view name, const std::string& words) {
    for (bool side_by_side : modes_) {
      options_.side_by_side = side_by_side;
      ++seed_;  // and so another prefix than the one before, which may have left something behind
      auto store = Faulty(plan);
      ProbeReport report = Probed(*store);
      EXPECT_FALSE(report.safe());
      ASSERT_NE(report.broken(), nullptr) << Summary(report);
      EXPECT_EQ(report.broken()->name, name) << Summary(report);
      EXPECT_THAT(report.broken()->seen, HasSubstr(words));
      EXPECT_TRUE(report.untested.ok()) << report.untested.ToString();
    }
  }
  void ExpectSafe(const FaultPlan& plan) {
    for (bool side_by_side : modes_) {
      options_.side_by_side = side_by_side;
      ++seed_;  // and so another prefix than the one before, which may have left something behind
      auto store = Faulty(plan);
      ProbeReport report = Probed(*store);
      EXPECT_TRUE(report.safe()) << "seed " << seed_ << "\n" << Summary(report);
      store->Heal();
      simulation_.Run([&] { store->Drain(); });
    }
  }

  uint64_t seed_ = 1;
  std::vector<bool> modes_ = {true, false};  // of `side_by_side`
  Simulation simulation_{1};
  ProbeOptions options_{.large_bytes = 70'000};
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("m", simulation_);
  std::shared_ptr<SlowStore> slow_ = std::make_shared<SlowStore>(memory_, SlowOptions{}, simulation_, Random(2));
};

TEST_F(ProbeTest, ATrueStorePassesEveryCheckAndIsLeftAsItWas) {
  ProbeReport report = Probed(*slow_);
  EXPECT_TRUE(report.safe()) << Summary(report);
  EXPECT_EQ(report.broken(), nullptr);
  EXPECT_EQ(report.checks.size(), 10u);
  EXPECT_EQ(report.store, "mem://m");
  for (const ProbeCheck& check : report.checks) {
    EXPECT_GT(check.took, Duration::zero()) << check.name;
    EXPECT_FALSE(check.seen.empty()) << check.name;
  }
  ExpectCleanedUp(report);
}

TEST_F(ProbeTest, AllChecksAtOnceTakeAsLongAsTheLongest) {
  const auto run = [&](bool side_by_side) {
    options_.side_by_side = side_by_side;
    const Instant began = simulation_.Now();
    ProbeReport report = Probed(*slow_);
    EXPECT_TRUE(report.safe()) << Summary(report);
    ExpectCleanedUp(report);
    Duration longest{};
    for (const ProbeCheck& check : report.checks) longest = std::max(longest, check.took);
    return std::pair(simulation_.Now() - began, longest);
  };
  EXPECT_GT(run(false).first, 3 * run(false).second);
  EXPECT_LT(run(true).first, 3 * run(true).second / 2);
}

TEST_F(ProbeTest, TellsWhatItIsDoing) {
  std::vector<std::string> done;
  int most = 0;
  options_.on_check = [&](const ProbeCheck& check) { done.push_back(check.name); };
  options_.on_progress = [&](std::string_view title, int, int of) {
    if (title == "exactly one of many creators at once wins") most = of;
  };
  ProbeReport report = Probed(*slow_);
  EXPECT_EQ(done.size(), report.checks.size());
  EXPECT_EQ(most, 20);
}

// Trouble is not a lie: lost, late and repeated answers, refusals, 409, 412 without cause.
TEST_F(ProbeTest, AStoreThatMerelyHasTroublePasses) {
  for (seed_ = 1; seed_ <= 8; ++seed_) ExpectSafe(FaultPlan::Trouble(0.01));
}

TEST_F(ProbeTest, AStoreThatLosesEveryThirdAnswerPasses) {
  FaultPlan plan;
  for (StoreOp op : kAllStoreOps) plan.Sometimes(op, 0.33, Fault::FailAfter());
  ExpectSafe(plan);
}

TEST_F(ProbeTest, AStoreThatAsksForFewerRequestsForAWhilePasses) {
  FaultPlan plan;
  for (StoreOp op : {StoreOp::kGet, StoreOp::kCreate, StoreOp::kPut})
    plan.FirstFew(op, 10, Fault::FailBefore(Code::kThrottled, seconds(1)));
  ExpectSafe(plan);
}

TEST_F(ProbeTest, RefusesShortBytes) {
  ExpectRefused(FaultPlan().Always(StoreOp::kGet, Fault::Truncate()), "bytes", "bytes came back instead of");
  ExpectRefused(FaultPlan().Always(StoreOp::kCreate, Fault::Truncate()), "bytes", "bytes came back instead of");
}

TEST_F(ProbeTest, RefusesFlippedBytes) {
  ExpectRefused(FaultPlan().Always(StoreOp::kGet, Fault::Flip()), "bytes", "came back wrong");
  ExpectRefused(FaultPlan().Always(StoreOp::kCreate, Fault::Flip()), "bytes", "came back wrong");
}

TEST_F(ProbeTest, RefusesAStoreThatIgnoresRanges) {
  ExpectRefused(FaultPlan().Always(StoreOp::kGet, Fault::IgnoreRange()), "ranges", "asked for bytes=0-0, 100000 bytes came back");
}

TEST_F(ProbeTest, RefusesStaleReads) {
  modes_ = {false};  // which check meets which of the faults depends on their order
  Fault stale = Fault::StaleRead(seconds(2));
  ExpectRefused(FaultPlan().Always(StoreOp::kGet, stale), "read_after_write", "right after it was written: it was not found");
  // The first check makes 50 gets. The second version of an object is read as the first one, in two of the trials.
  ExpectRefused(FaultPlan().Nth(StoreOp::kGet, 52, stale).Nth(StoreOp::kGet, 54, stale), "read_after_replace",
                "old bytes after an object was replaced");
  ExpectRefused(FaultPlan().Always(StoreOp::kDelete, Fault::Drop()), "read_after_delete", "after it was deleted");
}

TEST_F(ProbeTest, OneOddAnswerIsASuspicionAndNoFinding) {
  modes_ = {false};  // which check meets which of the faults depends on their order
  ExpectSafe(FaultPlan().Nth(StoreOp::kGet, 52, Fault::StaleRead(seconds(2))));
}

TEST_F(ProbeTest, RefusesAStoreThatIgnoresTheCondition) {
  ExpectRefused(FaultPlan().Always(StoreOp::kCreate, Fault::IgnoreCondition()), "create", "replaced an object although");
}

TEST_F(ProbeTest, RefusesAStoreThatTellsTwoThatTheyCreated) {
  ExpectRefused(FaultPlan().Always(StoreOp::kCreate, Fault::AcceptTwo()), "create", "told a second creator");
}

TEST_F(ProbeTest, RefusesTwoWinnersOfARace) {
  ExpectRefused(FaultPlan().Always(StoreOp::kCreate, Fault::RacyCreate(milliseconds(20))), "race",
                "creators of the same key (race 1 of 20)");
}

TEST_F(ProbeTest, RefusesTwoWinnersOfARaceAlsoIfItIsRare) {
  // One create in a hundred is let through.
  ExpectRefused(FaultPlan().Add({.fault = Fault::AcceptTwo(), .op = StoreOp::kCreate, .first = 100, .probability = 0.01}), "race",
                "the store accepted two creators of the same key (race");
}

TEST_F(ProbeTest, RefusesACreateThatDidNothing) {
  ExpectRefused(FaultPlan().Always(StoreOp::kCreate, Fault::Drop()), "read_after_write", "it was not found");
}

TEST_F(ProbeTest, RefusesListsThatMissEntries) {
  ExpectRefused(FaultPlan().Nth(StoreOp::kList, 5, Fault::LoseEntries()), "lists", "misses 1 of");
  ExpectRefused(FaultPlan().Always(StoreOp::kList, Fault::StaleList(milliseconds(200))), "lists",
                "a list right after the writes misses");
}

TEST_F(ProbeTest, RefusesAStoreThatMixesUpKeys) {
  ExpectRefused(FaultPlan().Always(Fault::PlusIsSpace()), "keys", "for another one");
}

TEST_F(ProbeTest, RefusesDeletesThatDoNothing) {
  ExpectRefused(FaultPlan().Add({.fault = Fault::Drop(), .op = StoreOp::kDelete, .first = 11}), "deletes", "are still there");
}

TEST_F(ProbeTest, RefusesAStoreWithoutConditionalPuts) {
  ExpectRefused(FaultPlan().Always(StoreOp::kCreate, Fault::Refuse(Code::kUnsupported)), "read_after_write", "refused");
}

TEST_F(ProbeTest, ARequestThatAlwaysFailsIsAnAnswerIfTheStoreIsWellOtherwise) {
  ExpectRefused(FaultPlan().Add({.fault = Fault::FailBefore(), .op = StoreOp::kGet, .first = 11}), "read_after_write",
                "no answer");
}

TEST_F(ProbeTest, WithoutPermissionNothingIsSaidAboutSafety) {
  for (StoreOp op : {StoreOp::kGet, StoreOp::kCreate, StoreOp::kList}) {
    auto store = Faulty(FaultPlan().Always(op, Fault::Refuse(Code::kDenied)));
    ProbeReport report = Probed(*store);
    EXPECT_FALSE(report.safe());
    EXPECT_EQ(report.broken(), nullptr) << Summary(report);
    EXPECT_EQ(report.untested.code(), Code::kDenied);
    EXPECT_THAT(report.untested.message(), HasSubstr("cannot probe mem://m: "));
    EXPECT_THAT(report.untested.message(), HasSubstr("the credentials need all four"));
    ExpectCleanedUp(report);
  }
}

TEST_F(ProbeTest, WhatCannotBeRemovedIsSaid) {
  auto store = Faulty(FaultPlan().Always(StoreOp::kDelete, Fault::Refuse(Code::kDenied)));
  ProbeReport report = Probed(*store);
  EXPECT_EQ(report.untested.code(), Code::kDenied);
  EXPECT_THAT(report.left_behind.message(), HasSubstr("mem://m/headrace-probe-"));
  EXPECT_THAT(report.left_behind.message(), HasSubstr("please remove it"));
}

TEST_F(ProbeTest, AStoreThatIsNotThereIsGivenUpSoon) {
  auto store = Faulty(FaultPlan().Always(Fault::FailBefore()));
  Instant began = simulation_.Now();
  ProbeReport report = Probed(*store);
  EXPECT_EQ(report.untested.code(), Code::kUnavailable);
  EXPECT_EQ(report.broken(), nullptr);
  EXPECT_LT(simulation_.Now() - began, seconds(5));
}

TEST_F(ProbeTest, AStoreThatGoesAwayHalfwayIsUntested) {
  auto store = Faulty(FaultPlan().Add({.fault = Fault::FailBefore(), .first = 120}));
  ProbeReport report = Probed(*store, minutes(10));
  EXPECT_EQ(report.untested.code(), Code::kUnavailable) << Summary(report);
  EXPECT_EQ(report.broken(), nullptr) << Summary(report);
  EXPECT_EQ(Check(report, "read_after_write").verdict, ProbeCheck::kPassed);
  EXPECT_EQ(report.checks.back().verdict, ProbeCheck::kUntested);
}

TEST_F(ProbeTest, CleansUpWhenItIsStoppedAtAnyMoment) {
  for (int ms : {10, 300, 1000, 3000, 8000}) {
    std::stop_source stop;
    simulation_.Spawn([&] {
      simulation_.SleepFor(milliseconds(ms));
      stop.request_stop();
    });
    ProbeReport report = Probed(*slow_, minutes(10), stop.get_token());
    EXPECT_EQ(report.untested.code(), Code::kCancelled) << "after " << ms << " ms";
    EXPECT_EQ(report.broken(), nullptr) << Summary(report);
    ExpectCleanedUp(report);
  }
}

TEST_F(ProbeTest, RunsOutOfTimeWithoutAVerdict) {
  for (int s : {1, 2, 3, 5, 7}) {
    ProbeReport report = Probed(*slow_, seconds(s));
    EXPECT_FALSE(report.safe());
    EXPECT_EQ(report.broken(), nullptr) << Summary(report);
    EXPECT_EQ(report.untested.code(), Code::kTimeout) << Summary(report);
    ExpectCleanedUp(report);
  }
}

TEST_F(ProbeTest, AStoreThatFailsUntilTheTimeIsOverIsUntested) {
  for (int s : {2, 5, 9}) {
    auto store = Faulty(FaultPlan().Always(StoreOp::kPut, Fault::FailBefore()).Always(StoreOp::kCreate, Fault::FailBefore()));
    ProbeReport report = Probed(*store, seconds(s));
    EXPECT_EQ(report.broken(), nullptr) << Summary(report);
    EXPECT_EQ(report.untested.code(), Code::kTimeout) << Summary(report);
  }
}

TEST_F(ProbeTest, AStreamIsRefusedInWordsForThePersonWhoWantedIt) {
  auto store = Faulty(FaultPlan().Always(StoreOp::kCreate, Fault::RacyCreate(milliseconds(1))));
  Status status;
  options_.racers = 2;
  simulation_.Run([&] { status = RequireSafe(*store, options_, Deadline(), simulation_, Random(9)); });
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(),
              testing::MatchesRegex(
                  "cannot commit to mem://m: the store accepted two creators of the same key \\(race [0-9]+ of 20\\)\\. "
                  "Headrace needs create-if-absent to be atomic\\. "
                  "`headrace probe mem://m` shows what this store does\\."));
  simulation_.Run([&] { status = RequireSafe(*slow_, options_, Deadline(), simulation_, Random(9)); });
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(ProbeThreads, PassesOnThreads) {
  ThreadExecutor executor;
  auto memory = std::make_shared<MemoryStore>("t");
  ProbeReport report = Probe(*memory, {}, Deadline::After(RealClock(), minutes(1)), executor, Random(3));
  EXPECT_TRUE(report.safe()) << report.untested.ToString() << (report.broken() ? report.broken()->seen : "");
  auto left = ListAll(*memory, "", Deadline());
  EXPECT_THAT(*left, IsEmpty());
}

TEST(ProbeThreads, PassesOnFewerThreadsThanRacers) {
  ThreadExecutor executor(4);
  auto memory = std::make_shared<MemoryStore>("t");
  // They wait in vain for the fifth to come to the starting line, and race without it.
  ProbeOptions options{.racers = 5, .rounds = 1, .large_bytes = 1000};
  EXPECT_TRUE(Probe(*memory, options, Deadline(), executor, Random(3)).safe());
}

}  // namespace
}  // namespace headrace
