#include "plan/mixer.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

namespace headrace {
namespace {

constexpr size_t kBlock = Mixer::kBlock;

// The earliest of a block; several chains of comparisons, so that they run side by side.
double Least(const double* times) {
  std::array<double, 4> first = {times[0], times[1], times[2], times[3]};
  for (size_t i = 4; i < kBlock; i += 4)
    for (size_t j = 0; j < 4; ++j) first[j] = times[i + j] < first[j] ? times[i + j] : first[j];
  const double a = first[0] < first[1] ? first[0] : first[1], b = first[2] < first[3] ? first[2] : first[3];
  return a < b ? a : b;
}

// Which of a block are not later: a bit for each, and no branch.
uint32_t NotLater(const double* times, double than) {
  uint32_t bits = 0;
#ifdef __SSE2__
  const __m128d limit = _mm_set1_pd(than);
  for (uint32_t i = 0; i < kBlock; i += 2)
    bits |= static_cast<uint32_t>(_mm_movemask_pd(_mm_cmple_pd(_mm_loadu_pd(times + i), limit))) << i;
#else
  for (uint32_t i = 0; i < kBlock; ++i) bits |= static_cast<uint32_t>(times[i] <= than) << i;
#endif
  return bits;
}

}  // namespace

void Mixer::Resize(size_t sources) {
  if (sources <= owed_.size()) return;
  Settle();
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

std::vector<int64_t> Mixer::owed() const {
  std::vector<int64_t> owed(owed_.size());
  for (size_t i = 0; i < owed.size(); ++i) owed[i] = Owed(i);
  return owed;
}

void Mixer::Settle() {
  for (size_t i = 0; i < owed_.size(); ++i) owed_[i] = Owed(i);
  since_ = 0;
  stale_ = true;
}

void Mixer::Share() {
  Settle();
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

void Mixer::Index() {
  stale_ = false;
  // Beyond these numbers times are rounded too much for the other ways.
  constexpr int64_t kMostExact = int64_t{1} << 52;
  limit_ = longest_ <= kMostExact / kWhole ? longest_ * kWhole : 0;
  const bool exact =
      limit_ > 0 && std::all_of(owed_.begin(), owed_.end(), [](int64_t owed) { return owed < kMostExact && owed > -kMostExact; });
  const size_t count = owed_.size();
  way_ = !exact ? kExactly : count <= 4 ? kFour : count <= 8 ? kEight : count <= 16 ? kSixteen : count <= 32 ? kThirtyTwo : kMany;
  if (way_ < kMany) {
    few_.owed.fill(-1);
    few_.shares.fill(0);
    few_.inverse.fill(kNever);
    few_.due.fill(FewSources::kNever);
    for (size_t i = 0; i < count; ++i) {
      few_.shares[i] = shares_[i];
      if (shares_[i] > 0) few_.inverse[i] = 1 / divisors_[i];
      few_.Set(i, Owed(i), limit_);
    }
  } else if (way_ == kMany) {
    const size_t blocks = (count + kBlock - 1) / kBlock;
    for (std::vector<double>* times : {&due_, &ahead_until_, &inverse_}) times->assign(blocks * kBlock, kNever);
    const size_t whole_blocks = (blocks + kBlock - 1) / kBlock * kBlock;
    for (std::vector<double>* times : {&first_due_, &first_until_}) times->assign(whole_blocks, kNever);
    for (size_t i = 0; i < count; ++i) {
      if (shares_[i] == 0) continue;
      inverse_[i] = 1 / divisors_[i];
      (owed_[i] >= 0 ? due_ : ahead_until_)[i] = owed_[i] >= 0 ? static_cast<double>(limit_ - owed_[i]) * inverse_[i]
                                                               : static_cast<double>((shares_[i] - 1 - owed_[i]) / shares_[i]);
    }
    for (size_t block = 0; block < blocks; ++block) {
      first_due_[block] = Least(&due_[block * kBlock]);
      first_until_[block] = Least(&ahead_until_[block * kBlock]);
    }
  }
}

// It was drawn from.
void Mixer::Follow(uint16_t source) {
  if (shares_[source] == 0) return;
  const bool ahead = Owed(source) < 0;
  const double due = static_cast<double>(limit_ - owed_[source]) * inverse_[source];
  // Rounded up: the first token at which it is not ahead any more.
  const auto until = static_cast<double>((shares_[source] - 1 - owed_[source]) / shares_[source]);
  due_[source] = ahead ? kNever : due;
  ahead_until_[source] = ahead ? until : kNever;
  const size_t block = source / kBlock;
  first_due_[block] = Least(&due_[block * kBlock]);
  first_until_[block] = std::min(first_until_[block], ahead_until_[source]);
}

uint32_t Mixer::PickOfMany() {
  const auto now = static_cast<double>(since_);
  const size_t blocks = first_due_.size();
  // Who is not ahead any more: nearly always one source or none.
  for (size_t begin = 0; begin < blocks; begin += kBlock)
    for (uint32_t some = NotLater(&first_until_[begin], now); some != 0; some &= some - 1) {
      const size_t block = begin + static_cast<size_t>(std::countr_zero(some));
      for (uint32_t left = NotLater(&ahead_until_[block * kBlock], now); left != 0; left &= left - 1) {
        const size_t i = block * kBlock + static_cast<size_t>(std::countr_zero(left));
        ahead_until_[i] = kNever;
        due_[i] = static_cast<double>(limit_ - owed_[i]) * inverse_[i];
        first_due_[block] = std::min(first_due_[block], due_[i]);
      }
      first_until_[block] = Least(&ahead_until_[block * kBlock]);
    }
  double earliest = kNever;
  for (size_t begin = 0; begin < blocks; begin += kBlock) earliest = std::min(earliest, Least(&first_due_[begin]));
  if (earliest == kNever) return PickExactly();
  // Those that may be the first: nearly always one.
  const double latest = earliest + Near(earliest);
  uint32_t best = kNobody;
  double when = 0;
  bool alone = true;
  for (size_t begin = 0; begin < blocks; begin += kBlock)
    for (uint32_t some = NotLater(&first_due_[begin], latest); some != 0; some &= some - 1) {
      const size_t block = begin + static_cast<size_t>(std::countr_zero(some));
      for (uint32_t left = NotLater(&due_[block * kBlock], latest); left != 0; left &= left - 1) {
        const auto i = static_cast<uint32_t>(block * kBlock) + static_cast<uint32_t>(std::countr_zero(left));
        if (best == kNobody) {
          best = i;
          continue;
        }
        if (std::exchange(alone, false)) when = When(best);
        if (const double other = When(i); other < when) {
          when = other;
          best = i;
        }
      }
    }
  return best;
}

uint32_t Mixer::PickOfEight() const { return PickOfFew<8>(); }
uint32_t Mixer::PickOfSixteen() const { return PickOfFew<16>(); }
uint32_t Mixer::PickOfThirtyTwo() const { return PickOfFew<32>(); }

uint32_t Mixer::PickExactly() const {
  size_t best = owed_.size();
  double earliest = kNever;
  for (size_t i = 0; i < owed_.size(); ++i) {
    if (Owed(i) < 0) continue;
    if (const double when = When(i); when < earliest) {
      best = i;
      earliest = when;
    }
  }
  if (best == owed_.size()) {
    // Only after a state that was not ours: the sum of what is owed is 0.
    for (size_t i = 0; i < owed_.size(); ++i)
      if (shares_[i] > 0 && (best == owed_.size() || Owed(i) > Owed(best))) best = i;
    if (best == owed_.size()) return kNobody;
  }
  return static_cast<uint32_t>(best);
}

void Mixer::Refund(uint16_t source, uint64_t amount) {
  const auto drawn = static_cast<int64_t>(std::max<uint64_t>(amount, 1));
  owed_[source] += kWhole * drawn;
  since_ -= drawn;
  Settle();
}

void Mixer::Forgive() {
  Settle();
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
  Settle();
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
