#include "store/retrying_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "base/text.h"
#include "store/faulty_store.h"
#include "store/memory_store.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

class RetryingStoreTest : public testing::Test {
 protected:
  void Use(FaultPlan plan, RetryOptions options = {}) {
    faulty_ = std::make_shared<FaultyStore>(memory_, std::move(plan), simulation_, Random(1));
    store_ = std::make_shared<RetryingStore>(faulty_, options, simulation_, Random(2));
  }
  Deadline In(Duration time) { return Deadline::After(simulation_, time, stop_.get_token()); }
  // Every operation once, by what came of it.
  Status Call(StoreOp op, const Deadline& deadline) {
    switch (op) {
      case StoreOp::kGet: return store_->Get("k", deadline).status();
      case StoreOp::kCreate: return store_->PutIfAbsent("new", std::string("v"), deadline).status();
      case StoreOp::kPut: return store_->Put("k", std::string("v"), deadline);
      case StoreOp::kList: return store_->List({}, deadline).status();
      case StoreOp::kDelete: return store_->DeleteOne("k", deadline);
    }
    return {};
  }
  // Runs `body` in virtual time and says how much of it went by.
  Duration Run(std::function<void()> body) {
    Instant began = simulation_.Now();
    Instant ended;
    simulation_.Run([&] {
      body();
      ended = simulation_.Now();
    });
    EXPECT_EQ(simulation_.stuck(), 0u);
    return ended - began;
  }

  Simulation simulation_{1};
  std::stop_source stop_;
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("m", simulation_);
  std::shared_ptr<FaultyStore> faulty_;
  std::shared_ptr<RetryingStore> store_;
};

TEST_F(RetryingStoreTest, PassingTroubleIsNotSeen) {
  for (StoreOp op : kAllStoreOps) {
    for (Code code : {Code::kUnavailable, Code::kThrottled, Code::kTimeout}) {
      Use(FaultPlan().FirstFew(op, 3, Fault::Refuse(code)));
      Run([&] { EXPECT_TRUE(Call(op, In(seconds(60))).ok()) << OpName(op) << " " << CodeName(code); });
      EXPECT_EQ(faulty_->calls(op), 4u);
      EXPECT_EQ(store_->retries(), 3u);
      ASSERT_TRUE(memory_->DeleteOne("new", Deadline()).ok());
    }
  }
}

TEST_F(RetryingStoreTest, WhatNoRetryHelpsIsAnsweredAtOnce) {
  for (StoreOp op : kAllStoreOps) {
    for (Code code : {Code::kInvalidArgument, Code::kUnsupported, Code::kNotFound, Code::kDenied, Code::kFull, Code::kCancelled,
                      Code::kInternal}) {
      Use(FaultPlan().Always(op, Fault::Refuse(code)));
      Duration took = Run([&] { EXPECT_EQ(Call(op, In(seconds(60))).code(), code); });
      EXPECT_EQ(faulty_->calls(op), 1u) << OpName(op) << " " << CodeName(code);
      EXPECT_EQ(took, Duration::zero());
    }
  }
}

TEST_F(RetryingStoreTest, ACreateOfUnknownOutcomeIsNeverSentAgain) {
  for (Code reason : {Code::kUnavailable, Code::kThrottled, Code::kTimeout, Code::kConflict, Code::kExpired}) {
    Use(FaultPlan().Always(StoreOp::kCreate, Fault::FailBefore(reason)));
    Run([&] {
      auto put = store_->PutIfAbsent("k", std::string("v"), In(seconds(60)));
      ASSERT_TRUE(put.ok());
      EXPECT_EQ(put->kind, PutOutcome::kUnknown);
      EXPECT_EQ(put->reason.code(), reason);
    });
    EXPECT_EQ(faulty_->calls(StoreOp::kCreate), 1u);
  }
}

TEST_F(RetryingStoreTest, ExpiredCredentialsAreTriedOnceMoreAtOnce) {
  for (StoreOp op : kAllStoreOps) {
    Use(FaultPlan().Nth(op, 1, Fault::Refuse(Code::kExpired)));
    Duration took = Run([&] { EXPECT_TRUE(Call(op, In(seconds(60))).ok()); });
    EXPECT_EQ(faulty_->calls(op), 2u);
    EXPECT_EQ(took, Duration::zero());
    ASSERT_TRUE(memory_->DeleteOne("new", Deadline()).ok());

    Use(FaultPlan().Always(op, Fault::Refuse(Code::kExpired)));
    Run([&] { EXPECT_EQ(Call(op, In(seconds(60))).code(), Code::kExpired); });
    EXPECT_EQ(faulty_->calls(op), 2u);
  }
}

TEST_F(RetryingStoreTest, PausesStayBetweenTheFirstAndTheLongestAndGrow) {
  RetryOptions options{.first_pause = milliseconds(50), .longest_pause = seconds(2), .max_attempts = 8};
  double early = 0, late = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Simulation simulation(seed);
    std::vector<Instant> asked;
    class Down final : public StoreDecorator {
     public:
      Down(std::shared_ptr<ObjectStore> inner, Clock& clock, std::vector<Instant>& asked)
          : StoreDecorator(std::move(inner)), clock_(clock), asked_(asked) {}
      Status Put(const std::string&, const Body&, const Deadline&) override {
        asked_.push_back(clock_.Now());
        return Status(Code::kUnavailable, "down");
      }
      Clock& clock_;
      std::vector<Instant>& asked_;
    };
    RetryingStore store(std::make_shared<Down>(memory_, simulation, asked), options, simulation, Random(seed));
    simulation.Run([&] { EXPECT_EQ(store.Put("k", std::string(), Deadline()).code(), Code::kUnavailable); });
    ASSERT_EQ(asked.size(), 8u);
    for (size_t i = 1; i < asked.size(); ++i) {
      Duration pause = asked[i] - asked[i - 1];
      EXPECT_GE(pause, milliseconds(50));
      EXPECT_LE(pause, seconds(2));
    }
    early += std::chrono::duration<double>(asked[1] - asked[0]).count() / 200;
    late += std::chrono::duration<double>(asked[7] - asked[6]).count() / 200;
  }
  EXPECT_NEAR(early, 0.1, 0.01);  // uniform between 50 and 150 ms
  EXPECT_GT(late, 5 * early);
}

TEST_F(RetryingStoreTest, NeverComesBackSoonerThanItWasAskedTo) {
  Use(FaultPlan().Nth(StoreOp::kGet, 1, Fault::Refuse(Code::kThrottled, seconds(9))));
  Duration took = Run([&] { EXPECT_TRUE(store_->Get("k", In(seconds(60))).ok()); });
  EXPECT_GE(took, seconds(9));
  EXPECT_LE(took, seconds(10));
}

TEST_F(RetryingStoreTest, DoesNotWaitForAnAttemptThatWouldBeTooLate) {
  Use(FaultPlan().Always(StoreOp::kGet, Fault::Refuse(Code::kThrottled, seconds(30))));
  Duration took = Run([&] {
    Status status = store_->Get("k", In(seconds(20))).status();
    EXPECT_EQ(status.code(), Code::kThrottled);
    EXPECT_THAT(status.message(), HasSubstr("gave up after 1 attempt (no time for another)"));
    EXPECT_THAT(status.message(), HasSubstr("mem://m/k"));
  });
  EXPECT_EQ(took, Duration::zero());
}

TEST_F(RetryingStoreTest, EndsAtTheDeadlineWithTheLastFailure) {
  Use(FaultPlan().Always(StoreOp::kList, Fault::FailBefore()), {.max_attempts = 1000});
  Duration took = Run([&] { EXPECT_EQ(store_->List({}, In(seconds(20))).code(), Code::kUnavailable); });
  EXPECT_LE(took, seconds(20));
  EXPECT_GT(took, seconds(10)) << "it gave up with half of the time left";
}

TEST_F(RetryingStoreTest, EndsAfterAsManyAttemptsAsAllowedWithoutADeadline) {
  Use(FaultPlan().Always(StoreOp::kDelete, Fault::FailBefore()), {.max_attempts = 5});
  Run([&] {
    Status status = store_->DeleteOne("k", Deadline());
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("gave up after 5 attempts"));
  });
  EXPECT_EQ(faulty_->calls(StoreOp::kDelete), 5u);
}

TEST_F(RetryingStoreTest, AStopEndsThePause) {
  Use(FaultPlan().Always(StoreOp::kGet, Fault::Refuse(Code::kThrottled, seconds(1000))));
  simulation_.Spawn([&] {
    simulation_.SleepFor(seconds(3));
    stop_.request_stop();
  });
  Duration took = Run([&] { EXPECT_EQ(store_->Get("k", In(seconds(5000))).code(), Code::kCancelled); });
  EXPECT_EQ(took, seconds(3));
}

TEST_F(RetryingStoreTest, ASlowAttemptIsGivenUpWhileTheCallerHasTime) {
  ASSERT_TRUE(memory_->Put("k", std::string("v"), Deadline()).ok());
  Use(FaultPlan().Nth(StoreOp::kGet, 1, Fault::Slow(seconds(300))),
      {.attempt_timeout = seconds(5), .slowest_bytes_per_second = 1e6});
  Duration took = Run([&] {
    std::array<std::byte, 16> memory;
    EXPECT_TRUE(store_->Get("k", {.into = memory}, In(seconds(60))).ok());
  });
  EXPECT_GE(took, seconds(5));
  EXPECT_LT(took, seconds(6));
  EXPECT_EQ(faulty_->calls(StoreOp::kGet), 2u);
}

TEST_F(RetryingStoreTest, LargeBodiesGetTheTimeThatTheyNeed) {
  Use(FaultPlan().Always(StoreOp::kPut, Fault::Slow(seconds(12))),
      {.attempt_timeout = seconds(5), .slowest_bytes_per_second = 1e6});
  Run([&] { EXPECT_TRUE(store_->Put("k", std::string(8'000'000, 'x'), In(seconds(60))).ok()); });
  EXPECT_EQ(faulty_->calls(StoreOp::kPut), 1u);
}

TEST_F(RetryingStoreTest, ATimedOutCreateIsUnknownAndPassedOn) {
  Use(FaultPlan().Always(StoreOp::kCreate, Fault::Slow(seconds(300))), {.attempt_timeout = seconds(5)});
  Duration took = Run([&] { EXPECT_EQ(store_->PutIfAbsent("k", std::string(), In(seconds(60)))->kind, PutOutcome::kUnknown); });
  EXPECT_EQ(took, seconds(5));
}

// A store that is down for long: what all callers together ask of it stays close to what they asked when it was up.
TEST_F(RetryingStoreTest, TheBudgetKeepsAStoreInTroubleFromBeingBuried) {
  Use(FaultPlan().Always(StoreOp::kGet, Fault::FailBefore()), {.budget = {.share = 0.2, .per_second = 1, .burst = 50}});
  constexpr int kCallers = 20, kCalls = 100;
  bool said_so = false;
  for (int caller = 0; caller < kCallers; ++caller) {
    simulation_.Spawn([&] {
      for (int i = 0; i < kCalls; ++i) {
        Status status = store_->Get("k", In(seconds(60))).status();
        EXPECT_EQ(status.code(), Code::kUnavailable);
        said_so |= status.message().find("retry budget") != std::string::npos;
        simulation_.SleepFor(milliseconds(100));
      }
    });
  }
  simulation_.Run();
  double seconds_passed = std::chrono::duration<double>(simulation_.Now() - Instant()).count();
  double allowed = 0.2 * kCallers * kCalls + 50 + seconds_passed;
  EXPECT_LE(static_cast<double>(store_->retries()), allowed);
  EXPECT_GE(static_cast<double>(store_->retries()), 0.9 * (0.2 * kCallers * kCalls));
  EXPECT_TRUE(said_so);
}

TEST_F(RetryingStoreTest, TheBudgetComesBackWithTime) {
  Use(FaultPlan().FirstFew(StoreOp::kGet, 6, Fault::FailBefore()),
      {.max_attempts = 4, .budget = {.share = 0, .per_second = 0.5, .burst = 3}});
  Run([&] {
    EXPECT_FALSE(store_->Get("k", Deadline()).ok());  // attempts 1 to 4: the burst is spent
    EXPECT_FALSE(store_->Get("k", Deadline()).ok());  // attempt 5, no retry
    simulation_.SleepFor(seconds(10));
    EXPECT_TRUE(store_->Get("k", Deadline()).ok());  // attempts 6 and 7
  });
  EXPECT_EQ(faulty_->calls(StoreOp::kGet), 7u);
}

}  // namespace
}  // namespace headrace
