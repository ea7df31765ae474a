#include "base/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "base/text.h"

namespace headrace {
namespace {

using testing::ElementsAre;

std::vector<uint64_t> Draw(Random random, int count) {
  std::vector<uint64_t> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(random.Next());
  return numbers;
}

// Made with the authors' own xoshiro256** and splitmix64. If these change, streams are not reproducible any more.
TEST(Random, SeedGivesTheSameNumbersForEver) {
  EXPECT_THAT(Draw(Random(0), 4), ElementsAre(0x99ec5f36cb75f2b4, 0xbf6e1f784956452a, 0x1a5f849d4933e6e0, 0x6aa594f1262d2d2c));
  EXPECT_THAT(Draw(Random(42), 4), ElementsAre(0x15780b2e0c2ec716, 0x6104d9866d113a7e, 0xae17533239e499a1, 0xecb8ad4703b360a1));
  EXPECT_THAT(Draw(Random(~0ull), 4),
              ElementsAre(0x8f5520d52a7ead08, 0xc476a018caa1802d, 0x81de31c0d260469e, 0xbf658d7e065f3c2f));
  EXPECT_THAT(Draw(Random(42).Fork("strand 7"), 3), ElementsAre(0x5f6dbd387586eda4, 0xba193371a13a8b41, 0xd3d2a6077caee1c5));
}

TEST(Random, DerivedNumbersStayTheSameForEver) {
  Random random(42);
  std::vector<uint64_t> below;
  for (int i = 0; i < 6; ++i) below.push_back(random.Below(1000));
  EXPECT_THAT(below, ElementsAre(742, 102, 9, 193, 476, 584));
  EXPECT_EQ(random.Uniform(), 0.7192585778779156);
  EXPECT_EQ(random.Hex(16), "dc9a4c5be9dbb126");
}

RC_GTEST_PROP(Random, BelowStaysBelow, (uint64_t seed, uint64_t bound)) {
  RC_PRE(bound > 0);
  Random random(seed);
  for (int i = 0; i < 100; ++i) RC_ASSERT(random.Below(bound) < bound);
}

TEST(Random, BelowIsUnbiased) {
  // With a bound of 3/4 of the range, taking the remainder alone would make the lower third twice as likely as the rest.
  const uint64_t bound = 3ull << 62;
  Random random(7);
  int low = 0;
  constexpr int kDraws = 30000;
  for (int i = 0; i < kDraws; ++i) low += random.Below(bound) < bound / 3;
  EXPECT_NEAR(low, kDraws / 3.0, 5 * std::sqrt(kDraws * 2.0 / 9));
}

TEST(Random, BelowFindsEveryValueAboutEquallyOften) {
  Random random(1);
  std::vector<int> seen(10);
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) ++seen[random.Below(10)];
  double chi_square = 0;
  for (int count : seen) chi_square += (count - kDraws / 10.0) * (count - kDraws / 10.0) / (kDraws / 10.0);
  EXPECT_LT(chi_square, 27.9);  // nine degrees of freedom, one in a thousand
}

TEST(Random, UniformFillsTheUnitInterval) {
  Random random(3);
  double sum = 0, least = 1, most = 0;
  for (int i = 0; i < 100000; ++i) {
    double value = random.Uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
  EXPECT_LT(least, 0.001);
  EXPECT_GT(most, 0.999);
  for (int i = 0; i < 100; ++i) {
    double value = random.Uniform(-3, 5);
    EXPECT_GE(value, -3);
    EXPECT_LT(value, 5);
  }
}

TEST(Random, ChanceOfNothingAndOfEverything) {
  Random random(5);
  int half = 0;
  for (int i = 0; i < 10000; ++i) {
    EXPECT_FALSE(random.Chance(0));
    EXPECT_TRUE(random.Chance(1));
    half += random.Chance(0.5);
  }
  EXPECT_NEAR(half, 5000, 250);
}

TEST(Random, NormalAndLogNormalHaveTheirShape) {
  Random random(9);
  double sum = 0, squares = 0;
  int below_median = 0;
  constexpr int kDraws = 50000;
  for (int i = 0; i < kDraws; ++i) {
    double value = random.Normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
    below_median += random.LogNormal(20, 0.5) < 20;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.03);
  EXPECT_NEAR(squares / kDraws, 1, 0.03);
  EXPECT_NEAR(below_median, kDraws / 2.0, 600);
}

TEST(Random, HexHasAsManyDigitsAsAskedFor) {
  Random random(11);
  EXPECT_EQ(random.Hex(0), "");
  EXPECT_EQ(random.Hex(37).size(), 37u);
  EXPECT_EQ(random.Hex(1000).find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(Random, ForkDependsOnSeedAndPurposeOnly) {
  Random fresh(42), used(42);
  for (int i = 0; i < 100; ++i) used.Next();
  EXPECT_EQ(Draw(fresh.Fork("nonce"), 10), Draw(used.Fork("nonce"), 10));
  EXPECT_EQ(Draw(used, 5), Draw(used, 5)) << "forking draws nothing";
}

TEST(Random, ForksOfNeighbouringSeedsAndPurposesAreAllDifferent) {
  std::set<uint64_t> first_numbers;
  int made = 0;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    first_numbers.insert(Random(seed).Next());
    ++made;
    for (int purpose = 0; purpose < 64; ++purpose) {
      first_numbers.insert(Random(seed).Fork(Cat(purpose)).Next());
      first_numbers.insert(Random(seed).Fork(Cat("strand ", purpose)).Next());
      first_numbers.insert(Random(seed).Fork("a").Fork(Cat(purpose)).Next());
      made += 3;
    }
  }
  EXPECT_EQ(first_numbers.size(), static_cast<size_t>(made));
}

TEST(Random, ForksDoNotFollowEachOther) {
  Random parent(1), a = parent.Fork("a"), b = parent.Fork("b");
  int equal_bits = 0;
  for (int i = 0; i < 1000; ++i) equal_bits += std::popcount(~(a.Next() ^ b.Next()));
  EXPECT_NEAR(equal_bits, 32000, 700);
}

TEST(Random, EntropyDiffersEveryTime) { EXPECT_NE(Random::FromEntropy().Next(), Random::FromEntropy().Next()); }

}  // namespace
}  // namespace headrace
