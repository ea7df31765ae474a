// The small parts of the loader, each for itself.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/buffer_pool.h"
#include "load/depth.h"
#include "load/habit.h"
#include "load/lanes.h"
#include "load/packed.h"
#include "load/step_ranges.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;

RC_GTEST_PROP(Lanes, EveryLaneBelongsToExactlyOneRank, ()) {
  auto lanes = *rc::gen::inRange<uint32_t>(1, 300);
  auto size = *rc::gen::inRange<uint64_t>(1, lanes + 1);
  uint32_t next = 0;
  uint32_t least = lanes;
  uint32_t most = 0;
  for (uint64_t rank = 0; rank < size; ++rank) {
    auto range = LanesOfRank(lanes, rank, size, true);
    RC_ASSERT(range.ok());
    RC_ASSERT(range->first == next);
    next = range->end;
    least = std::min(least, range->count());
    most = std::max(most, range->count());
    auto even = LanesOfRank(lanes, rank, size, false);
    RC_ASSERT(even.ok() == (lanes % size == 0));
    if (even.ok()) RC_ASSERT(*even == *range);
  }
  RC_ASSERT(next == lanes);
  RC_ASSERT(least >= 1);
  RC_ASSERT(most - least <= 1);
}

TEST(Lanes, SayWhichSizesFit) {
  auto wrong = LanesOfRank(12, 0, 5, false);
  EXPECT_NE(wrong.status().message().find("1, 2, 3, 4, 6, 12"), std::string::npos) << wrong.status().message();
  EXPECT_EQ(LanesOfRank(4, 0, 8, true).code(), Code::kInvalidArgument);
  EXPECT_EQ(LanesOfRank(4, 4, 4, true).code(), Code::kInvalidArgument);
  EXPECT_EQ(LanesOfRank(4, 0, 0, true).code(), Code::kInvalidArgument);
}

RC_GTEST_PROP(StepRanges, AreASetOfSteps, ()) {
  auto pieces = *rc::gen::container<std::vector<std::pair<uint64_t, uint64_t>>>(
      rc::gen::pair(rc::gen::inRange<uint64_t>(0, 60), rc::gen::inRange<uint64_t>(0, 60)));
  StepRanges ranges;
  std::vector<bool> in(70);
  for (auto [first, end] : pieces) {
    ranges.Add(first, end);
    for (uint64_t s = first; s < end; ++s) in[s] = true;
  }
  uint64_t count = 0;
  for (uint64_t s = 0; s < 65; ++s) {
    RC_ASSERT(ranges.Contains(s) == in[s]);
    uint64_t next = s;
    while (in[next]) ++next;
    RC_ASSERT(ranges.NotIn(s) == next);
    RC_ASSERT(ranges.CountIn(0, s) == count);
    count += in[s] ? 1 : 0;
  }
  for (size_t i = 1; i < ranges.ranges().size(); ++i) RC_ASSERT(ranges.ranges()[i - 1].second < ranges.ranges()[i].first);
}

TEST(Depth, FollowsLatencyOverInterval) {
  Depth depth;
  for (int i = 0; i < 2000; ++i) {
    depth.Read(milliseconds(100));
    depth.Taken(milliseconds(100));
  }
  EXPECT_LE(depth.blocks(), 5u);
  for (int i = 0; i < 2000; ++i) {
    depth.Read(milliseconds(100));
    depth.Taken(milliseconds(5));
  }
  EXPECT_GE(depth.blocks(), 20u);
  EXPECT_LE(depth.blocks(), 30u);
  depth.Waited();
  EXPECT_GE(depth.blocks(), 40u);
  for (int i = 0; i < 100; ++i) depth.Waited();
  EXPECT_EQ(depth.blocks(), Depth::kMost);
}

TEST(BufferPool, UsesMemoryAgainAndKeepsNoMoreThanItMay) {
  auto pool = BufferPool::Make(3'000'000);
  std::vector<Bytes> held;
  for (int i = 0; i < 5; ++i) held.push_back(pool->Take(1'000'000).Freeze());
  const std::byte* last = held.back().data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(last) % Buffer::kAlignment, 0u);
  held.pop_back();
  EXPECT_EQ(pool->kept_bytes(), 1'000'000u);
  EXPECT_NE(pool->Take(500'000).span().data(), last);  // much too large for that
  auto again = pool->Take(900'000);
  EXPECT_EQ(again.span().data(), last);
  EXPECT_EQ(again.span().size(), 900'000u);
  Bytes outlives = std::move(again).Freeze();
  held.clear();
  EXPECT_LE(pool->kept_bytes(), 3'000'000u);
  pool = nullptr;
  EXPECT_EQ(outlives.size(), 900'000u);
}

TEST(BufferPool, UsesLargePiecesAgainWhateverTheirSize) {
  auto pool = BufferPool::Make(64'000'000);
  for (size_t size = 4'000'000; size < 9'000'000; size += 333'333) {
    const std::byte* first = pool->Take(size).span().data();
    EXPECT_EQ(pool->Take(size).span().data(), first) << size;
  }
}

TEST(Habit, FollowsWhatTheTrainerAsksFor) {
  Habit habit;
  EXPECT_TRUE(habit.whole());  // nothing is known yet
  for (int i = 0; i < 100; ++i) habit.HandedOver();
  EXPECT_FALSE(habit.whole());
  habit.AskedForWhole();
  EXPECT_TRUE(habit.whole());
  for (int i = 0; i < 10; ++i) habit.HandedOver();
  EXPECT_TRUE(habit.whole());
}

struct PackedCell {
  std::vector<Column> columns{{"tokens", Dtype::kU16, Column::kArray},
                              {"cu_seqlens", Dtype::kI32, Column::kArray},
                              {"source", Dtype::kI16, Column::kArray},
                              {"loss_mask", Dtype::kU8, Column::kArray}};
  std::vector<uint16_t> tokens{10, 11, 12, 20, 21, 0, 30, 31, 32, 33, 34, 35};
  std::vector<int32_t> bounds{0, 3, 5, 6, 12};
  std::vector<int16_t> source{0, 1, -1, 0};
  std::vector<uint8_t> mask{1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1};

  std::vector<Array> arrays() const {
    return {{Dtype::kU16, {2, 6}, Bytes::Copy(std::as_bytes(std::span(tokens)))},
            {Dtype::kI32, {bounds.size()}, Bytes::Copy(std::as_bytes(std::span(bounds)))},
            {Dtype::kI16, {source.size()}, Bytes::Copy(std::as_bytes(std::span(source)))},
            {Dtype::kU8, {2, 6}, Bytes::Copy(std::as_bytes(std::span(mask)))}};
  }
};

TEST(Packed, LabelsStayInsideTheirDocument) {
  PackedCell cell;
  auto columns = PackedColumns::Find(cell.columns);
  ASSERT_TRUE(columns);
  ASSERT_TRUE(CheckPacked(cell.arrays(), *columns, "here").ok());
  std::vector<int32_t> out(12);
  WriteLabels(cell.arrays(), *columns, LabelStyle::kShifted, out);
  EXPECT_EQ(out, (std::vector<int32_t>{-100, 12, -100, 21, -100, -100, 31, -100, 33, 34, 35, -100}));
  WriteLabels(cell.arrays(), *columns, LabelStyle::kUnshifted, out);
  EXPECT_EQ(out, (std::vector<int32_t>{-100, -100, 12, -100, 21, -100, -100, 31, -100, 33, 34, 35}));
  WritePositions(cell.arrays(), *columns, out);
  EXPECT_EQ(out, (std::vector<int32_t>{0, 1, 2, 0, 1, 0, 0, 1, 2, 3, 4, 5}));
}

TEST(Packed, RefusesWhatIsNoPackedBatch) {
  PackedCell good;
  auto columns = *PackedColumns::Find(good.columns);
  auto refused = [&](auto spoil) {
    PackedCell bad;
    spoil(bad);
    return CheckPacked(bad.arrays(), columns, "here").code() == Code::kCorrupt;
  };
  EXPECT_TRUE(refused([](PackedCell& cell) { cell.bounds = {0, 3, 5, 6, 11}; }));
  EXPECT_TRUE(refused([](PackedCell& cell) { cell.bounds = {0, 3, 5, 7, 12}; }));  // over the end of a sequence
  EXPECT_TRUE(refused([](PackedCell& cell) { cell.bounds = {0, 5, 3, 6, 12}; }));
  EXPECT_TRUE(refused([](PackedCell& cell) { cell.bounds = {1, 3, 5, 6, 12}; }));
  EXPECT_TRUE(refused([](PackedCell& cell) { cell.source.pop_back(); }));
  EXPECT_TRUE(refused([](PackedCell& cell) { cell.bounds[1] = -4; }));
}

}  // namespace
}  // namespace headrace
