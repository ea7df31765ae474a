#include "stream/blocks.h"

#include <algorithm>

namespace headrace {

BlockSizes BlockSizes::Even(uint32_t steps) {
  BlockSizes sizes;
  sizes.phases_.front().steps = std::max(1u, steps);
  return sizes;
}

BlockSizes BlockSizes::Growing(uint32_t strands, uint32_t steps) {
  BlockSizes sizes;
  sizes.phases_.clear();
  for (uint32_t small = 1; small < steps; small *= 2) sizes.phases_.push_back({strands, small});
  sizes.phases_.push_back({UINT64_MAX, std::max(1u, steps)});
  return sizes;
}

BlockSizes BlockSizes::Exactly(uint64_t total, uint32_t strands, uint32_t steps, uint64_t* blocks) {
  BlockSizes sizes;
  sizes.phases_.clear();
  *blocks = 0;
  auto add = [&](uint64_t count, uint32_t of) {
    if (count == 0) return;
    sizes.phases_.push_back({count, of});
    *blocks += count;
    total -= count * of;
  };
  for (uint32_t small = 1; small < steps; small *= 2) add(std::min<uint64_t>(strands, total / small), small);
  add(total / std::max(1u, steps), std::max(1u, steps));
  if (total > 0) add(1, static_cast<uint32_t>(total));
  if (sizes.phases_.empty()) sizes.phases_.push_back({1, 1});
  sizes.phases_.back().blocks = UINT64_MAX;  // nobody makes those beyond
  return sizes;
}

uint64_t BlockSizes::FirstStep(uint64_t block) const {
  uint64_t step = 0;
  for (const Phase& phase : phases_) {
    const uint64_t before = std::min(block, phase.blocks);
    step += before * phase.steps;
    block -= before;
  }
  return step;
}

Result<BlockSizes> BlockSizes::FromPhases(std::vector<Phase> phases) {
  if (phases.empty() || phases.size() > 64) return Status(Code::kInvalidArgument, "block sizes need between 1 and 64 phases");
  for (const Phase& phase : phases) {
    if (phase.blocks == 0 || phase.steps == 0)
      return Status(Code::kInvalidArgument, "a phase of block sizes has no blocks or no steps");
  }
  phases.back().blocks = UINT64_MAX;
  BlockSizes sizes;
  sizes.phases_ = std::move(phases);
  return sizes;
}

uint32_t BlockSizes::Steps(uint64_t block) const {
  for (const Phase& phase : phases_) {
    if (block < phase.blocks) return phase.steps;
    block -= phase.blocks;
  }
  return phases_.back().steps;
}

}  // namespace headrace
