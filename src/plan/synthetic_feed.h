// A feed without a lake: sources of samples of given lengths. For tests, benchmarks and dry runs.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "plan/feed.h"

namespace headrace {

class SyntheticFeed : public SampleFeed {
 public:
  // The length of a sample by its source and number; a pure function.
  using Lengths = std::function<uint32_t(uint16_t source, uint32_t number)>;

  // `counts`: samples of each source; UINT32_MAX: without end.
  SyntheticFeed(std::vector<uint32_t> counts, Lengths lengths)
      : counts_(std::move(counts)), next_(counts_.size(), 0), lengths_(std::move(lengths)) {}

  using SampleFeed::Next;
  Result<bool> Next(uint16_t source, SampleInfo& sample) override {
    if (next_[source] >= counts_[source]) return false;
    Make(source, next_[source]++, sample);
    return true;
  }
  Result<SampleInfo> Again(const SampleRef& ref) override {
    SampleInfo sample;
    Make(ref.source, ref.position.index, sample);
    return sample;
  }

  // Where a strand's cursors stand, which a real feed keeps itself.
  const std::vector<uint32_t>& positions() const { return next_; }
  void Seek(std::vector<uint32_t> positions) { next_ = std::move(positions); }

  // Numbers that look random and are the same everywhere.
  static uint64_t Mix(uint64_t number) {
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9u;
    number = (number ^ (number >> 27)) * 0x94D049BB133111EBu;
    return number ^ (number >> 31);
  }
  static double Uniform(uint64_t number) { return (static_cast<double>(Mix(number) >> 11) + 0.5) * 0x1p-53; }
  // Documents of a corpus: lognormal, at most `longest`.
  static Lengths Lognormal(double mean_of_log, double deviation, uint32_t longest, uint64_t seed = 1) {
    return [=](uint16_t source, uint32_t number) {
      const uint64_t at = Mix(seed * 1000003 + source) + uint64_t{number} * 0x9E3779B97F4A7C15u;
      const double normal = std::sqrt(-2 * std::log(Uniform(at))) * std::cos(2 * 3.14159265358979323846 * Uniform(~at));
      const double length = std::exp(mean_of_log + deviation * normal);
      return length >= longest ? longest : static_cast<uint32_t>(length) + 1;
    };
  }

 private:
  void Make(uint16_t source, uint32_t number, SampleInfo& info) const {
    info.ref = {source, {0, 0, 0, number}};
    info.length = lengths_(source, number);
    info.bytes = uint64_t{info.length} * 4;
    info.label_tokens = info.length > 0 ? info.length - 1 : 0;
  }

  const std::vector<uint32_t> counts_;
  std::vector<uint32_t> next_;
  const Lengths lengths_;
};

}  // namespace headrace
