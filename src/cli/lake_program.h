// The commands that read a lake: carried out by the program headrace-lake, which stands beside this one and needs the libraries of pyarrow.
#pragma once

#include <string_view>

#include "cli/help.h"
#include "headrace/status.h"

namespace headrace::cli {

// As this program has them: each hands its words over. They say what to install where headrace-lake or pyarrow is missing.
Commands LakeCommands();

// Carries out the words of this process there, for a command that needs Arrow for what it was given (`what`, in words). Returns only if
// that cannot be done.
Status HandOverToLake(std::string_view what);

}  // namespace headrace::cli
