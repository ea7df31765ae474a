// Which source is drawn from next, so that what was drawn follows the weights.
//
// What a source is owed grows by its weight with everything that is drawn, and shrinks by what is drawn from it. Only sources that are not
// ahead may be drawn from; among them comes first the one that would be the first to fall behind by the longest document seen. So nobody is
// ever ahead by more than the document that was drawn last, or behind by more than the longest one. (Always to take the one that is furthest behind is
// simpler, and lets others fall behind by more than one and a half.)
//
// All in integers, so that it is the same on every machine; the sum of what is owed is always 0.
//
// Not thread-safe. Picking costs a pass over the sources.
#pragma once

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
  // A source; kNobody if none with a weight is left.
  static constexpr uint32_t kNobody = UINT32_MAX;
  uint32_t Pick() const;
  // `amount` tokens (or samples) were drawn from it; an empty document counts as one, so that a source of nothing else cannot be drawn from for ever.
  void Charge(uint16_t source, uint64_t amount);
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
  double Behind(uint16_t source) const { return static_cast<double>(owed_[source]) / kWhole; }

  // For a state; `owed` is in 2^-30 tokens.
  const std::vector<int64_t>& owed() const { return owed_; }
  int64_t longest() const { return longest_; }
  void Restore(std::span<const int64_t> owed, std::span<const uint16_t> ended, int64_t longest, std::span<const double> weights);

 private:
  static constexpr int64_t kWhole = 1 << 30;
  void Share();

  std::vector<double> weights_;
  std::vector<int64_t> shares_;  // sum to kWhole, or all 0
  static constexpr double kNoShare = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> divisors_;  // the shares as they are divided by
  std::vector<int64_t> owed_;
  std::vector<bool> ended_;
  int64_t longest_ = 1;
};

}  // namespace headrace
