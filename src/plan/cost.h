// What a sequence costs the accelerator that gets it, as the recipe's `cost` says.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "plan/planner.h"
#include "recipe/recipe.h"

namespace headrace {

// Tokens: their number, and 1 for each sample of a recipe that tokenises nothing.
double TokenCost(const Sequence& sequence);
// Floating-point operations of a decoder's training step, up to a factor: documents do not see each other, so that what attention costs is the sum over
// documents of the square of their length.
double AttentionCost(const Sequence& sequence, uint64_t hidden, uint64_t layers);

// The columns, other than `length` and `bytes`, that the recipe's cost looks at: what a feed puts into `SampleInfo::numbers`, in this order.
std::vector<std::string> CostColumns(const CostSpec& spec);
// The sum of the expression over a sequence's pieces. A part of a sample has its part of the sample's bytes; the length of any column is that of the
// piece in tokens.
Result<SequenceCost> ExpressionCost(const CostSpec& spec);

// Sets every sequence's cost. `cost` is asked instead of what the recipe says, where there is one: so a Python callable, which is run elsewhere,
// gets in.
void SetCosts(const CostSpec& spec, const SequenceCost& cost, std::span<Sequence> sequences);

}  // namespace headrace
