#include "plan/cost.h"

#include <algorithm>
#include <cmath>

#include "recipe/expression.h"

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

std::vector<std::string> CostColumns(const CostSpec& spec) {
  std::vector<std::string> columns;
  if (spec.kind != CostSpec::kExpression) return columns;
  const Result<Expression> expression = Expression::Parse(spec.expression);
  if (!expression.ok()) return columns;
  for (size_t i = 0; i < expression->columns().size(); ++i) {
    const std::string& name = expression->columns()[i];
    if (!expression->is_length(i) && name != "length" && name != "bytes") columns.push_back(name);
  }
  return columns;
}

Result<SequenceCost> ExpressionCost(const CostSpec& spec) {
  HR_ASSIGN_OR_RETURN(const Expression expression, Expression::Parse(spec.expression));
  enum : size_t { kLength = SIZE_MAX, kBytes = SIZE_MAX - 1 };
  std::vector<size_t> from;  // by column: where its value is
  size_t numbers = 0;
  for (size_t i = 0; i < expression.columns().size(); ++i) {
    const std::string& name = expression.columns()[i];
    from.push_back(expression.is_length(i) || name == "length" ? kLength : name == "bytes" ? kBytes : numbers++);
  }
  return SequenceCost([expression, from](const Sequence& sequence) {
    double sum = 0;
    for (const Placed& piece : sequence.pieces) {
      const auto row = [&](size_t column) -> Value {
        const SampleInfo& sample = piece.sample;
        if (from[column] == kLength) return static_cast<double>(piece.length);
        if (from[column] == kBytes)
          return sample.length == 0 ? static_cast<double>(sample.bytes)
                                    : static_cast<double>(sample.bytes) * piece.length / static_cast<double>(sample.length);
        if (from[column] < sample.numbers.size()) return sample.numbers[from[column]];
        return std::monostate();
      };
      const Result<double> cost = expression.Number(row);
      if (cost.ok()) sum += *cost;
    }
    return sum;
  });
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
