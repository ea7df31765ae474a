// Commands that have a name already and come with a later version.
#pragma once

#include <span>
#include <string_view>

#include "headrace/status.h"

namespace headrace::cli {

struct LaterCommand {
  std::string_view name;
  std::string_view version;  // "0.2"; empty: some later one
};

std::span<const LaterCommand> LaterCommands();

// Why it cannot be run today.
Status NotYet(const LaterCommand& command);

}  // namespace headrace::cli
