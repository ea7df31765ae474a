#include "cli/console.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace headrace::cli {
namespace {

std::string_view Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

void Write(std::FILE* file, std::string_view text) { std::fwrite(text.data(), 1, text.size(), file); }

}  // namespace

bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = Lower(Variable(name));
    if (!value.empty()) return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

Console::Console(bool json)
    : json_(json),
      unicode_(LocaleIsUtf8()),
      color_(isatty(STDOUT_FILENO) == 1 && Variable("NO_COLOR").empty() && Variable("TERM") != "dumb") {}

void Console::Say(std::string_view line) const {
  if (json_) return;
  Write(stdout, line);
  Write(stdout, "\n");
}

void Console::SayJson(const nlohmann::json& document) const {
  // Messages may quote what a server or a file system said, which need not be UTF-8.
  Write(stdout, document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  Write(stdout, "\n");
}

bool CalledByPython() {
  const char* caller = std::getenv("HEADRACE_CALLED_BY");
  return caller != nullptr && std::string_view(caller) == "python";
}

void Console::Complain(std::string_view command, const Status& failure) const {
  Flush();  // so that a terminal shows things in the order in which they were said
  bool say_code = failure.code() == Code::kUnsupported || failure.code() == Code::kInternal;
  std::string code = say_code ? fmt::format("{}: ", CodeName(failure.code())) : "";
  Write(stderr, fmt::format("{}: {}{}\n", command, code, failure.message()));
}

void Console::Fail(std::string_view command, const Status& failure) const {
  // Python makes an exception of the document: people would read everything twice.
  if (!json_ || !CalledByPython()) Complain(command, failure);
  if (json_) SayJson({{"error", {{"code", CodeName(failure.code())}, {"message", failure.message()}}}});
}

std::string Console::Mark(bool good) const {
  std::string mark(good ? Pick("✓", "ok") : Pick("✗", "NO"));
  return color_ ? fmt::format("\033[{}m{}\033[0m", good ? 32 : 31, mark) : mark;
}

std::string Console::Bold(std::string_view text) const {
  return color_ ? fmt::format("\033[1m{}\033[0m", text) : std::string(text);
}

bool Console::Flush() const { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

}  // namespace headrace::cli
