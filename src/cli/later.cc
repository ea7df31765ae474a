#include "cli/later.h"

#include <fmt/core.h>

namespace headrace::cli {
namespace {

constexpr LaterCommand kLater[] = {
    {"blame", ""}, {"node", ""}, {"top", ""}, {"dashboard", ""}, {"copy", ""},
};

}  // namespace

std::span<const LaterCommand> LaterCommands() { return kLater; }

Status NotYet(const LaterCommand& command) {
  std::string version = command.version.empty() ? "a later version" : fmt::format("version {}", command.version);
  return Status(Code::kUnsupported, fmt::format("{} will have this command; this is {}", version, HEADRACE_VERSION));
}

}  // namespace headrace::cli
