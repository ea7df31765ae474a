// headrace-lake: the commands of `headrace` that need Arrow. People type `headrace produce`, and that program starts this one.

#include <malloc.h>

#include "cli/append_command.h"
#include "cli/lake/arrow_ipc_steps.h"
#include "cli/lake/commands.h"
#include "cli/program.h"

namespace headrace::cli {
namespace {

Commands AllCommands() {
  Commands commands;
  for (auto make : {MakeProduceCommand, MakePlanCommand, MakeMixCommand, MakeLineageCommand}) commands.push_back(make());
  commands.push_back(MakeAppendCommandWithArrow(OpenArrowIpcSteps));
  commands.push_back(MakeCatCommandWithText(FindTokenizerOfStream));
  return commands;
}

}  // namespace
}  // namespace headrace::cli

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // Cells come and go by the megabyte: memory that is given back to the system has to be cleared again when it returns, which took a third of the time.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
  return headrace::cli::RunProgram(headrace::cli::AllCommands(), argc, argv,
                                   "This is headrace-lake, which `headrace` starts for these commands: type `headrace COMMAND`.");
}
