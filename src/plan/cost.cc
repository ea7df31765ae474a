#include "plan/cost.h"

#include <algorithm>
#include <cmath>

namespace headrace {

double TokenCost(const Sequence& sequence) {
  double tokens = 0;
  for (const Placed& piece : sequence.pieces) tokens += std::max<uint32_t>(piece.length, 1);
  return tokens;
}

double AttentionCost(const Sequence& sequence, uint64_t hidden, uint64_t layers) {
  // Forward and backward: 6 operations for each of 12·hidden² weights of a layer and each token; 2 · 6 · hidden for each pair of tokens, half of
  // which a causal mask leaves.
  const auto width = static_cast<double>(hidden);
  double linear = 0, pairs = 0;
  for (const Placed& piece : sequence.pieces) {
    const auto length = static_cast<double>(piece.length);
    linear += length;
    pairs += length * length;
  }
  return static_cast<double>(layers) * (72 * width * width * linear + 6 * width * pairs);
}

void SetCosts(const CostSpec& spec, const SequenceCost& cost, std::span<Sequence> sequences) {
  for (Sequence& sequence : sequences) {
    if (sequence.pieces.empty())
      sequence.cost = 0;
    else if (cost)
      sequence.cost = cost(sequence);
    else if (spec.kind == CostSpec::kAttention)
      sequence.cost = AttentionCost(sequence, spec.hidden, spec.layers);
    else
      sequence.cost = TokenCost(sequence);
    // An expression may divide by zero; what is compared has to be a number.
    if (!std::isfinite(sequence.cost) || sequence.cost < 0) sequence.cost = 0;
  }
}

}  // namespace headrace
