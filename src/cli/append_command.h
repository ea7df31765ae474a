// `append` for a program that can read Arrow by itself; the one of `headrace` is in command.h.
#pragma once

#include <memory>

#include "cli/arrow_steps.h"
#include "cli/command.h"

namespace headrace::cli {

// Nothing to open Arrow with: such inputs are handed over to headrace-lake.
std::unique_ptr<Command> MakeAppendCommandWithArrow(OpenArrowSteps open_arrow);

}  // namespace headrace::cli
