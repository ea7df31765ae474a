// The commands that read a lake: carried out by the program headrace-lake, which stands beside this one and needs the libraries of pyarrow.
#pragma once

#include "cli/help.h"

namespace headrace::cli {

// As this program has them: each hands its words over. They say what to install where headrace-lake or pyarrow is missing.
Commands LakeCommands();

}  // namespace headrace::cli
