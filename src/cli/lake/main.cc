// headrace-lake: the commands of `headrace` that read a lake. People type `headrace produce`, and that program starts this one.

#include "cli/lake/commands.h"
#include "cli/program.h"

namespace headrace::cli {
namespace {

Commands AllCommands() {
  Commands commands;
  for (auto make : {MakeProduceCommand, MakePlanCommand, MakeMixCommand, MakeLineageCommand}) commands.push_back(make());
  return commands;
}

}  // namespace
}  // namespace headrace::cli

int main(int argc, char** argv) { return headrace::cli::RunProgram(headrace::cli::AllCommands(), argc, argv); }
