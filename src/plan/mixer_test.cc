#include "plan/mixer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/synthetic_feed.h"

namespace headrace {
namespace {

// How far a source is from its weights in the worst moment, in longest documents; the ideal is counted beside the mixer.
double Worst(const std::vector<double>& weights, const SyntheticFeed::Lengths& lengths, size_t draws) {
  Mixer mixer(weights.size());
  mixer.SetWeights(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> ideal(weights.size(), 0), real(weights.size(), 0);
  std::vector<uint32_t> next(weights.size(), 0);
  double longest = 0, worst = 0;
  for (size_t i = 0; i < draws; ++i) {
    const auto source = static_cast<uint16_t>(mixer.Pick());
    const double length = lengths(source, next[source]++);
    mixer.Charge(source, static_cast<uint64_t>(length));
    real[source] += length;
    longest = std::max(longest, length);
    for (size_t j = 0; j < weights.size(); ++j) {
      ideal[j] += weights[j] / sum * length;
      worst = std::max(worst, std::abs(ideal[j] - real[j]));
    }
  }
  return worst / longest;
}

RC_GTEST_PROP(Mixer, SharesStayWithinOneLongestDocument, ()) {
  const auto sources = *rc::gen::inRange<size_t>(1, 20);
  std::vector<double> weights;
  for (size_t i = 0; i < sources; ++i) weights.push_back(std::pow(*rc::gen::inRange(1, 100), 2));
  const auto seed = *rc::gen::inRange<uint64_t>(0, 1000);
  const auto kind = *rc::gen::inRange(0, 4);
  const SyntheticFeed::Lengths lognormal = SyntheticFeed::Lognormal(6.5, 1.2, 65536, seed);
  const SyntheticFeed::Lengths lengths = [&](uint16_t source, uint32_t number) -> uint32_t {
    switch (kind) {
      case 0: return 1000;
      case 1: return lognormal(source, number);
      case 2: return source % 3 == 0 ? 65536 : source % 3 == 1 ? 100 : 8000;
      default: return SyntheticFeed::Uniform(seed + source * 7919u + number) < 0.02 ? 65536 : 100;
    }
  };
  RC_ASSERT(Worst(weights, lengths, 1500) <= 1.0 + 1e-6);
}

// The rule as it is written down, without anything that makes it fast.
class SlowMixer {
 public:
  explicit SlowMixer(const std::vector<double>& weights) : shares_(weights.size()), owed_(weights.size(), 0) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    int64_t left = kWhole;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] > 0) shares_[i] = std::max<int64_t>(1, std::llround(weights[i] / sum * kWhole));
      left -= shares_[i];
    }
    *std::max_element(shares_.begin(), shares_.end()) += left;
  }
  uint32_t Pick() const {
    uint32_t best = Mixer::kNobody;
    double earliest = 0;
    for (uint32_t i = 0; i < owed_.size(); ++i) {
      if (owed_[i] < 0 || shares_[i] == 0) continue;
      const double when =
          (static_cast<double>(longest_) * kWhole - static_cast<double>(owed_[i])) / static_cast<double>(shares_[i]);
      if (best != Mixer::kNobody && !(when < earliest)) continue;
      best = i;
      earliest = when;
    }
    return best;
  }
  void Charge(uint32_t source, uint64_t amount) {
    longest_ = std::max(longest_, static_cast<int64_t>(amount));
    for (size_t i = 0; i < owed_.size(); ++i) owed_[i] += shares_[i] * static_cast<int64_t>(amount);
    owed_[source] -= kWhole * static_cast<int64_t>(amount);
  }

 private:
  static constexpr int64_t kWhole = 1 << 30;
  std::vector<int64_t> shares_, owed_;
  int64_t longest_ = 1;
};

RC_GTEST_PROP(Mixer, FewAndManySourcesArePickedByTheSameRule, ()) {
  const auto sources = *rc::gen::oneOf(rc::gen::inRange<size_t>(1, 40), rc::gen::inRange<size_t>(250, 330));
  const auto kind = *rc::gen::inRange(0, 3), amounts = *rc::gen::inRange(0, 4);
  const auto seed = *rc::gen::inRange<uint64_t>(1, 1000);
  std::vector<double> weights;
  for (size_t i = 0; i < sources; ++i) {
    const auto random = static_cast<double>(1 + SyntheticFeed::Mix(seed * 1000 + i) % 1000);
    weights.push_back(kind == 0 ? 1 : kind == 1 ? 1.0 / static_cast<double>(i + 1) : random * random);
    if (i > 0 && kind == 2 && SyntheticFeed::Mix(seed + i) % 5 == 0) weights.back() = 0;
  }
  Mixer mixer(sources);
  mixer.SetWeights(weights);
  SlowMixer rule(weights);
  for (uint64_t i = 0; i < 3000; ++i) {
    const uint32_t picked = mixer.Pick();
    RC_ASSERT(picked == rule.Pick());
    const uint64_t random = SyntheticFeed::Mix(seed + i);
    // One document each, some lengths that meet again, any length, and now and then one beyond what times are exact for.
    const uint64_t amount = amounts == 0   ? 1
                            : amounts == 1 ? uint64_t{64} << random % 4
                            : amounts == 2 ? 1 + random % 65536
                                           : (random % 500 == 0 ? 9'000'000 : 1 + random % 3'000'000);
    mixer.Charge(static_cast<uint16_t>(picked), amount);
    rule.Charge(picked, amount);
  }
}

TEST(Mixer, ALargestDeficitAloneWouldNotDo) {
  // Three sources of equal documents: the order by deficit alone lets one fall behind by 1.3 documents.
  for (double first : {1.0, 3.0, 10.0, 33.0, 70.0})
    for (double second : {1.0, 2.0, 5.0, 27.0})
      EXPECT_LE(Worst({first, second, 0.7}, [](uint16_t, uint32_t) { return 1000u; }, 3000), 1.0);
}

TEST(Mixer, GivesTheWeightOfAnEndedSourceToTheOthers) {
  Mixer mixer(3);
  mixer.SetWeights(std::vector<double>{0.5, 0.3, 0.2});
  for (int i = 0; i < 100; ++i) mixer.Charge(static_cast<uint16_t>(mixer.Pick()), 10);
  mixer.End(0);
  std::vector<int> drawn(3, 0);
  for (int i = 0; i < 100; ++i) {
    const auto source = static_cast<uint16_t>(mixer.Pick());
    ++drawn[source];
    mixer.Charge(source, 10);
  }
  EXPECT_EQ(drawn[0], 0);
  EXPECT_NEAR(drawn[1], 60, 1);
  EXPECT_NEAR(drawn[2], 40, 1);
  const std::vector<int64_t> owed = mixer.owed();
  EXPECT_EQ(std::accumulate(owed.begin(), owed.end(), int64_t{0}), 0);
  mixer.End(1);
  mixer.End(2);
  EXPECT_EQ(mixer.Pick(), Mixer::kNobody);
}

TEST(Mixer, ASourceWithoutWeightIsNotDrawnFromHoweverMuchItIsOwed) {
  Mixer mixer(2);
  mixer.SetWeights(std::vector<double>{0.9, 0.1});
  for (int i = 0; i < 5; ++i) mixer.Charge(0, 1000);  // the second is owed 500
  mixer.SetWeights(std::vector<double>{1, 0});
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(mixer.Pick(), 0u);
    mixer.Charge(0, 1000);
  }
}

TEST(Mixer, ASourceOfEmptyDocumentsGetsItsTurnsOnly) {
  Mixer mixer(2);
  mixer.SetWeights(std::vector<double>{0.5, 0.5});
  int other = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto source = static_cast<uint16_t>(mixer.Pick());
    other += source;
    mixer.Charge(source, source == 0 ? 0 : 1);
  }
  EXPECT_NEAR(other, 500, 1);
}

}  // namespace
}  // namespace headrace
