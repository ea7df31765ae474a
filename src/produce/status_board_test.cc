#include "produce/status_board.h"

#include <gtest/gtest.h>

#include "store/memory_store.h"

namespace headrace {
namespace {

class StepClock final : public Clock {
 public:
  Instant Now() override { return now_; }
  WallTime WallNow() override { return {}; }
  void SleepUntil(Instant until, std::stop_token) override { now_ = std::max(now_, until); }

 private:
  Instant now_{};
};

TEST(StatusBoard, WhoseCounterStandsStillIsTakenForDead) {
  StepClock clock;
  MemoryStore store;
  StatusBoard mine(store, clock, std::chrono::seconds(10)), theirs(store, clock, std::chrono::seconds(10));
  ASSERT_TRUE(theirs.Write("producer", "b", {{"strands", {1, 2}}}, Deadline()).ok());
  ASSERT_TRUE(theirs.Write("loader", "c", {{"next_step", 7}}, Deadline()).ok());
  ASSERT_TRUE(mine.Refresh("producer", Deadline()).ok());
  ASSERT_EQ(mine.Of("producer").size(), 1u);
  EXPECT_EQ(mine.Of("producer")[0].key, "status/producer-b");
  EXPECT_EQ(mine.Of("producer")[0].status["strands"], nlohmann::json({1, 2}));
  EXPECT_TRUE(mine.Of("producer")[0].alive);
  EXPECT_TRUE(mine.Of("loader").empty()) << "nobody asked for them";

  clock.SleepFor(std::chrono::seconds(9));
  ASSERT_TRUE(mine.Refresh("producer", Deadline()).ok());
  EXPECT_TRUE(mine.Of("producer")[0].alive);
  clock.SleepFor(std::chrono::seconds(2));
  ASSERT_TRUE(mine.Refresh("producer", Deadline()).ok());
  EXPECT_FALSE(mine.Of("producer")[0].alive) << "the same words again are no sign of life";
  ASSERT_TRUE(theirs.Write("producer", "b", {{"strands", {1}}}, Deadline()).ok());
  ASSERT_TRUE(mine.Refresh("producer", Deadline()).ok());
  EXPECT_TRUE(mine.Of("producer")[0].alive);
  EXPECT_EQ(mine.Of("producer")[0].status["strands"], nlohmann::json({1}));
  ASSERT_TRUE(theirs.Remove("producer", "b", Deadline()).ok());
  ASSERT_TRUE(mine.Refresh("producer", Deadline()).ok());
  EXPECT_TRUE(mine.Of("producer").empty());
}

TEST(StatusBoard, WhatIsNoStatusIsPassedOver) {
  StepClock clock;
  MemoryStore store;
  ASSERT_TRUE(store.Put("status/producer-x", Body(std::string("nonsense")), Deadline()).ok());
  StatusBoard board(store, clock, std::chrono::seconds(10));
  ASSERT_TRUE(board.Refresh("producer", Deadline()).ok());
  EXPECT_TRUE(board.Of("producer").empty());
}

}  // namespace
}  // namespace headrace
