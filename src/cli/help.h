// The texts behind `--help`.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace headrace::cli {

using Commands = std::vector<std::unique_ptr<Command>>;

// All commands, and what holds for each of them.
// `about`: what there is to say about a program that is not `headrace` itself.
std::string Help(const Commands& commands, std::string_view about = {});

// One command, from what it declared.
std::string HelpFor(const Command& command, const CLI::App& app);

}  // namespace headrace::cli
