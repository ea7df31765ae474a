#include <algorithm>
#include <numeric>

#include "recipe/recipe_reader.h"

namespace headrace {
namespace {

constexpr uint32_t kAutoLanes = 64;

}  // namespace

void RecipeReader::ReadStep(const Keys& top) {
  const std::string_view unit = recipe_.pack ? "sequences" : "samples";
  const std::string example = recipe_.pack ? "step: {sequences: 512}" : "step: {samples: 4096}";
  auto word = top.Need("step", Cat("how large a global batch is; write ", example));
  if (!word) return;
  if (!word->IsMap() || word->yaml->map.empty()) {
    word->Fail(Cat(word->Found(), " does not say of what; write ", example));
    return;
  }
  std::optional<Word> size;
  if (std::ranges::all_of(word->yaml->map, [](const Yaml::Entry& entry) { return ParseCount(entry.key).has_value(); })) {
    size = *word;
  } else {
    Keys keys(*word, {"sequences", "samples"}, Cat("a map; write ", example));
    auto sequences = keys.Get("sequences"), samples = keys.Get("samples");
    if (sequences && samples) {
      samples->Fail(recipe_.pack ? "with `pack` a step counts sequences; leave samples out"
                                 : "without `pack` a step counts samples; leave sequences out");
    } else if (recipe_.pack && samples) {
      samples->Fail("with `pack` a step counts sequences; write step: {sequences: 512}");
    } else if (!recipe_.pack && sequences) {
      sequences->Fail("sequences are made by `pack`, which is missing; write step: {samples: 4096}, or add pack: {length: 8192}");
    } else {
      size = sequences ? sequences : samples;
    }
  }
  if (!size) return;
  constexpr uint64_t kMost = UINT64_C(1) << 30;
  if (size->IsMap()) {
    ReadByStep(*size, "{0: 256, 5000: 512}", [&](uint64_t from, const Word& at) {
      recipe_.step[from] = static_cast<uint32_t>(at.Count(1, kMost, unit).value_or(1));
    });
  } else if (auto count = size->Count(1, kMost, Cat(unit, ", or a ramp {0: 256, 5000: 512}"))) {
    recipe_.step[0] = static_cast<uint32_t>(*count);
  }
}

void RecipeReader::ResolveLanes(const Keys& top) {
  const Word step = *top.Get("step");
  uint32_t all = 0, least = UINT32_MAX;  // all: the greatest number that divides every size
  const uint32_t group = recipe_.pack ? 1 : recipe_.group_size;
  for (const auto& [from, size] : recipe_.step) {
    if (size % group != 0) {
      step.Fail(Cat(size, " samples cannot be made of whole groups of ", group, "; ", size / group * group + group, " can"));
      return;
    }
    all = std::gcd(all, size / group);
    least = std::min(least, size / group);
  }
  if (recipe_.lanes == 0) {
    recipe_.lanes = std::min(kAutoLanes, least);
    // Samples need not be dealt out evenly, sequences do.
    while (recipe_.pack && all % recipe_.lanes != 0) --recipe_.lanes;
    if (recipe_.lanes != std::min(kAutoLanes, least)) {
      Note(Cat("lanes: auto is ", recipe_.lanes, ", because ", std::min(kAutoLanes, least),
               " do not divide the step's sequences"));
    }
    return;
  }
  const Word lanes = *top.Get("lanes");
  if (recipe_.lanes > least) {
    lanes.Fail(Cat(recipe_.lanes, " lanes cannot share a step of ", least,
                   recipe_.pack ? " sequences"
                   : group > 1  ? " groups of samples"
                                : " samples",
                   "; write lanes: auto, or make the step larger"));
    return;
  }
  if (!recipe_.pack) return;
  for (const auto& [from, size] : recipe_.step) {
    if (size % recipe_.lanes == 0) continue;
    const uint32_t below = size / recipe_.lanes * recipe_.lanes;
    step.Fail(Cat(size, " sequences cannot be divided evenly over ", recipe_.lanes, " lanes; ", below, " and ",
                  below + recipe_.lanes, " can"));
  }
}

}  // namespace headrace
