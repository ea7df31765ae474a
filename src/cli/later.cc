#include "cli/later.h"

#include <fmt/core.h>

namespace headrace::cli {
namespace {

constexpr LaterCommand kLater[] = {
    {"create", "0.2"},  {"append", "0.2"}, {"inspect", "0.2"}, {"digest", "0.2"}, {"verify", "0.2"},
    {"cat", "0.2"},     {"pin", "0.2"},    {"unpin", "0.2"},   {"pins", "0.2"},   {"gc", "0.2"},
    {"produce", "0.3"}, {"plan", "0.3"},   {"lineage", "0.3"}, {"mix", "0.3"},    {"demo", ""},
    {"blame", ""},      {"node", ""},      {"top", ""},        {"dashboard", ""}, {"copy", ""},
};

}  // namespace

std::span<const LaterCommand> LaterCommands() { return kLater; }

Status NotYet(const LaterCommand& command) {
  std::string version = command.version.empty() ? "a later version" : fmt::format("version {}", command.version);
  return Status(Code::kUnsupported, fmt::format("{} will have this command; this is {}", version, HEADRACE_VERSION));
}

}  // namespace headrace::cli
