// What the plan sees of samples: their sizes, in the order of each source.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "headrace/result.h"
#include "plan/few.h"
#include "recipe/position.h"

namespace headrace {

struct SampleInfo {
  Few<double> numbers;  // of the columns that `CostColumns` (cost.h) names, in that order; null: NaN
  uint64_t bytes = 0;
  SampleRef ref;
  uint32_t length = 0;  // tokens, or 0 where nothing is tokenised
  uint32_t label_tokens = 0;  // how many of them are trained on
};

// One strand's view of all sources. Not thread-safe.
class SampleFeed {
 public:
  virtual ~SampleFeed() = default;
  // The next sample of the source in this strand's order, into `sample`, which is a new one; false when its share of the source is used up (all its
  // epochs).
  virtual Result<bool> Next(uint16_t source, SampleInfo& sample) = 0;
  // The same where it is wanted for itself.
  Result<std::optional<SampleInfo>> Next(uint16_t source) {
    std::optional<SampleInfo> sample(std::in_place);
    HR_ASSIGN_OR_RETURN(const bool some, Next(source, *sample));
    if (!some) sample.reset();
    return sample;
  }
  // The same sample again, when a strand is taken over: carried samples are remembered as references.
  virtual Result<SampleInfo> Again(const SampleRef& ref) = 0;
};

}  // namespace headrace
