#include "produce/last_steps.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace headrace {

Status PlanLastSteps(const LastSteps& last, uint16_t strands, const std::function<Result<EndingStrand>(uint16_t)>& open,
                     const std::function<Status(const StepPlan&)>& take) {
  uint64_t made = 0;
  // By length, in the order of the strands.
  std::map<uint32_t, std::vector<Sequence>> left;
  for (uint16_t number = 0; number < strands && made < last.most; ++number) {
    HR_ASSIGN_OR_RETURN(const EndingStrand strand, open(number));
    if (strand.full) continue;
    uint64_t step = strand.next_step;
    for (; made < last.most; ++step, ++made) {
      HR_ASSIGN_OR_RETURN(std::optional<StepPlan> plan, strand.planner->Next(step, last.mix));
      if (!plan) break;
      for (std::vector<Sequence>& lane : plan->lanes) {
        for (Sequence& sequence : lane) sequence.tag = number;
      }
      HR_RETURN_IF_ERROR(take(*plan));
      strand.feed->Retain(strand.planner->Carried());
    }
    HR_ASSIGN_OR_RETURN(std::vector<Sequence> rest, strand.planner->Remainder(step));
    // All strands' remainders are held at once, so nothing else may be.
    std::vector<SampleRef> held;
    for (Sequence& sequence : rest) {
      for (const Placed& piece : sequence.pieces) held.push_back(piece.sample.ref);
      sequence.tag = number;
      left[last.recipe.pack ? sequence.length : 0].push_back(std::move(sequence));  // without packing all may share a step
    }
    strand.feed->Retain(held);
    strand.feed->CloseWindows();
  }
  for (auto& [length, sequences] : left) {
    const size_t size = last.recipe.StepSize(last.frontier);
    for (size_t from = 0; from < sequences.size() && made < last.most; from += size, ++made) {
      const size_t count = std::min(size, sequences.size() - from);
      if (count < size && last.recipe.drop_last) break;
      const auto begin = sequences.begin() + static_cast<ptrdiff_t>(from);
      std::vector<Sequence> step(std::make_move_iterator(begin), std::make_move_iterator(begin + static_cast<ptrdiff_t>(count)));
      HR_RETURN_IF_ERROR(take(PlanStep(last.recipe, last.sources, length, std::move(step), last.cost)));
    }
  }
  return {};
}

}  // namespace headrace
