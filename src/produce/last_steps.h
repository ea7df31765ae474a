// The last steps of a stream: what the strands have left when none of them can fill a block any more.
#pragma once

#include <cstdint>
#include <functional>

#include "plan/planner.h"
#include "produce/strand_feed.h"

namespace headrace {

// A strand that has drawn all that it will, or nearly.
struct EndingStrand {
  StrandFeed* feed = nullptr;
  Planner* planner = nullptr;
  uint64_t next_step = 0;  // by the plan's own numbers
  bool full = false;  // it has made all that it shall, whatever is left
};

struct LastSteps {
  const Recipe& recipe;
  size_t sources = 0;
  const MixSchedule& mix;
  SequenceCost cost;
  uint64_t frontier = 0;  // how many steps there are already
  uint64_t most = UINT64_MAX;  // to be planned
};
// Whole steps of each strand first, then steps of what is left of all of them; a last one that is not full only where the recipe keeps it.
// Strands are opened one after the other, and hold no more than is still to be placed. A sequence's `tag` is its strand.
Status PlanLastSteps(const LastSteps& last, uint16_t strands, const std::function<Result<EndingStrand>(uint16_t)>& open,
                     const std::function<Status(const StepPlan&)>& take);

}  // namespace headrace
