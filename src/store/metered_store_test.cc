#include "store/metered_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "store/faulty_store.h"
#include "store/memory_store.h"

namespace headrace {
namespace {

using testing::HasSubstr;
using testing::Not;

const Deadline kNever;

class MeteredStoreTest : public testing::Test {
 protected:
  double Requests(const std::string& op, const std::string& outcome) {
    return metrics_.GetCounter("headrace_store_requests_total", "", {{"store", "lake"}, {"op", op}, {"outcome", outcome}})
        .value();
  }
  double Bytes(const std::string& direction) {
    return metrics_.GetCounter("headrace_store_" + direction + "_bytes_total", "", {{"store", "lake"}}).value();
  }

  Simulation simulation_{1};
  Metrics metrics_;
  std::shared_ptr<FaultyStore> faulty_ =
      std::make_shared<FaultyStore>(std::make_shared<MemoryStore>("", simulation_), FaultPlan(), simulation_, Random(1));
  MeteredStore store_{faulty_, "lake", metrics_, simulation_};
};

TEST_F(MeteredStoreTest, CountsEachOutcomeByItsName) {
  simulation_.Run([&] {
    EXPECT_TRUE(store_.PutIfAbsent("a", std::string("12345"), kNever).ok());
    EXPECT_TRUE(store_.PutIfAbsent("a", std::string("12345"), kNever).ok());
    EXPECT_TRUE(store_.Get("a", kNever).ok());
    EXPECT_TRUE(store_.Get("b", kNever).ok());
    EXPECT_TRUE(store_.Put("b", std::string("123"), kNever).ok());
    EXPECT_TRUE(store_.List({}, kNever).ok());
    EXPECT_TRUE(store_.DeleteOne("a", kNever).ok());
    faulty_->Add({.fault = Fault::FailBefore(Code::kThrottled)});
    EXPECT_EQ(store_.PutIfAbsent("c", std::string("x"), kNever)->kind, PutOutcome::kUnknown);
    EXPECT_EQ(store_.Get("b", kNever).code(), Code::kThrottled);
  });
  EXPECT_EQ(Requests("create", "created"), 1);
  EXPECT_EQ(Requests("create", "exists"), 1);
  EXPECT_EQ(Requests("create", "unknown"), 1);
  EXPECT_EQ(Requests("get", "ok"), 1);
  EXPECT_EQ(Requests("get", "not_found"), 1);
  EXPECT_EQ(Requests("get", "throttled"), 1);
  EXPECT_EQ(Requests("put", "ok"), 1);
  EXPECT_EQ(Requests("list", "ok"), 1);
  EXPECT_EQ(Requests("delete", "ok"), 1);
}

TEST_F(MeteredStoreTest, CountsBytesOfObjectsOnce) {
  simulation_.Run([&] {
    EXPECT_TRUE(store_.PutIfAbsent("a", std::string(1000, 'x'), kNever).ok());
    EXPECT_TRUE(store_.PutIfAbsent("a", std::string(1000, 'x'), kNever).ok());  // exists: nothing was written
    EXPECT_TRUE(store_.Put("b", std::string(10, 'x'), kNever).ok());
    EXPECT_TRUE(store_.Get("a", {.range = ByteRange::At(0, 64)}, kNever).ok());
  });
  EXPECT_EQ(Bytes("written"), 1010);
  EXPECT_EQ(Bytes("read"), 64);
}

TEST_F(MeteredStoreTest, TimesRequestsOnTheClockThatWasPassedIn) {
  faulty_->Add({.fault = Fault::Slow(std::chrono::milliseconds(250)), .op = StoreOp::kGet});
  simulation_.Run([&] {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(store_.Get("a", kNever).ok());
  });
  Histogram& durations = metrics_.GetHistogram("headrace_store_request_duration_seconds", "", {{"store", "lake"}, {"op", "get"}});
  EXPECT_EQ(durations.count(), 4u);
  EXPECT_NEAR(durations.sum(), 1.0, 1e-9);
}

TEST_F(MeteredStoreTest, WhatNeverHappenedHasNoRow) {
  simulation_.Run([&] { EXPECT_TRUE(store_.Get("a", kNever).ok()); });
  EXPECT_THAT(metrics_.ToPrometheus(), HasSubstr("outcome=\"not_found\""));
  EXPECT_THAT(metrics_.ToPrometheus(), Not(HasSubstr("outcome=\"throttled\"")));
}

}  // namespace
}  // namespace headrace
