#include "store/create.h"

#include <gtest/gtest.h>

#include "base/simulation.h"
#include "base/text.h"
#include "store/faulty_store.h"
#include "store/memory_store.h"
#include "store/retrying_store.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// One slot, our bytes, and whatever goes wrong on the way.
class CreateTest : public testing::Test {
 protected:
  Result<CreateResult> CreateMine(FaultPlan plan, Duration time = seconds(30)) {
    store_ = std::make_shared<FaultyStore>(memory_, std::move(plan), simulation_, Random(2));
    std::optional<Result<CreateResult>> result;
    simulation_.Run([&] {
      began_ = simulation_.Now();
      result = Create(*store_, "slot", Body(std::string("mine")), Deadline::After(simulation_, time, stop_.get_token()),
                      simulation_, random_);
      took_ = simulation_.Now() - began_;
    });
    return *std::move(result);
  }
  // The same, told by the word that the result is.
  std::string Outcome(FaultPlan plan, Duration time = seconds(30)) {
    Result<CreateResult> result = CreateMine(std::move(plan), time);
    if (!result.ok()) return Cat("error ", CodeName(result.code()));
    if (result->kind == CreateResult::kLost) return Cat("lost to ", result->winner.AsText());
    return result->kind == CreateResult::kCreated ? "created" : "unknown";
  }
  std::string Slot() {
    auto got = memory_->Get("slot", Deadline());
    return *got ? (*got)->bytes.ToString() : "nothing";
  }
  void RivalWasFirst() { ASSERT_TRUE(memory_->Put("slot", std::string("theirs"), Deadline()).ok()); }

  Simulation simulation_{1};
  Random random_{3};
  std::stop_source stop_;
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("m", simulation_);
  std::shared_ptr<FaultyStore> store_;
  Instant began_;
  Duration took_{};
};

TEST_F(CreateTest, CostsOneRequestWhenAllGoesWell) {
  EXPECT_EQ(Outcome({}), "created");
  EXPECT_EQ(store_->calls(StoreOp::kCreate), 1u);
  EXPECT_EQ(store_->calls(StoreOp::kGet), 0u);
}

TEST_F(CreateTest, ATakenSlotIsLostWithTheWinnersBytesInHand) {
  RivalWasFirst();
  EXPECT_EQ(Outcome({}), "lost to theirs");
  EXPECT_EQ(Slot(), "theirs");
}

TEST_F(CreateTest, ALostAnswerIsLookedUp) {
  EXPECT_EQ(Outcome(FaultPlan().Nth(StoreOp::kCreate, 1, Fault::FailAfter())), "created");
  EXPECT_EQ(store_->calls(StoreOp::kCreate), 1u) << "it was there: nothing had to be sent again";
}

TEST_F(CreateTest, ALostAnswerOfALostRaceIsLookedUpToo) {
  RivalWasFirst();
  EXPECT_EQ(Outcome(FaultPlan().Nth(StoreOp::kCreate, 1, Fault::FailAfter())), "lost to theirs");
}

TEST_F(CreateTest, ExistsMayBeOurOwnRequestSentTwice) {
  EXPECT_EQ(Outcome(FaultPlan().Nth(StoreOp::kCreate, 1, Fault::Twice())), "created");
}

TEST_F(CreateTest, ExistsWithNothingThereIsPutAgain) {
  EXPECT_EQ(Outcome(FaultPlan().FirstFew(StoreOp::kCreate, 3, Fault::SayExists())), "created");
  EXPECT_EQ(Slot(), "mine");
}

TEST_F(CreateTest, AConflictOrServerErrorThatDidNothingIsPutAgain) {
  for (Code code : {Code::kConflict, Code::kUnavailable, Code::kTimeout, Code::kThrottled}) {
    EXPECT_EQ(Outcome(FaultPlan().FirstFew(StoreOp::kCreate, 4, Fault::FailBefore(code))), "created") << CodeName(code);
    EXPECT_EQ(Slot(), "mine");
    ASSERT_TRUE(memory_->DeleteOne("slot", Deadline()).ok());
  }
}

TEST_F(CreateTest, ARequestThatLandsLateIsStillOurs) {
  // Absent when looked up, sent again, refused because the first one landed meanwhile.
  FaultPlan plan;
  plan.Nth(StoreOp::kCreate, 1, Fault::LandLate(milliseconds(5)));
  plan.FirstFew(StoreOp::kGet, 1, Fault::Slow(milliseconds(1)));
  EXPECT_EQ(Outcome(plan), "created");
  EXPECT_EQ(Slot(), "mine");
}

TEST_F(CreateTest, ACertainErrorIsOneAsLongAsNothingIsInDoubt) {
  EXPECT_EQ(Outcome(FaultPlan().Always(StoreOp::kCreate, Fault::Refuse(Code::kDenied))), "error Denied");
  EXPECT_EQ(store_->calls(StoreOp::kGet), 0u);
}

TEST_F(CreateTest, ACertainErrorAfterADoubtIsADoubt) {
  FaultPlan plan;
  plan.Nth(StoreOp::kCreate, 1, Fault::LandLate(seconds(10)));
  plan.Nth(StoreOp::kCreate, 2, Fault::Refuse(Code::kDenied));
  EXPECT_EQ(Outcome(plan), "unknown");
  EXPECT_EQ(Slot(), "mine") << "it landed after the denial: \"denied\" would have been wrong";
}

TEST_F(CreateTest, WhatCannotBeLookedUpInTimeIsUnknownAndSaysSo) {
  FaultPlan plan;
  plan.Nth(StoreOp::kCreate, 1, Fault::FailAfter());
  plan.Always(StoreOp::kGet, Fault::FailBefore());
  Result<CreateResult> result = CreateMine(plan, seconds(5));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->kind, CreateResult::kUnknown);
  EXPECT_EQ(result->reason.code(), Code::kOutcomeUnknown);
  EXPECT_NE(result->reason.message().find("mem://m/slot"), std::string::npos) << result->reason.message();
  EXPECT_NE(result->reason.message().find("keep what was staged"), std::string::npos) << result->reason.message();
  EXPECT_LE(took_, seconds(5));
  EXPECT_GT(took_, seconds(2)) << "it has to try for as long as there is time";
}

TEST_F(CreateTest, WithoutPermissionToLookNobodyWaitsForTheDeadline) {
  FaultPlan plan;
  plan.Nth(StoreOp::kCreate, 1, Fault::FailAfter());
  plan.Always(StoreOp::kGet, Fault::Refuse(Code::kDenied));
  EXPECT_EQ(Outcome(plan), "unknown");
  EXPECT_LT(took_, milliseconds(1));
}

TEST_F(CreateTest, StoppedBeforeItBeganNothingHappened) {
  stop_.request_stop();
  EXPECT_EQ(Outcome({}), "error Cancelled");
  EXPECT_EQ(store_->calls(StoreOp::kCreate), 0u);
}

TEST_F(CreateTest, ComesBackWhenTheStoreAskedForIt) {
  EXPECT_EQ(Outcome(FaultPlan().Nth(StoreOp::kCreate, 1, Fault::FailBefore(Code::kThrottled, seconds(7)))), "created");
  EXPECT_GE(took_, seconds(7));
}

TEST_F(CreateTest, LooksAtOnceIfTheStoreAskedForMoreTimeThanThereIs) {
  RivalWasFirst();
  EXPECT_EQ(Outcome(FaultPlan().Nth(StoreOp::kCreate, 1, Fault::FailBefore(Code::kThrottled, seconds(60)))), "lost to theirs");
}

TEST_F(CreateTest, ATornReadIsNotTakenForARival) {
  class Torn final : public StoreDecorator {
   public:
    using StoreDecorator::StoreDecorator;
    Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
      auto got = StoreDecorator::Get(key, options, deadline);
      if (reads_++ == 0) (*got)->bytes = (*got)->bytes.Slice(0, 2);
      return got;
    }
    int reads_ = 0;
  };
  auto faulty =
      std::make_shared<FaultyStore>(memory_, FaultPlan().Nth(StoreOp::kCreate, 1, Fault::FailAfter()), simulation_, Random(1));
  Torn torn(faulty);
  simulation_.Run([&] {
    auto result = Create(torn, "slot", Body(std::string("mine")), Deadline::After(simulation_, seconds(9)), simulation_, random_);
    EXPECT_EQ(result->kind, CreateResult::kCreated);
  });
}

// Many writers, many slots, every kind of trouble: whatever a writer is told is true for ever.
TEST(CreateUnderTrouble, EveryOutcomeIsTrueForEverySeed) {
  constexpr int kWriters = 6, kSlots = 4;
  int created_total = 0, unknown_total = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Simulation simulation(seed);
    auto memory = std::make_shared<MemoryStore>("", simulation);
    auto faulty = std::make_shared<FaultyStore>(memory, FaultPlan::Trouble(0.05), simulation, Random(seed).Fork("faults"));
    // Half of the runs have retries beneath, as a program has.
    std::shared_ptr<ObjectStore> store = faulty;
    if (seed % 2 == 0) store = std::make_shared<RetryingStore>(faulty, RetryOptions{}, simulation, Random(seed).Fork("retries"));

    struct Told {
      int slot;
      std::string mine;
      Result<CreateResult> result;
    };
    std::vector<Told> told;
    for (int writer = 0; writer < kWriters; ++writer) {
      simulation.Spawn([&, writer] {
        Random random = Random(seed).Fork(Cat("writer ", writer));
        for (int slot = 0; slot < kSlots; ++slot) {
          std::string mine = Cat("writer ", writer, " slot ", slot, " ", random.Hex(8));
          Deadline deadline = Deadline::After(simulation, Duration(static_cast<int64_t>(random.LogNormal(3e9, 1.5))));
          auto result = Create(*store, Cat("slot-", slot), Body(mine), deadline, simulation, random);
          told.push_back({slot, std::move(mine), std::move(result)});
        }
      });
    }
    simulation.Run();
    ASSERT_EQ(simulation.stuck(), 0u);
    ASSERT_EQ(told.size(), size_t{kWriters * kSlots});

    std::map<int, int> creators;
    for (const Told& t : told) {
      auto got = memory->Get(Cat("slot-", t.slot), Deadline());
      std::string final = *got ? (*got)->bytes.ToString() : "";
      if (!t.result.ok()) {
        EXPECT_NE(final, t.mine) << "told that certainly nothing happened: " << t.result.status().ToString();
      } else if (t.result->kind == CreateResult::kCreated) {
        ++created_total;
        EXPECT_EQ(++creators[t.slot], 1) << "two creators of slot " << t.slot;
        EXPECT_EQ(final, t.mine);
      } else if (t.result->kind == CreateResult::kLost) {
        EXPECT_NE(final, t.mine);
        EXPECT_EQ(final, t.result->winner.AsText());
      } else {
        ++unknown_total;
      }
    }
  }
  EXPECT_GT(created_total, 300 * 3) << "most slots must have found their creator";
  EXPECT_GT(unknown_total, 0) << "the deadlines are too kind for this test";
}

}  // namespace
}  // namespace headrace
