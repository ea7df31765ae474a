#include <nlohmann/json.hpp>

#include "recipe/recipe.h"

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
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto broken = [](const char* what) { return Status(Code::kCorrupt, std::string("a mixture's schedule has ") + what); };
  if (!json.is_object() || !json.contains("schedule") || !json["schedule"].is_array()) return broken("no list `schedule`");
  MixSchedule mix;
  mix.ramp = json.value("ramp", false);
  mix.by_tokens = json.value("unit", "tokens") == "tokens";
  for (const nlohmann::json& entry : json["schedule"]) {
    if (!entry.is_object() || !entry.contains("from_step") || !entry["from_step"].is_number_unsigned() ||
        !entry.contains("weights") || !entry["weights"].is_object())
      return broken("an entry without `from_step` and `weights`");
    std::map<std::string, double>& at = mix.weights[entry["from_step"].get<uint64_t>()];
    double sum = 0;
    for (const auto& [name, weight] : entry["weights"].items()) {
      if (!weight.is_number() || weight.get<double>() < 0) return broken("a weight that is not a number of 0 or more");
      at[name] = weight.get<double>();
      sum += at[name];
    }
    if (!(sum > 0)) return broken("an entry whose weights are all 0");
  }
  if (!mix.weights.contains(0)) return broken("no weights for step 0");
  return mix;
}

}  // namespace headrace
