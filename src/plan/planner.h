// The plan of one strand: which samples share a sequence, which sequences share a step, and which lane each goes to.
//
// From metadata alone and without randomness of its own: the same feed, mixtures and state give the same plan on every machine. Balancing
// rearranges sequences inside one step and never moves one to another step.
//
// Not thread-safe; one per strand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headrace/result.h"
#include "plan/feed.h"
#include "recipe/recipe.h"

namespace headrace {

// Elements start … start + length of a sample, at `position` of its sequence.
// An empty sample has a piece too, of length 0: it was drawn once.
struct Placed {
  [[no_unique_address]] SampleInfo sample;  // what follows takes the room at its end
  uint32_t start = 0;
  uint32_t length = 0;
  uint32_t position = 0;
};
static_assert(sizeof(Placed) == 56, "plans hold hundreds of thousands of these, and cost what memory costs");

// With `pack`: a sequence of the pack's length. Without: one sample, or a group of them.
struct Sequence {
  std::vector<Placed> pieces;
  uint32_t length = 0;
  double cost = 0;
  uint32_t bond = 0;  // sequences of a step with the same number, other than 0, hold one group of samples and share a lane
  uint32_t tag = 0;  // the caller's own
};

// What a sequence costs, instead of what the recipe says: for a callable that is run elsewhere.
using SequenceCost = std::function<double(const Sequence&)>;

struct StepPlan {
  uint32_t length = 0;  // of its sequences; 0 without `pack`
  std::vector<std::vector<Sequence>> lanes;  // with `pack` each lane has the same number of sequences
  // Per source: samples that begin in this step, and tokens.
  std::vector<uint64_t> samples, tokens;
  uint64_t label_tokens = 0;
  uint64_t padding = 0;  // tokens
  // What `overflow` took away of what was drawn since the step before.
  uint64_t truncated = 0;  // tokens
  uint64_t dropped = 0;  // samples
  double spread_before = 1, spread_after = 1;  // largest lane's cost over the mean, in order of arrival and balanced
};

class Planner {
 public:
  // `sources` names them by their place; weights of absent names are 0.
  Planner(const Recipe& recipe, std::vector<std::string> sources, SampleFeed& feed, SequenceCost cost = {});
  ~Planner();

  // Goes on where a chunk's state says (`State` of an earlier instance). Samples that were carried are asked for again.
  Status Restore(const std::string& state);
  // After a step: some hundreds of references at most, as JSON.
  std::string State() const;
  // The samples that were drawn and are not placed to their end.
  std::vector<SampleRef> Carried() const;
  // Sources may be added to a living stream; `at_end` is the recipe's where it is not given.
  void SetSources(std::vector<std::string> sources, std::vector<AtEnd> at_end = {});

  // The plan of the strand's next step, whose number is `step`. Nothing if what is left does not fill one: then the strand has ended, and what it
  // would have used stays drawn, for `Remainder`. A source with at_end: stop ends the strand.
  Result<std::optional<StepPlan>> Next(uint64_t step, const MixSchedule& mix);
  // After the end (`Next` had nothing more): everything that was drawn and no step took, as sequences of `RemainderLength`. Nothing is left then.
  Result<std::vector<Sequence>> Remainder(uint64_t step);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The length of a step's sequences: with several lengths each has its share of the steps, of every strand's too.
uint32_t LengthAt(const PackSpec& pack, uint64_t step);
// Of what `Remainder` hands out: the longest, so that no document is cut for being late; 0 without `pack`.
uint32_t RemainderLength(const Recipe& recipe);

// A step from given sequences (the last one of a stream, padded with empty sequences), balanced. `length`: see `LengthAt`, `RemainderLength`.
StepPlan PlanStep(const Recipe& recipe, size_t sources, uint32_t length, std::vector<Sequence> sequences,
                  const SequenceCost& cost = {});

}  // namespace headrace
