// The order of a source, without its rows: which granules a strand reads in an epoch, and how a piece is shuffled.
//
// Pure functions of their arguments; nothing here depends on the machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

struct OrderSeed {
  uint64_t seed = 0;
  std::string source;
  bool shuffle = true;
};

// 0 … count-1, in the order of this epoch.
std::vector<uint32_t> GranuleOrder(const OrderSeed& seed, uint32_t epoch, uint32_t count);

// How many of `granules` are dealt to the strand, and how many groups they make.
uint32_t GranulesOfStrand(uint32_t granules, uint32_t strands, uint16_t strand);
uint32_t GroupsOfStrand(uint32_t granules, uint32_t strands, uint16_t strand, uint32_t granules_per_group);
// Those of one group, as places in the order of the epoch.
std::vector<uint32_t> PlacesOfGroup(uint32_t granules, uint32_t strands, uint16_t strand, uint32_t granules_per_group,
                                    uint32_t group);

// Where a part of an epoch ends for a strand: before group `group`, or inside of it, after `fraction` of its rows.
struct EpochCut {
  uint32_t group = 0;
  double fraction = 0;
  uint64_t size = 0;  // of that group, in the unit of `sizes`
};
// `sizes` are those of the granules, `order` is GranuleOrder's. The strands' parts sum to `share` (0 to 1) of everything, rounded once.
EpochCut CutOfStrand(const std::vector<uint64_t>& sizes, const std::vector<uint32_t>& order, uint32_t strands, uint16_t strand,
                     uint32_t granules_per_group, double share);

// A number of its own for each piece: what transforms draw from.
uint64_t PieceSeed(const OrderSeed& seed, uint32_t epoch, uint32_t first_granule, uint32_t piece);
// `rows` row numbers; with groups, the rows of one follow each other in their own order. `group_of`, if not empty, says for every row to which group it belongs;
// rows of a group are neighbours.
std::vector<uint32_t> PieceOrder(const OrderSeed& seed, uint64_t piece_seed, uint32_t rows,
                                 const std::vector<uint32_t>& group_of = {});

// True if this key (a value of the hold-out column, or a file and row) belongs to the held-out share. The same for every seed: what was held
// out of one run is held out of the next.
bool IsHeldOut(std::string_view key, double fraction);

}  // namespace headrace
