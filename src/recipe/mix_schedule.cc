#include <nlohmann/json.hpp>

#include "recipe/recipe.h"
#include "stream/mixture_weights.h"

namespace headrace {

std::map<std::string, double> MixSchedule::At(uint64_t step) const {
  auto after = weights.upper_bound(step);
  auto before = std::prev(after);  // there is always one for step 0
  std::map<std::string, double> at = before->second;
  if (ramp && after != weights.end()) {
    const double done = static_cast<double>(step - before->first) / static_cast<double>(after->first - before->first);
    for (auto& [name, weight] : at) weight *= 1 - done;
    for (const auto& [name, weight] : after->second) at[name] += weight * done;
  }
  double sum = 0;
  for (const auto& [name, weight] : at) sum += weight;
  for (auto& [name, weight] : at) weight /= sum;
  return at;
}

std::string MixSchedule::ToJson() const {
  nlohmann::json schedule = nlohmann::json::array();
  for (const auto& [step, at] : weights) schedule.push_back({{"from_step", step}, {"weights", at}});
  return nlohmann::json{{"ramp", ramp}, {"unit", by_tokens ? "tokens" : "samples"}, {"schedule", schedule}}.dump();
}

Result<MixSchedule> MixSchedule::FromJson(std::string_view text) {
  MixSchedule mix;
  HR_ASSIGN_OR_RETURN(mix.weights, ReadWeights(text));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  mix.ramp = json.value("ramp", false);
  mix.by_tokens = json.value("unit", "tokens") == "tokens";
  return mix;
}

}  // namespace headrace
