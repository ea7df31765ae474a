// Which columns of the lake a recipe asks for, and which of its words did: what is read at all, and whom to name when one is not there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace headrace {

struct ColumnUse {
  std::string column;  // as the lake calls it
  std::string asked_by;  // "recipe.yaml:7: filter"
};

// The columns that a transform names; for Python nobody can tell.
std::vector<std::string> ColumnsNamedBy(const TransformSpec& spec);

// What the column `name`, as transforms[before] sees it, is called in the lake; nothing if a transform makes it. `before` may be the number of
// transforms: then it is a column as it is after all of them.
std::optional<std::string> NameInLake(const Recipe& recipe, size_t before, const std::string& name);

// The lake's columns that the transforms and packing ask for, in alphabetical order, each once; empty: cannot tell, all of them.
std::vector<ColumnUse> ColumnsOfTransforms(const Recipe& recipe);
// And those that are kept and held out by. Empty only if the above is.
std::vector<ColumnUse> ColumnsOf(const Recipe& recipe);

// "recipe.yaml:7: ": where a word of the recipe stands; line 0 if nobody knows.
std::string PlaceOf(const Recipe& recipe, int line);

}  // namespace headrace
