// Which lane each sequence of a step goes to, so that all of them have about the same to do.
//
// Inside one step only. The largest lane is never larger than in the order of arrival. Neighbouring lanes are chosen so that groups of them are even too, for every size
// that divides the lanes; inside a lane the dearest comes first, so that the j-th of all lanes cost about the same.
//
// Pure functions; the same answer on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "recipe/recipe.h"

namespace headrace {

using Lanes = std::vector<std::vector<uint32_t>>;  // indices of items, by lane

struct BalanceOptions {
  BalanceMethod method = BalanceMethod::kKarmarkarKarp;
  bool same_number = true;  // each lane gets as many items as every other (one more or less where they do not divide)
  // Items with the same number, other than 0, must share a lane; empty: none has to. With `same_number` such a set may not be larger than a lane.
  std::span<const uint32_t> bonds;
};

Lanes Balance(std::span<const double> costs, uint32_t lanes, const BalanceOptions& options);
// Neighbours share a lane, as they came.
Lanes InOrder(size_t items, uint32_t lanes);

// Largest over mean, of groups of `group` neighbouring lanes; 1 if nothing costs anything.
double Spread(std::span<const double> costs, const Lanes& lanes, uint32_t group = 1);

}  // namespace headrace
