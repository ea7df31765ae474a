#include "base/random.h"

#include <bit>
#include <cmath>
#include <numbers>
#include <random>

namespace headrace {
namespace {

uint64_t SplitMix(uint64_t& state) {
  uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed) : seed_(seed) {
  for (uint64_t& word : state_) word = SplitMix(seed);
}

Random Random::FromEntropy() {
  std::random_device device;
  return Random(static_cast<uint64_t>(device()) << 32 | device());
}

uint64_t Random::Next() {
  uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Random::Below(uint64_t bound) {
  // The numbers above the last whole multiple of `bound` would favour small results.
  uint64_t threshold = -bound % bound;
  while (true) {
    uint64_t value = Next();
    if (value >= threshold) return value % bound;
  }
}

double Random::Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

double Random::Normal() {
  double radius = std::sqrt(-2 * std::log(1 - Uniform()));
  return radius * std::cos(2 * std::numbers::pi * Uniform());
}

double Random::LogNormal(double median, double sigma) { return median * std::exp(sigma * Normal()); }

std::string Random::Hex(size_t digits) {
  std::string out;
  while (out.size() < digits) out.push_back("0123456789abcdef"[Next() >> 60]);
  return out;
}

Random Random::Fork(std::string_view purpose) const {
  // The seed is mixed first: else seed 1 and purpose "0" would be seed 0 and purpose "1".
  uint64_t seed = seed_;
  uint64_t hash = SplitMix(seed) ^ 14695981039346656037ull;
  for (char c : purpose) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return Random(SplitMix(hash));
}

}  // namespace headrace
