#include "source/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/codec.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"

namespace headrace {
namespace {

void Shuffle(std::vector<uint32_t>& items, Random random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.Below(i)]);
}

std::vector<uint32_t> Ascending(uint32_t count) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

std::vector<uint32_t> GranuleOrder(const OrderSeed& seed, uint32_t epoch, uint32_t count) {
  std::vector<uint32_t> order = Ascending(count);
  if (seed.shuffle) Shuffle(order, Random(seed.seed).Fork(Cat("source/", seed.source, "/granules/", epoch)));
  return order;
}

uint32_t GranulesOfStrand(uint32_t granules, uint32_t strands, uint16_t strand) {
  return strand < granules ? (granules - strand - 1) / strands + 1 : 0;
}

uint32_t GroupsOfStrand(uint32_t granules, uint32_t strands, uint16_t strand, uint32_t granules_per_group) {
  return (GranulesOfStrand(granules, strands, strand) + granules_per_group - 1) / granules_per_group;
}

std::vector<uint32_t> PlacesOfGroup(uint32_t granules, uint32_t strands, uint16_t strand, uint32_t granules_per_group,
                                    uint32_t group) {
  const uint64_t mine = GranulesOfStrand(granules, strands, strand);
  const uint64_t begin = uint64_t{group} * granules_per_group;
  const uint64_t end = std::min(mine, begin + granules_per_group);
  std::vector<uint32_t> places;
  for (uint64_t i = begin; i < end; ++i) places.push_back(static_cast<uint32_t>(strand + i * strands));
  return places;
}

EpochCut CutOfStrand(const std::vector<uint64_t>& sizes, const std::vector<uint32_t>& order, uint32_t strands, uint16_t strand,
                     uint32_t granules_per_group, double share) {
  uint64_t before = 0, mine = 0;  // of the strands before it, and its own
  for (uint32_t place = 0; place < order.size(); ++place) {
    if (place % strands < strand) before += sizes[order[place]];
    if (place % strands == strand) mine += sizes[order[place]];
  }
  const auto part = [&](uint64_t size) { return static_cast<uint64_t>(std::llround(share * static_cast<double>(size))); };
  uint64_t left = part(before + mine) - part(before);
  const auto granules = static_cast<uint32_t>(order.size());
  const uint32_t groups = GroupsOfStrand(granules, strands, strand, granules_per_group);
  for (uint32_t group = 0; group < groups; ++group) {
    uint64_t size = 0;
    for (uint32_t place : PlacesOfGroup(granules, strands, strand, granules_per_group, group)) size += sizes[order[place]];
    if (left < size) return {group, static_cast<double>(left) / static_cast<double>(size), size};
    left -= size;
  }
  return {groups, 0, 0};
}

uint64_t PieceSeed(const OrderSeed& seed, uint32_t epoch, uint32_t first_granule, uint32_t piece) {
  return Random(seed.seed).Fork(Cat("source/", seed.source, "/piece/", epoch, "/", first_granule, "/", piece)).Next();
}

std::vector<uint32_t> PieceOrder(const OrderSeed& seed, uint64_t piece_seed, uint32_t rows,
                                 const std::vector<uint32_t>& group_of) {
  std::vector<uint32_t> order = Ascending(rows);
  if (!seed.shuffle) return order;
  Random random = Random(piece_seed).Fork("order");
  if (group_of.empty()) {
    Shuffle(order, random);
    return order;
  }
  std::vector<uint32_t> starts;
  for (uint32_t row = 0; row < rows; ++row) {
    if (row == 0 || group_of[row] != group_of[row - 1]) starts.push_back(row);
  }
  Shuffle(starts, random);
  order.clear();
  for (uint32_t start : starts) {
    for (uint32_t row = start; row < rows && group_of[row] == group_of[start]; ++row) order.push_back(row);
  }
  return order;
}

bool IsHeldOut(std::string_view key, double fraction) {
  if (fraction <= 0) return false;
  const Sha256Digest digest = Sha256Of(key);
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | digest[i];
  return static_cast<double>(number >> 11) * 0x1.0p-53 < fraction;
}

}  // namespace headrace
