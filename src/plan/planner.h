// The plan of one strand: which samples share a sequence, which sequences share a step, and which lane each goes to.
//
// From metadata alone and without randomness of its own: the same feed, mixtures and state give the same plan on every machine. Balancing
// rearranges sequences inside one step and never moves one to another step.
//
// Not thread-safe; one per strand.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headrace/result.h"
#include "plan/feed.h"
#include "recipe/recipe.h"

namespace headrace {

// Elements start … start + length of a sample, at `position` of its sequence.
struct Placed {
  SampleInfo sample;
  uint32_t start = 0;
  uint32_t length = 0;
  uint32_t position = 0;
};

// With `pack`: a sequence of the pack's length. Without: one sample, or a group of them.
struct Sequence {
  std::vector<Placed> pieces;
  uint32_t length = 0;
  double cost = 0;
};

struct StepPlan {
  uint32_t length = 0;  // of its sequences; 0 without `pack`
  std::vector<std::vector<Sequence>> lanes;  // with `pack` each lane has the same number of sequences
  // Per source: samples that begin in this step, and tokens.
  std::vector<uint64_t> samples, tokens;
  uint64_t label_tokens = 0;
  uint64_t padding = 0;  // tokens
  double spread_before = 1, spread_after = 1;  // largest lane's cost over the mean, in order of arrival and balanced
};

class Planner {
 public:
  // `sources` names them by their place; weights of absent names are 0.
  Planner(const Recipe& recipe, std::vector<std::string> sources, SampleFeed& feed);
  ~Planner();

  // Goes on where a chunk's state says (`State` of an earlier instance).
  Status Restore(const std::string& state);
  std::string State() const;
  // Sources may be added to a living stream.
  void SetSources(std::vector<std::string> sources);

  // The plan of the strand's next step, whose number is `step`. Nothing if what is left does not fill one: then the strand has ended, and what it
  // would have used stays drawn, for `Remainder`. A source with at_end: stop ends the strand.
  Result<std::optional<StepPlan>> Next(uint64_t step, const MixSchedule& mix);
  // After the end: everything that is left, as sequences in order; what no step took yet.
  Result<std::vector<Sequence>> Remainder(uint64_t step);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// A step from given sequences (the last one of a stream, padded with empty sequences), balanced.
StepPlan PlanStep(const Recipe& recipe, size_t sources, uint32_t length, std::vector<Sequence> sequences);

}  // namespace headrace
