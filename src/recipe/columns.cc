#include "recipe/columns.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "recipe/expression.h"

namespace headrace {
namespace {

std::vector<ColumnUse> InOrder(const std::map<std::string, std::string>& uses) {
  std::vector<ColumnUse> columns;
  for (const auto& [column, asked_by] : uses) columns.push_back({column, asked_by});
  return columns;
}

}  // namespace

std::vector<std::string> ColumnsNamedBy(const TransformSpec& spec) {
  switch (spec.kind) {
    case TransformSpec::kTokenize: return {spec.from.empty() ? "text" : spec.from};
    case TransformSpec::kChat: return {spec.from.empty() ? "messages" : spec.from};
    case TransformSpec::kFilter: {
      auto expression = Expression::Parse(spec.expression);
      return expression.ok() ? expression->columns() : std::vector<std::string>{};
    }
    case TransformSpec::kSelect: return spec.columns;
    case TransformSpec::kRename:
    case TransformSpec::kCast: {
      std::vector<std::string> names;
      for (const auto& [name, _] : spec.names) names.push_back(name);
      return names;
    }
    case TransformSpec::kPython: break;
  }
  return {};
}

std::optional<std::string> NameInLake(const Recipe& recipe, size_t before, const std::string& name) {
  std::string now = name;
  for (size_t i = before; i-- > 0;) {
    const TransformSpec& spec = recipe.transforms[i];
    if (spec.kind == TransformSpec::kTokenize && now == "tokens") return std::nullopt;
    if (spec.kind == TransformSpec::kChat && (now == "tokens" || now == "loss_mask")) return std::nullopt;
    if (spec.kind == TransformSpec::kRename) {
      auto renamed = std::ranges::find_if(spec.names, [&](const auto& entry) { return entry.second == now; });
      if (renamed != spec.names.end()) now = renamed->first;
    }
  }
  return now;
}

std::string PlaceOf(const Recipe& recipe, int line) {
  return Cat(recipe.name.empty() ? "the recipe" : recipe.name, line > 0 ? Cat(":", line) : "", ": ");
}

std::vector<ColumnUse> ColumnsOfTransforms(const Recipe& recipe) {
  std::map<std::string, std::string> uses;
  for (size_t i = 0; i < recipe.transforms.size(); ++i) {
    const TransformSpec& spec = recipe.transforms[i];
    if (spec.kind == TransformSpec::kPython) return {};
    for (const std::string& name : ColumnsNamedBy(spec)) {
      auto column = NameInLake(recipe, i, name);
      if (column && !column->starts_with("__"))
        uses.emplace(*column, Cat(PlaceOf(recipe, spec.line), kTransformNames[spec.kind]));
    }
  }
  if (auto tokens = NameInLake(recipe, recipe.transforms.size(), "tokens")) {
    // Only packing says that it is tokens that are wanted; else the recipe's columns are whatever the lake has.
    if (!recipe.pack) return {};
    uses.emplace(*tokens, Cat(PlaceOf(recipe, 0), "pack"));
  }
  return InOrder(uses);
}

std::vector<ColumnUse> ColumnsOf(const Recipe& recipe) {
  std::map<std::string, std::string> uses;
  for (ColumnUse& use : ColumnsOfTransforms(recipe)) uses.emplace(std::move(use.column), std::move(use.asked_by));
  if (uses.empty()) return {};
  for (const std::string& name : recipe.keep) {
    if (auto column = NameInLake(recipe, recipe.transforms.size(), name))
      uses.emplace(*column, Cat(PlaceOf(recipe, recipe.keep_line), "keep"));
  }
  if (!recipe.holdout_by.empty()) uses.emplace(recipe.holdout_by, Cat(PlaceOf(recipe, recipe.holdout_line), "holdout.by"));
  return InOrder(uses);
}

}  // namespace headrace
