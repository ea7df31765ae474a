#include "source/order.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"

namespace headrace {
namespace {

using testing::ElementsAre;

TEST(GranuleOrder, IsAPermutationThatDiffersFromEpochToEpoch) {
  const OrderSeed seed{.seed = 17, .source = "web"};
  std::set<std::vector<uint32_t>> orders;
  for (uint32_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<uint32_t> order = GranuleOrder(seed, epoch, 100);
    orders.insert(order);
    std::ranges::sort(order);
    for (uint32_t i = 0; i < 100; ++i) ASSERT_EQ(order[i], i);
  }
  orders.insert(GranuleOrder({.seed = 18, .source = "web"}, 0, 100));
  orders.insert(GranuleOrder({.seed = 17, .source = "code"}, 0, 100));
  EXPECT_EQ(orders.size(), 7u);
}

// Streams that were begun must go on the same: these numbers may never change.
TEST(GranuleOrder, IsTheSameForEver) {
  EXPECT_THAT(GranuleOrder({.seed = 17, .source = "web"}, 3, 8), ElementsAre(2, 7, 0, 1, 3, 6, 5, 4));
  EXPECT_THAT(PieceOrder({.seed = 17, .source = "web"}, PieceSeed({.seed = 17, .source = "web"}, 3, 5, 2), 8),
              ElementsAre(5, 2, 0, 3, 7, 6, 1, 4));
}

TEST(GranuleOrder, WithoutShufflingIsTheOrderOfFiles) {
  EXPECT_THAT(GranuleOrder({.seed = 17, .source = "web", .shuffle = false}, 1, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(PieceOrder({.seed = 17, .source = "web", .shuffle = false}, 5, 3), ElementsAre(0, 1, 2));
}

RC_GTEST_PROP(PlacesOfGroup, EveryGranuleIsInExactlyOneGroupOfOneStrand, ()) {
  const auto granules = *rc::gen::inRange(0u, 300u);
  const auto strands = *rc::gen::inRange(1u, 40u);
  const auto per_group = *rc::gen::inRange(1u, 12u);
  std::vector<int> seen(granules);
  for (uint16_t strand = 0; strand < strands; ++strand) {
    const uint32_t groups = GroupsOfStrand(granules, strands, strand, per_group);
    for (uint32_t group = 0; group < groups; ++group) {
      const std::vector<uint32_t> places = PlacesOfGroup(granules, strands, strand, per_group, group);
      RC_ASSERT(!places.empty() && places.size() <= per_group);
      for (uint32_t place : places) ++seen.at(place);
    }
    RC_ASSERT(PlacesOfGroup(granules, strands, strand, per_group, groups).empty());
  }
  RC_ASSERT(std::ranges::all_of(seen, [](int times) { return times == 1; }));
}

RC_GTEST_PROP(CutOfStrand, StrandsTogetherHaveTheShareRoundedOnce, ()) {
  const auto sizes = *rc::gen::container<std::vector<uint64_t>>(rc::gen::inRange<uint64_t>(1, 1000));
  const auto strands = *rc::gen::inRange(1u, 20u);
  const auto per_group = *rc::gen::inRange(1u, 5u);
  const double share = *rc::gen::inRange(1, 100) / 100.0;
  const auto count = static_cast<uint32_t>(sizes.size());
  const std::vector<uint32_t> order = GranuleOrder({.seed = 5, .source = "s"}, 2, count);
  double taken = 0, all = 0;
  for (uint64_t size : sizes) all += static_cast<double>(size);
  for (uint16_t strand = 0; strand < strands; ++strand) {
    const EpochCut cut = CutOfStrand(sizes, order, strands, strand, per_group, share);
    RC_ASSERT(cut.fraction >= 0 && cut.fraction < 1);
    for (uint32_t group = 0; group <= cut.group; ++group) {
      double size = 0;
      for (uint32_t place : PlacesOfGroup(count, strands, strand, per_group, group))
        size += static_cast<double>(sizes[order[place]]);
      taken += group < cut.group ? size : cut.fraction * size;
    }
  }
  RC_ASSERT(std::abs(taken - std::round(share * all)) < 1e-6);
}

RC_GTEST_PROP(PieceOrder, KeepsGroupsTogetherAndLosesNoRow, ()) {
  const auto rows = *rc::gen::inRange(0u, 200u);
  const auto size = *rc::gen::inRange(1u, 7u);
  std::vector<uint32_t> groups;
  for (uint32_t row = 0; row < rows; ++row) groups.push_back(row / size);
  std::vector<uint32_t> order = PieceOrder({.seed = 1, .source = "s"}, *rc::gen::arbitrary<uint64_t>(), rows, groups);
  RC_ASSERT(order.size() == rows);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] % size != 0) RC_ASSERT(i > 0 && order[i - 1] == order[i] - 1);
  }
  std::ranges::sort(order);
  for (uint32_t row = 0; row < rows; ++row) RC_ASSERT(order[row] == row);
}

TEST(IsHeldOut, TakesAboutItsFractionAndTheSameEveryTime) {
  int held = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string key = Cat("document-", i);
    const bool out = IsHeldOut(key, 0.1);
    EXPECT_EQ(out, IsHeldOut(key, 0.1));
    EXPECT_TRUE(!out || IsHeldOut(key, 0.2)) << "a larger fraction holds out more, never others";
    held += out;
  }
  EXPECT_NEAR(held, 1000, 120);
  EXPECT_FALSE(IsHeldOut("anything", 0));
}

}  // namespace
}  // namespace headrace
