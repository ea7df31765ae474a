// Which source is drawn from next, so that what was drawn follows the weights.
//
// What a source is owed grows by its weight with everything that is drawn, and shrinks by what is drawn from it. Only sources that are not
// ahead may be drawn from; among them comes first the one that would be the first to fall behind by the longest document seen. So nobody is
// ever ahead by more than the document that was drawn last, or behind by more than the longest one. (Always to take the one that is furthest behind is
// simpler, and lets others fall behind by more than one and a half.)
//
// All in integers, so that it is the same on every machine; the sum of what is owed is always 0.
//
// Not thread-safe. A pick and its charge cost some nanoseconds for a few sources, and some tens of them for hundreds.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace headrace {

class Mixer {
 public:
  explicit Mixer(size_t sources = 0) { Resize(sources); }

  // More sources; never fewer.
  void Resize(size_t sources);
  // From now on. Any numbers of 0 or more; what an ended source, or one without weight, was owed goes to the others.
  void SetWeights(std::span<const double> weights);
  // Many sources are looked at in blocks of so many.
  static constexpr size_t kBlock = 16;
  // A source; kNobody if none with a weight is left.
  static constexpr uint32_t kNobody = UINT32_MAX;
  [[gnu::always_inline]] uint32_t Pick() {
    if (stale_) [[unlikely]]
      Index();
    switch (way_) {
      case kFour: return PickOfFew<4>();
      case kEight: return PickOfEight();
      case kSixteen: return PickOfSixteen();
      case kThirtyTwo: return PickOfThirtyTwo();
      case kMany: return PickOfMany();
      case kExactly: break;
    }
    return PickExactly();
  }
  // `amount` tokens (or samples) were drawn from it; an empty document counts as one, so that a source of nothing else cannot be drawn from for ever.
  [[gnu::always_inline]] void Charge(uint16_t source, uint64_t amount) {
    const auto drawn = static_cast<int64_t>(std::max<uint64_t>(amount, 1));
    owed_[source] -= kWhole * drawn;
    since_ += drawn;
    if (drawn > longest_ || since_ > kMostSince) [[unlikely]] {
      longest_ = std::max(longest_, drawn);
      Settle();
    } else if (!stale_) {
      if (way_ == kMany)
        Follow(source);
      else if (way_ != kExactly)
        few_.Set(source, owed_[source], limit_);
    }
  }
  // What was drawn from it goes back and will be drawn once more, with the weights that it was drawn with still in force.
  void Refund(uint16_t source, uint64_t amount);
  // Nobody is owed more than the longest document any more: what was missed under other weights is not made good under these.
  void Forgive();
  // It has nothing more: its weight goes to the others.
  void End(uint16_t source);

  size_t size() const { return owed_.size(); }
  bool ended(uint16_t source) const { return ended_[source]; }
  const std::vector<double>& weights() const { return weights_; }
  // Tokens that the source is behind (or, negative, ahead).
  double Behind(uint16_t source) const { return static_cast<double>(Owed(source)) / kWhole; }

  // For a state; `owed` is in 2^-30 tokens.
  std::vector<int64_t> owed() const;
  int64_t longest() const { return longest_; }
  void Restore(std::span<const int64_t> owed, std::span<const uint16_t> ended, int64_t longest, std::span<const double> weights);

 private:
  static constexpr int64_t kWhole = 1 << 30;
  // What was drawn since the last settlement stays far from what a share of it overflows at.
  static constexpr int64_t kMostSince = int64_t{1} << 31;
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr double kNoShare = std::numeric_limits<double>::quiet_NaN();

  // How a pick is made. All of them answer alike: `PickExactly` is the rule, a division for each source; the others compare times that are known beforehand
  // but for rounding, and ask the rule where two are so near that rounding decides.
  enum Way : uint8_t { kFour, kEight, kSixteen, kThirtyTwo, kMany, kExactly };
  // Up to 32 sources, side by side; places without a source, and sources without a share, are never due.
  struct FewSources {
    static constexpr int64_t kNever = 0x7FF0'0000'0000'0000;  // infinity
    static constexpr size_t kMost = 32;
    static constexpr int64_t kPlace = kMost - 1;
    std::array<int64_t, kMost> owed, shares;
    std::array<double, kMost> inverse;
    std::array<int64_t, kMost> due;  // the bits of a number that is not negative ascend with it; the lowest ones say whose it is
    void Set(size_t i, int64_t owes, int64_t limit) {
      owed[i] = owes;
      due[i] = (std::bit_cast<int64_t>(static_cast<double>(limit - owes) * inverse[i]) & ~kPlace) | static_cast<int64_t>(i);
    }
  };

  void Share();
  // What everybody is owed, written down; the index has to be made again.
  void Settle();
  void Index();
  uint32_t PickExactly() const;
  uint32_t PickOfEight() const;
  uint32_t PickOfSixteen() const;
  uint32_t PickOfThirtyTwo() const;
  uint32_t PickOfMany();
  void Follow(uint16_t source);

  int64_t Owed(size_t i) const { return owed_[i] + shares_[i] * since_; }
  // When it would be behind by the longest document, in tokens from now. A number that is the same on every machine, and so what ties are decided by.
  double When(size_t i) const { return (static_cast<double>(longest_) * kWhole - static_cast<double>(Owed(i))) / divisors_[i]; }
  // Times that differ by less may be the same by the rule, or the other way round.
  double Near(double due) const { return (2 * std::abs(due) + static_cast<double>(since_)) * 0x1p-42; }

  // Whose turn it is cannot be foretold, so that a processor would take every other branch wrongly: there is none, and compilers leave it so with integers.
  template <size_t n>
  [[gnu::always_inline]] uint32_t PickOfFew() const {
    int64_t first = FewSources::kNever, second = FewSources::kNever;
    std::array<int64_t, n> due;
    for (size_t i = 0; i < n; ++i) {
      const int64_t ahead = (few_.owed[i] + few_.shares[i] * since_) >> 63;  // all bits, or none
      due[i] = (few_.due[i] & ~ahead) | (FewSources::kNever & ahead);
    }
    // As a tree and not one after the other: each waits for the one before it.
    for (size_t i = 0; i < n; i += 4) {
      const int64_t a = std::min(due[i], due[i + 1]), b = std::min(due[i + 2], due[i + 3]);
      const int64_t c = std::max(due[i], due[i + 1]), d = std::max(due[i + 2], due[i + 3]);
      const int64_t least = std::min(a, b), next = std::min(std::max(a, b), std::min(c, d));
      second = std::min(std::max(first, least), std::min(second, next));
      first = std::min(first, least);
    }
    const auto earliest = std::bit_cast<double>(first & ~FewSources::kPlace);
    // A negative time, of somebody who is more behind than the longest document, compares the wrong way round.
    if (first >= 0 && std::bit_cast<double>(second & ~FewSources::kPlace) - earliest > Near(earliest)) [[likely]]
      return static_cast<uint32_t>(first & FewSources::kPlace);
    return PickExactly();
  }

  std::vector<double> weights_;
  std::vector<int64_t> shares_;  // sum to kWhole, or all 0
  std::vector<double> divisors_;  // the shares as they are divided by
  // What each was owed when `since_` was 0, less what was drawn from it since then: so a draw changes one number and not all.
  std::vector<int64_t> owed_;
  int64_t since_ = 0;  // tokens drawn, from all
  std::vector<bool> ended_;
  int64_t longest_ = 1;

  // The index. Times are counted like `since_`.
  bool stale_ = true;
  Way way_ = kExactly;
  int64_t limit_ = 0;  // the longest document as something owed
  FewSources few_;
  // Many sources, and blocks of them: who is not ahead and when it is due, who is ahead and from when on not; kNever in the other of the two.
  std::vector<double> due_, ahead_until_, inverse_;
  std::vector<double> first_due_, first_until_;  // by block, and whole blocks of those
};

}  // namespace headrace
