#include "stream/mixture_weights.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace headrace {

Status CheckWeights(const Weights& weights) {
  const auto wrong = [](const std::string& source, const char* what) {
    return Status(Code::kInvalidArgument, Cat("the weight of ", source, " is ", what, "; a weight is a number of 0 or more"));
  };
  double sum = 0;
  for (const auto& [source, weight] : weights) {
    if (std::isnan(weight)) return wrong(source, "not a number");
    if (weight < 0) return wrong(source, "below 0");
    if (std::isinf(weight)) return wrong(source, "infinite");
    sum += weight;
  }
  if (std::isinf(sum)) return Status(Code::kInvalidArgument, "these weights sum to more than a number can hold");
  if (!(sum > 0)) return Status(Code::kInvalidArgument, "all weights are 0: nothing would be drawn");
  return {};
}

Result<std::map<uint64_t, Weights>> ReadWeights(std::string_view mix) {
  const nlohmann::json json = nlohmann::json::parse(mix, nullptr, /*allow_exceptions=*/false);
  const auto broken = [](const std::string& what) { return Status(Code::kCorrupt, Cat("a mixture's schedule has ", what)); };
  if (!json.is_object() || !json.contains("schedule") || !json["schedule"].is_array()) return broken("no list `schedule`");
  std::map<uint64_t, Weights> schedule;
  for (const nlohmann::json& entry : json["schedule"]) {
    if (!entry.is_object() || !entry.contains("from_step") || !entry["from_step"].is_number_unsigned() ||
        !entry.contains("weights") || !entry["weights"].is_object())
      return broken("an entry without `from_step` and `weights`");
    const uint64_t step = entry["from_step"].get<uint64_t>();
    Weights& at = schedule[step];
    for (const auto& [source, weight] : entry["weights"].items()) {
      if (!weight.is_number())
        return broken(Cat("a weight that is not a number of 0 or more, of ", source, " from step ", step, " on"));
      at[source] = weight.get<double>();
    }
    if (Status good = CheckWeights(at); !good.ok())
      return broken(Cat("weights from step ", step, " on that nothing can be drawn by: ", good.message()));
  }
  if (!schedule.contains(0)) return broken("no weights for step 0");
  return schedule;
}

}  // namespace headrace
