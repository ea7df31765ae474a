// What a sequence costs the accelerator that gets it, as the recipe's `cost` says.
#pragma once

#include <functional>
#include <span>

#include "plan/planner.h"
#include "recipe/recipe.h"

namespace headrace {

// Tokens: their number, and 1 for each sample of a recipe that tokenises nothing.
double TokenCost(const Sequence& sequence);
// Floating-point operations of a decoder's training step, up to a factor: documents do not see each other, so that what attention costs is the sum over
// documents of the square of their length.
double AttentionCost(const Sequence& sequence, uint64_t hidden, uint64_t layers);

// Sets every sequence's cost. `cost` is asked instead of what the recipe says, where there is one: so a Python callable, which is run elsewhere,
// gets in.
void SetCosts(const CostSpec& spec, const SequenceCost& cost, std::span<Sequence> sequences);

}  // namespace headrace
