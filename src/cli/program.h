// What every program of ours does: finds the command that was meant, lets it run, and turns what became of it into words and an exit status.
#pragma once

#include "cli/help.h"

namespace headrace::cli {

// `about`: for the help of a program that people are not meant to start.
int RunProgram(Commands commands, int argc, char** argv, std::string_view about = {});

}  // namespace headrace::cli
