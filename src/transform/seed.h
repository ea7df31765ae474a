// Seeds made from seeds.
#pragma once

#include <cstdint>

namespace headrace {

// Another seed for each place (SplitMix64's finaliser): neighbouring places must not have neighbouring seeds.
constexpr uint64_t MixSeed(uint64_t seed, uint64_t place) {
  uint64_t x = seed + 0x9e3779b97f4a7c15ULL * (place + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace headrace
