// What the weights of a mixture have to be. There is one rule for all who write one and all who read one: a mixture that is committed and cannot be read
// would hold up its stream for good.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "headrace/result.h"

namespace headrace {

using Weights = std::map<std::string, double>;  // by source

// kInvalidArgument says what is wrong with which of them: each is a number of 0 or more, one is above 0, and the sum is a number.
Status CheckWeights(const Weights& weights);

// The weights by first step in the JSON `{schedule: [{from_step, weights}], …}`, which is `mix` of a mixture's object; there is always one for step 0.
// kCorrupt if nothing could be drawn by it.
Result<std::map<uint64_t, Weights>> ReadWeights(std::string_view mix);

}  // namespace headrace
