// Every rule that a test can break, by name.
#pragma once

#include <string>
#include <vector>

#include "base/rules.h"

namespace headrace {

struct NamedRule {
  const char* name;
  Rules broken;
};
const std::vector<NamedRule>& AllRules();

// All rules but this one; all of them if there is none of this name.
Rules RulesWithout(const std::string& name);

}  // namespace headrace
