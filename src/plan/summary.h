// What plans amount to: shares, padding, spread. `headrace plan` shows it before anything is written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/planner.h"

namespace headrace {

struct PlanSummary {
  std::vector<uint64_t> samples, tokens;  // by source
  uint64_t steps = 0;
  uint64_t label_tokens = 0;
  uint64_t padding = 0;  // tokens
  uint64_t truncated = 0;  // tokens
  uint64_t dropped = 0;  // samples
  uint64_t bytes = 0;  // of the samples, as the lake has them
  double sum_before = 0, sum_after = 0;  // of the steps' spreads
  double worst_before = 1, worst_after = 1;

  void Add(const StepPlan& plan);

  // Of the tokens, or of the samples where nothing is tokenised.
  double Share(size_t source) const;
  // Of all positions.
  double PaddingShare() const;
  double MeanBefore() const { return steps == 0 ? 1 : sum_before / static_cast<double>(steps); }
  double MeanAfter() const { return steps == 0 ? 1 : sum_after / static_cast<double>(steps); }
  double BytesPerStep() const { return steps == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(steps); }
};

// A small picture for a terminal: a bar for each source with its share and weight, padding, and how uneven lanes are before and after balancing.
// `ascii`: for terminals without Unicode.
std::string Bars(const PlanSummary& summary, const std::vector<std::string>& sources,
                 const std::map<std::string, double>& weights, uint32_t width = 40, bool ascii = false);

}  // namespace headrace
