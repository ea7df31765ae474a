// The recipe's keys, read one after the other into a `Recipe`. Private to this part; `Recipe::FromYaml` is the way in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/text.h"
#include "recipe/expression.h"
#include "recipe/recipe.h"
#include "recipe/words.h"

namespace headrace {

class RecipeReader {
 public:
  RecipeReader(Recipe& recipe, Problems& problems) : recipe_(recipe), problems_(problems) {}

  void Read(const Yaml& yaml);

 private:
  // from_yaml.cc
  void ReadBasics(const Keys& top);
  void ReadLead(const Keys& top);
  void ReadRetain(const Keys& top);
  void ReadUntil(const Keys& top);
  std::optional<double> ReadPositive(const Word& word, std::string_view meaning);
  void ReadBadSamples(const std::optional<Word>& word, BadSamples& bad);
  void ReadHoldoutAndShuffle(const Keys& top);
  void ReadKeep(const Keys& top);

  // read_sources.cc
  void ReadSources(const Keys& top);
  void ReadSource(const Word& word, SourceSpec& source);
  void GuessFormat(const Word& word, SourceSpec& source);
  void ReadTokenFormat(const Keys& keys, SourceSpec& source);
  void ReadStorageOptions(const Word& word, SourceSpec& source);

  // read_transforms.cc
  void ReadTransforms(const Word& word);
  void ReadTransform(const Word& word, TransformSpec& transform);
  void ReadTokenize(const Word& word, TransformSpec& transform);
  void ReadChat(const Word& word, TransformSpec& transform);
  void ReadFilter(const Word& word, TransformSpec& transform);
  void ReadRename(const Word& word, TransformSpec& transform);
  void ReadCast(const Word& word, TransformSpec& transform);
  void ReadPython(const Word& word, TransformSpec& transform);

  // read_plan.cc: packing, cost, balance
  void ReadPack(const Word& word);
  std::optional<uint32_t> ReadLength(const Word& word);
  void ReadLengths(const Word& word, PackSpec& pack);
  void ReadCost(const Word& word);
  void ReadCostExpression(const Word& word);
  void ReadBalance(const Word& word);
  void ReadGroup(const Keys& top);

  // read_mix.cc
  void ReadMix(const Keys& top);
  void Normalise(const Word& word, std::map<std::string, double>& weights, double sum, bool silent);
  void ReadSchedule(const Word& word);
  void ReadPolicy(const Word& word);

  // read_step.cc
  void ReadStep(const Keys& top);
  void ResolveLanes(const Keys& top);

  // check_together.cc: what is right by itself and wrong together
  void CheckEnds(const Keys& top);
  void CheckTokens(const Keys& top);
  void CheckKept(const Keys& top);

  void Note(std::string text) { recipe_.notes.push_back(std::move(text)); }

  Recipe& recipe_;
  Problems& problems_;
  size_t weighted_ = 0;  // how many sources have a weight
  std::set<std::string> says_at_end_;
};

inline constexpr uint64_t kMostSteps = UINT64_C(1) << 53;

// A text that names a column.
std::optional<std::string> ColumnName(const Word& word);
// "package.module:function".
std::optional<std::string> ReadCall(const Word& word);
// `what`: a filter, a cost.
std::optional<Expression> ReadExpression(const Word& word, std::string_view what);
// For messages: no more digits than anybody wants to see.
std::string Shortest(double number);

// {0: 256, 5000: 512}: what holds from a step on.
template <typename Read>
bool ReadByStep(const Word& word, std::string_view example, Read read) {
  if (word.yaml->map.empty()) {
    word.Fail(Cat("an empty map; write ", example));
    return false;
  }
  std::set<uint64_t> seen;
  bool good = true;
  for (const Yaml::Entry& entry : word.yaml->map) {
    const Word below = word.Below(entry.key, entry.value);
    const std::optional<uint64_t> step = ParseCount(entry.key);
    if (!step || *step > kMostSteps) {
      word.problems->Add(entry.mark, below.path, Cat(entry.key, " is not the number of a step; write ", example));
      good = false;
    } else if (!seen.insert(*step).second) {
      word.problems->Add(entry.mark, below.path, Cat("step ", *step, " is there twice"));
      good = false;
    } else {
      read(*step, below);
    }
  }
  if (good && !seen.contains(0)) {
    word.Fail(Cat("nothing is said about step 0: the first entry must be for it; write ", example));
    good = false;
  }
  return good;
}

}  // namespace headrace
