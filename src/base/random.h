// Random numbers that are the same everywhere for the same seed: on every machine, compiler and standard library.
//
// xoshiro256**, seeded by splitmix64. Not thread-safe: give each owner its own by `Fork`. Not for secrets.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace headrace {

class Random {
 public:
  explicit Random(uint64_t seed);
  // Seeded by the operating system, for nonces and jitter.
  static Random FromEntropy();

  uint64_t Next();
  // Uniform in [0, bound); bound > 0. Unbiased.
  uint64_t Below(uint64_t bound);
  // Uniform in [0, 1).
  double Uniform();
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  bool Chance(double probability) { return Uniform() < probability; }
  // Standard normal, and the log-normal with this median and sigma. These two go through the machine's mathematical functions,
  // whose last bit may differ: for latencies, not for anything that must be the same everywhere.
  double Normal();
  double LogNormal(double median, double sigma);
  // `digits` hexadecimal digits.
  std::string Hex(size_t digits);

  // An independent generator for `purpose`; the same for the same seed and purpose, however much was drawn here.
  Random Fork(std::string_view purpose) const;

 private:
  uint64_t seed_;
  std::array<uint64_t, 4> state_;
};

}  // namespace headrace
