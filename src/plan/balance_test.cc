#include "plan/balance.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "plan/synthetic_feed.h"

namespace headrace {
namespace {

double LargestLane(const std::vector<double>& costs, const Lanes& lanes) {
  double largest = 0;
  for (const auto& lane : lanes) {
    double sum = 0;
    for (uint32_t item : lane) sum += costs[item];
    largest = std::max(largest, sum);
  }
  return largest;
}

// All assignments, by brute force.
double Optimum(const std::vector<double>& costs, uint32_t lanes, bool same_number) {
  std::vector<double> sums(lanes, 0);
  std::vector<size_t> counts(lanes, 0);
  const size_t limit = same_number ? (costs.size() + lanes - 1) / lanes : costs.size();
  double best = std::accumulate(costs.begin(), costs.end(), 0.0);
  const auto go = [&](auto& self, size_t item) -> void {
    if (item == costs.size()) {
      best = std::min(best, *std::max_element(sums.begin(), sums.end()));
      return;
    }
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      if (counts[lane] == limit || sums[lane] + costs[item] >= best) continue;
      sums[lane] += costs[item];
      ++counts[lane];
      self(self, item + 1);
      sums[lane] -= costs[item];
      --counts[lane];
      if (counts[lane] == 0) break;  // empty lanes are all alike
    }
  };
  go(go, 0);
  return best;
}

void ExpectEachOnce(const Lanes& lanes, size_t items) {
  std::vector<int> seen(items, 0);
  for (const auto& lane : lanes)
    for (uint32_t item : lane) ++seen[item];
  for (int count : seen) ASSERT_EQ(count, 1);
}

RC_GTEST_PROP(Balance, IsWithinTwoPercentOfTheOptimumOfSmallCases, ()) {
  const auto lanes = *rc::gen::inRange<uint32_t>(2, 5);
  const auto rows = *rc::gen::inRange<uint32_t>(1, 5);
  const bool same = *rc::gen::arbitrary<bool>();
  const auto method = *rc::gen::element(BalanceMethod::kGreedy, BalanceMethod::kKarmarkarKarp);
  const size_t items = std::min<size_t>(12, lanes * rows);
  std::vector<double> costs;
  const bool tailed = *rc::gen::arbitrary<bool>();
  for (size_t i = 0; i < items / lanes * lanes; ++i) {
    const int number = *rc::gen::inRange(1, 10000);
    costs.push_back(tailed ? std::pow(number, 3) : number);
  }
  const Lanes found = Balance(costs, lanes, {method, same, {}});
  ExpectEachOnce(found, costs.size());
  if (same)
    for (const auto& lane : found) RC_ASSERT(lane.size() == costs.size() / lanes);
  RC_ASSERT(LargestLane(costs, found) <= 1.02 * Optimum(costs, lanes, same));
}

RC_GTEST_PROP(Balance, IsNeverWorseThanTheOrderOfArrival, ()) {
  const auto lanes = *rc::gen::inRange<uint32_t>(1, 17);
  const auto costs =
      *rc::gen::container<std::vector<double>>(rc::gen::map(rc::gen::inRange(0, 1000), [](int n) { return double(n); }));
  const bool same = *rc::gen::arbitrary<bool>();
  const auto method = *rc::gen::element(BalanceMethod::kNone, BalanceMethod::kGreedy, BalanceMethod::kKarmarkarKarp);
  const Lanes found = Balance(costs, lanes, {method, same, {}});
  ExpectEachOnce(found, costs.size());
  RC_ASSERT(found.size() == lanes);
  RC_ASSERT(LargestLane(costs, found) <= LargestLane(costs, InOrder(costs.size(), lanes)) + 1e-9);
  for (const auto& lane : found)
    for (size_t i = 1; i < lane.size() && method != BalanceMethod::kNone; ++i) RC_ASSERT(costs[lane[i - 1]] >= costs[lane[i]]);
}

TEST(Balance, OfALongTailIsEvenForEveryNumberOfRanks) {
  const auto lengths = SyntheticFeed::Lognormal(6.8, 1.3, 65536, 3);
  for (const bool squared : {false, true})
    for (const auto method : {BalanceMethod::kGreedy, BalanceMethod::kKarmarkarKarp})
      for (const uint32_t lanes : {16u, 48u, 64u}) {
        std::vector<double> costs;
        for (uint32_t i = 0; i < lanes * 16; ++i) {
          const double length = lengths(0, i);
          costs.push_back(squared ? 72.0 * 4096 * length + 6 * length * length : length);
        }
        const Lanes found = Balance(costs, lanes, {method, false, {}});
        const double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
        const double dearest = *std::max_element(costs.begin(), costs.end());
        for (uint32_t group = 1; group <= lanes; ++group) {
          if (lanes % group != 0) continue;
          const double mean = sum / lanes * group;
          // 48 lanes are halved four times; groups of 2, 4, 8 and 16 lie across those of 3, where a single dear item still shows.
          const double allowed = lanes == 48 && group > 1 && group % 3 != 0 ? 1.3 : 1.02;
          EXPECT_LE(Spread(costs, found, group) * mean, allowed * std::max(mean, dearest))
              << lanes << " lanes in groups of " << group << (squared ? ", attention" : "");
        }
      }
}

TEST(Balance, OfFullSequencesIsEvenForEveryNumberOfRanks) {
  for (const uint32_t lanes : {6u, 48u, 64u})
    for (const uint32_t rows : {4u, 8u, 64u}) {
      std::vector<double> costs;
      for (uint32_t i = 0; i < lanes * rows; ++i) costs.push_back(1 + 0.6 * std::pow(SyntheticFeed::Uniform(i + rows), 3));
      const Lanes found = Balance(costs, lanes, {BalanceMethod::kKarmarkarKarp, true, {}});
      for (uint32_t group = 1; group <= lanes; ++group) {
        if (lanes % group != 0) continue;
        EXPECT_LE(Spread(costs, found, group), 1.02) << lanes << " lanes of " << rows << " in groups of " << group;
      }
      for (const auto& lane : found) ASSERT_EQ(lane.size(), rows);
    }
}

TEST(Balance, TheJthOfAllLanesCostAboutTheSame) {
  const auto lengths = SyntheticFeed::Lognormal(6.8, 1.0, 16384, 5);
  std::vector<double> costs;
  for (uint32_t i = 0; i < 64 * 8; ++i) costs.push_back(lengths(0, i));
  const Lanes found = Balance(costs, 64, {BalanceMethod::kKarmarkarKarp, true, {}});
  const auto worst_micro = [&](const Lanes& lanes) {  // what a step takes if ranks wait for each other at every micro-batch
    double sum = 0;
    for (size_t j = 0; j < 8; ++j) {
      double largest = 0;
      for (const auto& lane : lanes) largest = std::max(largest, costs[lane[j]]);
      sum += largest;
    }
    return sum;
  };
  EXPECT_LT(worst_micro(found), 0.6 * worst_micro(InOrder(costs.size(), 64)));
}

RC_GTEST_PROP(Balance, KeepsWhatIsBondedInOneLane, ()) {
  const auto lanes = *rc::gen::inRange<uint32_t>(1, 9);
  const bool same = *rc::gen::arbitrary<bool>();
  const auto pairs = *rc::gen::inRange<uint32_t>(0, lanes * 2 + 1);
  std::vector<double> costs;
  std::vector<uint32_t> bonds;
  for (uint32_t i = 0; i < lanes * 4; ++i) {
    costs.push_back(*rc::gen::inRange(0, 1000));
    bonds.push_back(i < 2 * pairs ? i % pairs + 1 : 0);
  }
  const Lanes found = Balance(costs, lanes, {BalanceMethod::kKarmarkarKarp, same, bonds});
  ExpectEachOnce(found, costs.size());
  std::map<uint32_t, size_t> lane_of;
  for (size_t lane = 0; lane < found.size(); ++lane) {
    if (same) RC_ASSERT(found[lane].size() == 4u);
    for (uint32_t item : found[lane])
      if (bonds[item] != 0) RC_ASSERT(lane_of.emplace(bonds[item], lane).first->second == lane);
  }
}

TEST(Balance, NothingAndLittle) {
  EXPECT_EQ(Balance({}, 3, {}).size(), 3u);
  const std::vector<double> one = {5};
  const Lanes found = Balance(one, 4, {BalanceMethod::kKarmarkarKarp, false, {}});
  ExpectEachOnce(found, 1);
  const std::vector<double> nothing(8, 0.0);
  for (const auto& lane : Balance(nothing, 4, {})) EXPECT_EQ(lane.size(), 2u);
  EXPECT_EQ(Spread(nothing, InOrder(8, 4)), 1);
}

}  // namespace
}  // namespace headrace
