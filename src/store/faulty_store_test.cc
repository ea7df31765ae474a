#include "store/faulty_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "base/skewed_clock.h"
#include "base/text.h"
#include "base/thread_executor.h"
#include "store/memory_store.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

const Deadline kNever;

class FaultyStoreTest : public testing::Test {
 protected:
  FaultyStore& Use(FaultPlan plan) {
    store_ = std::make_shared<FaultyStore>(memory_, std::move(plan), simulation_, Random(1));
    return *store_;
  }
  std::string Held(const std::string& key) { return Text(memory_->Get(key, kNever)); }
  static std::string Text(const Result<std::optional<Object>>& got) {
    if (!got.ok()) return got.status().ToString();
    return *got ? (*got)->bytes.ToString() : "nothing";
  }
  std::string Create(const std::string& text) {
    auto put = store_->PutIfAbsent("k", Body(text), kNever);
    if (!put.ok()) return Cat("error ", CodeName(put.code()));
    if (put->kind == PutOutcome::kUnknown) return Cat("unknown ", CodeName(put->reason.code()));
    return put->kind == PutOutcome::kCreated ? "created" : "exists";
  }
  std::vector<std::string> Keys() {
    auto all = ListAll(*store_, "", kNever);
    std::vector<std::string> keys;
    for (const ListEntry& entry : *all) keys.push_back(entry.key);
    return keys;
  }

  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("m", simulation_);
  std::shared_ptr<FaultyStore> store_;
};

TEST_F(FaultyStoreTest, WithoutAPlanItIsTheStoreBeneath) {
  Use({});
  EXPECT_EQ(Create("v"), "created");
  EXPECT_EQ(Create("w"), "exists");
  EXPECT_EQ(Text(store_->Get("k", kNever)), "v");
  EXPECT_THAT(Keys(), ElementsAre("k"));
  EXPECT_EQ(store_->Describe("k"), "mem://m/k");
  EXPECT_EQ(store_->struck(), 0u);
}

TEST_F(FaultyStoreTest, ARefusalDoesNothingAndIsCertain) {
  Use(FaultPlan().Always(Fault::Refuse(Code::kThrottled, seconds(3))));
  EXPECT_EQ(Create("v"), "error Throttled");
  EXPECT_EQ(Held("k"), "nothing");
  Status status = store_->Put("k", std::string("v"), kNever);
  EXPECT_EQ(status.retry_after(), seconds(3));
  EXPECT_THAT(status.message(), HasSubstr("put mem://m/k"));
}

TEST_F(FaultyStoreTest, FailingBeforeAndAfterDifferOnlyInTheEffect) {
  Use(FaultPlan().Always(Fault::FailBefore()));
  EXPECT_EQ(Create("v"), "unknown Unavailable");
  EXPECT_EQ(Held("k"), "nothing");
  Use(FaultPlan().Always(Fault::FailAfter()));
  EXPECT_EQ(Create("v"), "unknown Unavailable");
  EXPECT_EQ(Held("k"), "v");
  EXPECT_EQ(store_->Put("k", std::string("w"), kNever).code(), Code::kUnavailable);
  EXPECT_EQ(Held("k"), "w");
  EXPECT_EQ(store_->DeleteOne("k", kNever).code(), Code::kUnavailable);
  EXPECT_EQ(Held("k"), "nothing");
}

TEST_F(FaultyStoreTest, WhatLandsLateHappensAfterTheAnswer) {
  Use(FaultPlan().Nth(StoreOp::kCreate, 1, Fault::LandLate(seconds(2))));
  simulation_.Run([&] {
    std::string lent = "mine";
    auto put = store_->PutIfAbsent("k", Body(Bytes::Borrow(std::as_bytes(std::span(lent)))), kNever);
    lent = "gone";
    EXPECT_EQ(put->kind, PutOutcome::kUnknown);
    simulation_.SleepFor(milliseconds(1999));
    EXPECT_EQ(Held("k"), "nothing");
    store_->Drain();
    EXPECT_EQ(simulation_.Now() - Instant(), seconds(2));
    EXPECT_EQ(Held("k"), "mine");
  });
}

TEST_F(FaultyStoreTest, WhatIsOnItsWayOutlivesTheProcessThatSentIt) {
  store_ =
      std::make_shared<FaultyStore>(memory_, FaultPlan().Always(StoreOp::kPut, Fault::LandLate(seconds(2))), simulation_,
                                    Random(1), [&](std::function<void()> work) { simulation_.Start("wire", std::move(work)); });
  auto process = simulation_.Start("writer", [&] {
    EXPECT_FALSE(store_->Put("k", std::string("v"), kNever).ok());
    simulation_.SleepFor(seconds(1000));
  });
  simulation_.RunUntil(simulation_.Now() + seconds(1));
  simulation_.Kill(process);
  simulation_.Run();
  EXPECT_EQ(Held("k"), "v");
}

TEST_F(FaultyStoreTest, ARequestSentTwiceMeetsItself) {
  Use(FaultPlan().Always(StoreOp::kCreate, Fault::Twice()));
  EXPECT_EQ(Create("v"), "exists");
  EXPECT_EQ(Held("k"), "v");
}

TEST_F(FaultyStoreTest, ARepeatedPutOverwritesALaterOne) {
  Use(FaultPlan().Nth(StoreOp::kPut, 1, Fault::AgainLater(seconds(1))));
  simulation_.Run([&] {
    EXPECT_TRUE(store_->Put("k", std::string("old"), kNever).ok());
    EXPECT_TRUE(store_->Put("k", std::string("new"), kNever).ok());
    store_->Drain();
  });
  EXPECT_EQ(Held("k"), "old");
}

TEST_F(FaultyStoreTest, ExistsWithoutCause) {
  Use(FaultPlan().Nth(StoreOp::kCreate, 1, Fault::SayExists()));
  EXPECT_EQ(Create("v"), "exists");
  EXPECT_EQ(Held("k"), "nothing");
}

TEST_F(FaultyStoreTest, ASlowAnswerIsLostAtTheDeadline) {
  Use(FaultPlan().Always(Fault::Slow(seconds(5))));
  simulation_.Run([&] {
    auto put = store_->PutIfAbsent("k", std::string("v"), Deadline::After(simulation_, seconds(2)));
    EXPECT_EQ(put->kind, PutOutcome::kUnknown);
    EXPECT_EQ(put->reason.code(), Code::kTimeout);
    EXPECT_EQ(simulation_.Now() - Instant(), seconds(2));
    EXPECT_EQ(Text(store_->Get("k", kNever)), "v");
    EXPECT_EQ(simulation_.Now() - Instant(), seconds(7));
  });
}

TEST_F(FaultyStoreTest, BytesAreSpoiledWithoutASign) {
  ASSERT_TRUE(memory_->Put("k", std::string(100, 'a'), kNever).ok());
  Use(FaultPlan()
          .Nth(StoreOp::kGet, 1, Fault::Truncate())
          .Nth(StoreOp::kGet, 2, Fault::Flip())
          .Nth(StoreOp::kGet, 3, Fault::Flip()));
  auto half = store_->Get("k", kNever);
  EXPECT_EQ((*half)->bytes.size(), 50u);
  EXPECT_EQ((*half)->size, 50u);

  auto bits = [](std::span<const std::byte> bytes) {
    int wrong = 0;
    for (std::byte b : bytes) wrong += std::popcount(std::to_integer<unsigned>(b ^ std::byte('a')));
    return wrong;
  };
  auto flipped = store_->Get("k", kNever);
  EXPECT_EQ(bits((*flipped)->bytes.span()), 1);
  std::array<std::byte, 100> memory;
  ASSERT_TRUE(store_->Get("k", {.into = memory}, kNever).ok());
  EXPECT_EQ(bits(memory), 1);
  EXPECT_EQ(Text(store_->Get("k", kNever)), std::string(100, 'a')) << "what is stored was right all the time";
}

TEST_F(FaultyStoreTest, BytesAreSpoiledOnTheWayIn) {
  Use(FaultPlan().Nth(StoreOp::kPut, 1, Fault::Truncate()).Nth(StoreOp::kPut, 2, Fault::Flip()));
  ASSERT_TRUE(store_->Put("k", std::string("1234"), kNever).ok());
  EXPECT_EQ(Held("k"), "12");
  ASSERT_TRUE(store_->Put("k", std::string("1234"), kNever).ok());
  EXPECT_NE(Held("k"), "1234");
  EXPECT_EQ(Held("k").size(), 4u);
}

TEST_F(FaultyStoreTest, LiesAboutCreates) {
  ASSERT_TRUE(memory_->Put("k", std::string("first"), kNever).ok());
  Use(FaultPlan()
          .Nth(StoreOp::kCreate, 1, Fault::AcceptTwo())
          .Nth(StoreOp::kCreate, 2, Fault::IgnoreCondition())
          .Nth(StoreOp::kCreate, 3, Fault::Drop()));
  EXPECT_EQ(Create("second"), "created");
  EXPECT_EQ(Held("k"), "first");
  EXPECT_EQ(Create("third"), "created");
  EXPECT_EQ(Held("k"), "third");
  EXPECT_EQ(Create("fourth"), "created");
  EXPECT_EQ(Held("k"), "third");
}

TEST_F(FaultyStoreTest, ARacyCreateIsWrongOnlyForSeveral) {
  Use(FaultPlan().Always(StoreOp::kCreate, Fault::RacyCreate(milliseconds(10))));
  int created = 0;
  for (int i = 0; i < 3; ++i) simulation_.Spawn([&] { created += Create("v") == "created"; });
  simulation_.Run();
  EXPECT_EQ(created, 3);
  simulation_.Run([&] { EXPECT_EQ(Create("w"), "exists"); });
}

TEST_F(FaultyStoreTest, RangesAreIgnored) {
  ASSERT_TRUE(memory_->Put("k", std::string("0123456789"), kNever).ok());
  Use(FaultPlan().Always(StoreOp::kGet, Fault::IgnoreRange()));
  EXPECT_EQ(Text(store_->Get("k", {.range = ByteRange::At(2, 3)}, kNever)), "0123456789");
}

TEST_F(FaultyStoreTest, ReadsShowThePastForAWhile) {
  Use(FaultPlan().Always(StoreOp::kGet, Fault::StaleRead(seconds(1))));
  simulation_.Run([&] {
    EXPECT_TRUE(store_->Put("k", std::string("one"), kNever).ok());
    EXPECT_EQ(Text(store_->Get("k", kNever)), "nothing");
    simulation_.SleepFor(seconds(1));
    EXPECT_EQ(Text(store_->Get("k", kNever)), "one");
    EXPECT_TRUE(store_->Put("k", std::string("two"), kNever).ok());
    EXPECT_EQ(Text(store_->Get("k", {.range = ByteRange::At(1, 1)}, kNever)), "n");
    EXPECT_TRUE(store_->DeleteOne("k", kNever).ok());
    EXPECT_EQ(Text(store_->Get("k", kNever)), "two");
  });
}

TEST_F(FaultyStoreTest, ListsMissWhatIsNewForAWhile) {
  Use(FaultPlan().Always(StoreOp::kList, Fault::StaleList(seconds(1))));
  simulation_.Run([&] {
    EXPECT_EQ(Create("v"), "created");
    EXPECT_THAT(Keys(), ElementsAre());
    simulation_.SleepFor(seconds(1));
    EXPECT_THAT(Keys(), ElementsAre("k"));
  });
}

TEST_F(FaultyStoreTest, ALostEntryStaysLost) {
  for (const char* key : {"a", "b", "c", "d"}) ASSERT_TRUE(memory_->Put(key, std::string(), kNever).ok());
  Use(FaultPlan().Nth(StoreOp::kList, 1, Fault::LoseEntries()));
  std::vector<std::string> keys = Keys();
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_EQ(Keys(), keys);
}

TEST_F(FaultyStoreTest, PlusesBecomeSpaces) {
  Use(FaultPlan().Always(Fault::PlusIsSpace()));
  ASSERT_TRUE(store_->Put("a+b", std::string("v"), kNever).ok());
  EXPECT_EQ(Held("a b"), "v");
  EXPECT_EQ(Text(store_->Get("a+b", kNever)), "v");
}

TEST_F(FaultyStoreTest, RulesGoByKeyAndCountFromWhenTheyWereAdded) {
  Use({});
  EXPECT_TRUE(store_->Get("log/1", kNever).ok());
  store_->Add({.fault = Fault::FailBefore(), .op = StoreOp::kGet, .key_prefix = "log/", .first = 2, .last = 2});
  EXPECT_TRUE(store_->Get("log/1", kNever).ok());
  EXPECT_TRUE(store_->Get("data/1", kNever).ok());
  EXPECT_FALSE(store_->Get("log/1", kNever).ok());
  EXPECT_TRUE(store_->Get("log/1", kNever).ok());
  store_->Add({.fault = Fault::FailBefore()});
  EXPECT_FALSE(store_->Get("x", kNever).ok());
  store_->Heal();
  EXPECT_TRUE(store_->Get("x", kNever).ok());
}

TEST_F(FaultyStoreTest, TheSameSeedGivesTheSameFaults) {
  auto pattern = [&](uint64_t seed) {
    FaultyStore store(memory_, FaultPlan().Sometimes(StoreOp::kGet, 0.3, Fault::FailBefore()), simulation_, Random(seed));
    std::string seen;
    for (int i = 0; i < 200; ++i) seen += store.Get("k", kNever).ok() ? '.' : 'x';
    return seen;
  };
  EXPECT_EQ(pattern(7), pattern(7));
  EXPECT_NE(pattern(7), pattern(8));
  EXPECT_NEAR(static_cast<double>(std::ranges::count(pattern(7), 'x')), 60, 25);
}

TEST_F(FaultyStoreTest, WorksWithThreadsToo) {
  ThreadExecutor executor;
  FaultPlan plan;
  for (StoreOp op : kAllStoreOps) {
    plan.Sometimes(op, 0.1, Fault::LandLate(milliseconds(1), milliseconds(3))).Sometimes(op, 0.1, Fault::Slow(milliseconds(1)));
    plan.Sometimes(op, 0.1, Fault::FailAfter()).Sometimes(op, 0.1, Fault::Twice());
  }
  FaultyStore store(std::make_shared<MemoryStore>(), plan, executor, Random(1));
  TaskGroup group(executor);
  for (int t = 0; t < 4; ++t) {
    group.Spawn([&, t] {
      for (int i = 0; i < 20; ++i) {
        std::string key = Cat("k", t, "-", i);
        Deadline soon = Deadline::After(RealClock(), milliseconds(20));
        (void)store.Put(key, std::string("v"), soon);
        (void)store.Get(key, soon);
        (void)store.List({}, soon);
      }
    });
  }
  group.Wait();
  store.Drain();
  EXPECT_EQ(store.calls(StoreOp::kPut), 80u);
}

TEST(SkewedClock, ShiftsTheCalendarAndNothingElse) {
  Simulation simulation(1);
  SkewedClock clock(simulation, std::chrono::hours(-2));
  EXPECT_EQ(simulation.WallNow() - clock.WallNow(), std::chrono::hours(2));
  EXPECT_EQ(simulation.Now(), clock.Now());
  simulation.Run([&] { clock.SleepFor(seconds(5)); });
  EXPECT_EQ(simulation.Now() - Instant(), seconds(5));
}

}  // namespace
}  // namespace headrace
