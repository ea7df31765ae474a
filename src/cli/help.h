// The texts behind `--help`.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"

namespace headrace::cli {

using Commands = std::vector<std::unique_ptr<Command>>;

// All commands, and what holds for each of them.
std::string Help(const Commands& commands);

// One command, from what it declared.
std::string HelpFor(const Command& command, const CLI::App& app);

}  // namespace headrace::cli
