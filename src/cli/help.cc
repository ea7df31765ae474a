#include "cli/help.h"

#include <fmt/core.h>

#include "cli/console.h"

namespace headrace::cli {
namespace {

// Terminals that cannot show an ellipsis get dots.
std::string ForLocale(std::string text) {
  constexpr std::string_view kEllipsis = "…";
  if (LocaleIsUtf8()) return text;
  for (size_t at = 0; (at = text.find(kEllipsis, at)) != std::string::npos;) text.replace(at, kEllipsis.size(), "...");
  return text;
}

}  // namespace

std::string Help(const Commands& commands, std::string_view about) {
  std::string text =
      "headrace: training data from the lake to the accelerators, through an object store\n"
      "\n"
      "usage: headrace [--json] COMMAND …\n"
      "\n";
  if (!about.empty()) text += fmt::format("{}\n\n", about);
  for (const auto& command : commands) text += fmt::format("  {:<10} {}\n", command->name(), command->summary());
  text +=
      "\n"
      "  --json     one JSON document on stdout; progress and messages go to stderr\n"
      "  --version  which headrace this is\n"
      "  --help     this text; `headrace COMMAND --help` says more about a command\n"
      "\n"
      "URI is s3://bucket/prefix, file:///path, a plain path, or mem://name. S3 credentials, region and endpoint come from\n"
      "where the AWS tools have them, or from the URI: s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-west-1\n"
      "\n"
      "Exit status: 0 done, 1 the answer is no or it failed, 2 the words were wrong.\n";
  return ForLocale(std::move(text));
}

std::string HelpFor(const Command& command, const CLI::App& app) {
  std::string text = fmt::format("usage: headrace {}", command.name());
  std::string rows;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // for our own processes
    std::string name = option->get_name(option->get_positional(), false);
    if (option->get_positional()) text += option->get_required() ? " " + name : " [" + name + "]";
    // Flags have a type too, which is nothing to be shown.
    if (!option->get_positional() && option->get_expected_max() > 0) name += " " + option->get_type_name();
    rows += fmt::format("  {:<18} {}\n", name, option->get_description());
  }
  return ForLocale(fmt::format("{} [options]\n\n{}\n\n{}\n{}\n", text, app.get_description(), rows, app.get_footer()));
}

}  // namespace headrace::cli
