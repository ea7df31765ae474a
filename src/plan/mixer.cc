#include "plan/mixer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace headrace {

void Mixer::Resize(size_t sources) {
  if (sources <= owed_.size()) return;
  weights_.resize(sources, 0);
  shares_.resize(sources, 0);
  divisors_.resize(sources, kNoShare);
  owed_.resize(sources, 0);
  ended_.resize(sources, false);
}

void Mixer::SetWeights(std::span<const double> weights) {
  Resize(weights.size());
  if (std::equal(weights.begin(), weights.end(), weights_.begin(), weights_.end())) return;
  std::fill(weights_.begin(), weights_.end(), 0);
  std::copy(weights.begin(), weights.end(), weights_.begin());
  Share();
}

void Mixer::Share() {
  double sum = 0;
  for (size_t i = 0; i < weights_.size(); ++i)
    if (!ended_[i]) sum += weights_[i];
  std::fill(shares_.begin(), shares_.end(), 0);
  std::fill(divisors_.begin(), divisors_.end(), kNoShare);
  if (!(sum > 0)) return;
  int64_t left = kWhole;
  size_t largest = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (ended_[i] || !(weights_[i] > 0)) continue;
    // However small, a weight is not 0: its source is drawn from some day.
    shares_[i] = std::max<int64_t>(1, std::llround(weights_[i] / sum * kWhole));
    left -= shares_[i];
    if (shares_[i] > shares_[largest]) largest = i;
  }
  shares_[largest] += left;
  for (size_t i = 0; i < shares_.size(); ++i)
    if (shares_[i] > 0) divisors_[i] = static_cast<double>(shares_[i]);

  for (size_t i = 0; i < owed_.size(); ++i) {
    if (shares_[i] > 0 || owed_[i] == 0) continue;
    const int64_t whole = owed_[i] / kWhole, part = owed_[i] % kWhole;
    int64_t rest = owed_[i];
    owed_[i] = 0;
    for (size_t j = 0; j < owed_.size(); ++j) {
      const int64_t given = whole * shares_[j] + part * shares_[j] / kWhole;
      owed_[j] += given;
      rest -= given;
    }
    owed_[largest] += rest;
  }
}

uint32_t Mixer::Pick() const {
  size_t best = owed_.size();
  double earliest = std::numeric_limits<double>::infinity();
  const double limit = static_cast<double>(longest_) * kWhole;
  // Whose turn it is cannot be foretold, so that a processor would take every other branch wrongly: there is none. Who is ahead, or has no share, is due
  // at a time that is not a number, and so never earlier.
  for (size_t i = 0; i < owed_.size(); ++i) {
    const double when = (limit - static_cast<double>(owed_[i])) / divisors_[i];
    const auto due = std::bit_cast<double>(std::bit_cast<uint64_t>(when) | static_cast<uint64_t>(owed_[i] >> 63));
    best = due < earliest ? i : best;
    earliest = due < earliest ? due : earliest;
  }
  if (best == owed_.size()) {
    // Only after a state that was not ours: the sum of what is owed is 0.
    for (size_t i = 0; i < owed_.size(); ++i)
      if (shares_[i] > 0 && (best == owed_.size() || owed_[i] > owed_[best])) best = i;
    if (best == owed_.size()) return kNobody;
  }
  return static_cast<uint32_t>(best);
}

void Mixer::Charge(uint16_t source, uint64_t amount) {
  const auto drawn = static_cast<int64_t>(std::max<uint64_t>(amount, 1));
  longest_ = std::max(longest_, drawn);
  for (size_t i = 0; i < owed_.size(); ++i) owed_[i] += shares_[i] * drawn;
  owed_[source] -= kWhole * drawn;
}

void Mixer::Refund(uint16_t source, uint64_t amount) {
  const auto drawn = static_cast<int64_t>(std::max<uint64_t>(amount, 1));
  for (size_t i = 0; i < owed_.size(); ++i) owed_[i] -= shares_[i] * drawn;
  owed_[source] += kWhole * drawn;
}

void Mixer::Forgive() {
  int64_t most = 0;
  for (int64_t owed : owed_) most = std::max(most, std::abs(owed));
  const int64_t limit = longest_ * kWhole, times = (most + limit - 1) / limit;
  if (times <= 1) return;
  int64_t sum = 0;
  for (int64_t& owed : owed_) sum += owed /= times;
  owed_[0] -= sum;  // what rounding left: less than a token
}

void Mixer::End(uint16_t source) {
  ended_[source] = true;
  Share();
}

void Mixer::Restore(std::span<const int64_t> owed, std::span<const uint16_t> ended, int64_t longest,
                    std::span<const double> weights) {
  longest_ = std::max<int64_t>(longest, 1);
  Resize(std::max(owed.size(), weights.size()));
  std::fill(weights_.begin(), weights_.end(), 0);
  std::copy(weights.begin(), weights.end(), weights_.begin());
  std::fill(owed_.begin(), owed_.end(), 0);
  std::copy(owed.begin(), owed.end(), owed_.begin());
  std::fill(ended_.begin(), ended_.end(), false);
  for (uint16_t source : ended)
    if (source < ended_.size()) ended_[source] = true;
  Share();
}

}  // namespace headrace
