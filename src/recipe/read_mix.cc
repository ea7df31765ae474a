#include <algorithm>
#include <cmath>

#include "recipe/recipe_reader.h"
#include "stream/mixture_weights.h"

namespace headrace {

void RecipeReader::ReadMix(const Keys& top) {
  MixSchedule& mix = recipe_.mix;
  const bool token_files =
      std::ranges::any_of(recipe_.sources, [](const SourceSpec& s) { return s.format == "tokens" || s.format == "megatron"; });
  mix.by_tokens = recipe_.pack || recipe_.Tokenizer() != nullptr || token_files;
  auto word = top.Get("mix");
  bool scheduled = false;
  if (word) {
    Keys keys(*word, {"unit", "schedule", "ramp", "policy"}, "a map; write mix: {schedule: {0: {web: 0.5, code: 0.5}}}");
    if (auto unit = keys.Get("unit")) {
      if (auto choice = unit->Choice({"tokens", "samples"}, "what weights count")) mix.by_tokens = *choice == 0;
    }
    if (auto schedule = keys.Get("schedule")) {
      ReadSchedule(*schedule);
      scheduled = true;
    }
    if (auto ramp = keys.Get("ramp")) {
      if (auto choice = ramp->Choice({"none", "linear"}, "a way from one entry of the schedule to the next"))
        mix.ramp = *choice == 1;
      if (mix.ramp && (!scheduled || mix.weights.size() == 1))
        ramp->Fail("there is nothing to ramp between: the schedule needs two entries or more");
    }
    if (auto policy = keys.Get("policy")) ReadPolicy(*policy);
  }
  auto sources = top.Get("sources");
  if (scheduled || !sources || recipe_.sources.empty()) {
    if (scheduled && weighted_ != 0) Note("mix.schedule is there, so the sources' own weights are not used");
    return;
  }
  std::map<std::string, double>& weights = mix.weights[0];
  double sum = 0;
  for (const SourceSpec& source : recipe_.sources) sum += weights[source.name] = source.weight;
  if (weighted_ != 0 && weighted_ != recipe_.sources.size()) {
    for (const Yaml::Entry& entry : sources->yaml->map) {
      if (entry.value.kind == Yaml::kMap && entry.value.Find("weight") == nullptr) {
        problems_.Add(entry.mark, Cat("sources.", entry.key, ".weight"),
                      "is missing, and other sources have one; give each source a weight, or none");
      }
    }
    return;
  }
  Normalise(*sources, weights, sum, weighted_ == 0);
}

// `silent`: nobody wrote these weights, they are equal.
void RecipeReader::Normalise(const Word& word, std::map<std::string, double>& weights, double sum, bool silent) {
  if (Status good = CheckWeights(weights); !good.ok()) {
    word.Fail(good.message());
    return;
  }
  if (!silent && std::abs(sum - 1) > 1e-6) Note(Cat(word.path, ": the weights sum to ", Shortest(sum), "; they were normalised"));
  for (auto& [name, weight] : weights) weight /= sum;
}

void RecipeReader::ReadSchedule(const Word& word) {
  constexpr std::string_view kExample = "schedule: {0: {web: 0.5, code: 0.5}, 1000: {web: 0.3, code: 0.7}}";
  if (!word.IsMap()) {
    word.Wanted(Cat("a map from steps to weights; write ", kExample));
    return;
  }
  std::vector<std::string_view> names;
  for (const SourceSpec& source : recipe_.sources) names.push_back(source.name);
  ReadByStep(word, kExample, [&](uint64_t step, const Word& at) {
    if (!at.IsMap()) {
      at.Wanted("a map of weights; write {web: 0.5, code: 0.5}");
      return;
    }
    std::map<std::string, double>& weights = recipe_.mix.weights[step];
    double sum = 0;
    bool unknown = false;
    for (const Yaml::Entry& entry : at.yaml->map) {
      const Word below = at.Below(entry.key, entry.value);
      if (std::ranges::find(names, entry.key) == names.end()) {
        problems_.Add(entry.mark, below.path, Cat("there is no source ", entry.key, DidYouMean(entry.key, names)));
        unknown = true;
        continue;
      }
      sum += weights[entry.key] = below.Number("a weight: a number of 0 or more").value_or(1);
    }
    if (unknown) return;
    std::string missing;
    for (std::string_view name : names) {
      if (at.yaml->Find(name) == nullptr) missing += Cat(missing.empty() ? "" : ", ", name);
    }
    if (!missing.empty()) {
      at.Fail(Cat("a schedule names all sources, and ", missing, " is missing; a weight of 0 leaves a source out"));
    } else {
      Normalise(at, weights, sum, false);
    }
  });
}

void RecipeReader::ReadPolicy(const Word& word) {
  std::optional<std::string> name;
  if (word.IsScalar()) {
    name = word.Text("a policy");
  } else if (!word.IsMap()) {
    word.Wanted("a policy; write policy: {name: ado}");
  } else if (const Yaml* at = word.yaml->Find("name")) {
    name = word.Below("name", *at).Text("a policy's name");
  } else {
    word.Fail("name is missing; write policy: {name: ado}");
  }
  if (name && *name != "static")
    word.Unsupported(Cat(
        "the policy ", *name,
        ": mixtures that follow the model's feedback will come with a later version; until then write a schedule, or change weights by `headrace mix`"));
}

}  // namespace headrace
