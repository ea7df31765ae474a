// The command `headrace`. What reads a lake is a program of its own, headrace-lake, beside this one: it needs Arrow, and this does not.

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/lake_program.h"
#include "cli/program.h"

namespace headrace::cli {
namespace {

Commands AllCommands() {
  Commands commands;
  for (auto make : {MakeDemoCommand, MakeCreateCommand, MakeAppendCommand, MakeInspectCommand, MakeCatCommand, MakeDigestCommand,
                    MakeVerifyCommand, MakePinCommand, MakeUnpinCommand, MakePinsCommand, MakeGcCommand, MakeFeedbackCommand,
                    MakeProbeCommand, MakeBenchCommand}) {
    commands.push_back(make());
  }
  for (std::unique_ptr<Command>& command : LakeCommands()) commands.push_back(std::move(command));
  return commands;
}

}  // namespace
}  // namespace headrace::cli

int main(int argc, char** argv) { return headrace::cli::RunProgram(headrace::cli::AllCommands(), argc, argv); }
