// A step from its sequences: costs, counts and lanes.
#include "plan/balance.h"
#include "plan/cost.h"
#include "plan/planner_parts.h"

namespace headrace {

SequenceCost CostOf(const Recipe& recipe, SequenceCost cost) {
  if (!cost && recipe.cost.kind == CostSpec::kExpression)
    if (Result<SequenceCost> expression = ExpressionCost(recipe.cost); expression.ok()) return *std::move(expression);
  return cost;
}

uint32_t LengthAt(const PackSpec& pack, uint64_t step) {
  if (pack.lengths.empty()) return 0;
  // Steps times the golden ratio: evenly spread over all steps, and over every n-th of them.
  const double at = static_cast<double>((step * 0x9E3779B97F4A7C15u) >> 11) * 0x1p-53;
  double sum = 0, upto = 0;
  for (const PackLength& length : pack.lengths) sum += length.share;
  for (const PackLength& length : pack.lengths) {
    upto += length.share / sum;
    if (at < upto) return length.length;
  }
  return pack.lengths.back().length;
}

uint32_t RemainderLength(const Recipe& recipe) {
  uint32_t longest = 0;
  if (recipe.pack)
    for (const PackLength& length : recipe.pack->lengths) longest = std::max(longest, length.length);
  return longest;
}

StepMaker::StepMaker(const Recipe& recipe, size_t sources, uint32_t length, const SequenceCost& cost)
    : recipe_(recipe), cost_(cost) {
  plan_.length = length;
  plan_.samples.assign(sources, 0);
  plan_.tokens.assign(sources, 0);
}

void StepMaker::Add(Sequence& sequence) {
  SetCosts(recipe_.cost, cost_, {&sequence, 1});
  for (const Placed& piece : sequence.pieces) {
    const uint16_t source = piece.sample.ref.source;
    if (source >= plan_.samples.size()) {
      plan_.samples.resize(source + 1, 0);
      plan_.tokens.resize(source + 1, 0);
    }
    plan_.samples[source] += piece.start == 0 ? 1 : 0;
    plan_.tokens[source] += piece.length;
    tokens_ += piece.length;
    // Of a part of a sample, so that the parts add up to the whole.
    const uint64_t labels = piece.sample.label_tokens, whole = std::max<uint32_t>(piece.sample.length, 1);
    plan_.label_tokens += piece.start == 0 && piece.length == whole
                              ? labels
                              : labels * (uint64_t{piece.start} + piece.length) / whole - labels * piece.start / whole;
  }
}

StepPlan StepMaker::Make(std::vector<Sequence> sequences) {
  const bool packed = recipe_.pack.has_value();
  const uint32_t lanes = std::max<uint32_t>(recipe_.lanes, 1);
  StepPlan plan = std::move(plan_);
  if (packed) {
    while (sequences.empty() || sequences.size() % lanes != 0) {
      sequences.emplace_back();
      sequences.back().length = plan.length;
    }
    plan.padding = sequences.size() * uint64_t{plan.length} - tokens_;
  }

  std::vector<double> costs(sequences.size());
  std::vector<uint32_t> bonds(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    costs[i] = sequences[i].cost;
    bonds[i] = sequences[i].bond;
  }
  const Lanes balanced = Balance(costs, lanes, {recipe_.balance.method, packed, bonds});
  plan.spread_before = Spread(costs, InOrder(costs.size(), lanes));
  plan.spread_after = Spread(costs, balanced);
  plan.lanes.resize(lanes);
  for (size_t lane = 0; lane < lanes; ++lane) {
    plan.lanes[lane].reserve(balanced[lane].size());
    for (uint32_t item : balanced[lane]) plan.lanes[lane].push_back(std::move(sequences[item]));
  }
  return plan;
}

StepPlan PlanStep(const Recipe& recipe, size_t sources, uint32_t length, std::vector<Sequence> sequences,
                  const SequenceCost& cost) {
  const SequenceCost by = CostOf(recipe, cost);
  StepMaker maker(recipe, sources, length, by);
  for (Sequence& sequence : sequences) maker.Add(sequence);
  return maker.Make(std::move(sequences));
}

}  // namespace headrace
