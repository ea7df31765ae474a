#include "cli/program.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/interrupts.h"
#include "cli/later.h"

namespace headrace::cli {
namespace {

// Options of a command and of the program, as they are written.
std::vector<std::string> OptionNames(const CLI::App& program, const CLI::App* command) {
  std::vector<std::string> names;
  for (const CLI::App* app : {&program, command}) {
    if (app == nullptr) continue;
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::string Suggestion(std::string_view word, const std::vector<std::string>& words) {
  std::vector<std::string_view> views(words.begin(), words.end());
  std::string_view near = Nearest(word, views);
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

// What CLI11 could not make sense of, in our words.
Status WrongWords(const CLI::ParseError& error, const CLI::App& program, const CLI::App* command) {
  std::string message = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    std::vector<std::string> extras = program.remaining(true);
    if (!extras.empty()) {
      // "--siez=3" is about "--siez".
      std::string word = extras.front().substr(0, extras.front().find('='));
      bool option = word.starts_with('-');
      message = option ? fmt::format("there is no option {}{}", word, Suggestion(word, OptionNames(program, command)))
                       : fmt::format("\"{}\" is one word too many", extras.front());
    }
  } else if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError)) {
    message = fmt::format("{} is missing", error.what());
    if (size_t end = message.find(" is required"); end != std::string::npos)
      message = fmt::format("{} is missing", message.substr(0, end));
  }
  return Status(Code::kInvalidArgument, message);
}

int UnknownCommand(const Console& console, const Commands& commands, const std::string& word, std::string_view about) {
  std::vector<std::string> names;
  for (const auto& command : commands) names.push_back(command->name());
  for (const LaterCommand& later : LaterCommands()) names.emplace_back(later.name);
  console.Fail("headrace",
               Status(Code::kInvalidArgument, fmt::format("there is no command \"{}\"{}", word, Suggestion(word, names))));
  fmt::print(stderr, "\n{}", Help(commands, about));
  return kWrongWords;
}

// CLI11 takes "-1" for 18446744073709551615, and has no kind words for "x".
std::string NotACount(std::string& text) {
  const bool digits = !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? "" : fmt::format("\"{}\" is not a whole number from 0 on", text);
}

void CheckCounts(CLI::App& app) {
  static constexpr std::string_view kCounts[] = {"A", "B", "K", "L", "N", "V"};
  for (CLI::Option* option : app.get_options()) {
    if (std::ranges::find(kCounts, option->get_type_name()) != std::end(kCounts)) option->check(CLI::Validator(NotACount, ""));
  }
}

int Execute(const Console& console, Command& command) {
  Interrupts interrupts;
  std::string name = "headrace " + command.name();
  Result<ExitStatus> status = command.Run(console, interrupts.stop());
  if (int number = Interrupts::caught(); number != 0) {
    if (status.ok() && *status == kStopped) return console.Flush() ? kDone : kFailed;
    if (status.ok() && *status == kInterrupted) {
      console.Flush();
      return 128 + number;
    }
    std::string message = fmt::format("interrupted ({})", strsignal(number));
    if (!status.ok() && status.code() != Code::kCancelled) message += "; " + status.status().message();
    console.Fail(name, Status(Code::kCancelled, message));
    console.Flush();
    return 128 + number;
  }
  if (!status.ok()) {
    console.Fail(name, status.status());
    console.Flush();
    return kFailed;
  }
  if (!console.Flush()) {
    fmt::print(stderr, "{}: the answer could not be written to stdout: {}\n", name, std::strerror(errno));
    return kFailed;
  }
  return *status;
}

}  // namespace

int RunProgram(Commands commands, int argc, char** argv, std::string_view about) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const Console console(std::ranges::find(words, "--json") != words.end());

  auto first = std::ranges::find_if(words, [](const std::string& word) { return !word.starts_with('-'); });
  if (first != words.end()) {
    std::string word = *first;
    if (word == "help") {  // headrace help probe
      *first = "--help";
      if (first + 1 == words.end()) first = words.end();
    } else if (auto later = std::ranges::find(LaterCommands(), word, &LaterCommand::name); later != LaterCommands().end()) {
      console.Fail(fmt::format("headrace {}", word), NotYet(*later));
      return kFailed;
    } else if (std::ranges::find(commands, word, &Command::name) == commands.end()) {
      return UnknownCommand(console, commands, word, about);
    }
  }

  bool json = false;
  CLI::App program;
  program.add_flag("--json", json);
  program.set_version_flag("-V,--version", fmt::format("headrace {}", HEADRACE_VERSION));
  Command* chosen = nullptr;
  CLI::App* chosen_app = nullptr;
  for (const auto& command : commands) {
    CLI::App* app = program.add_subcommand(command->name(), command->summary());
    app->fallthrough();
    app->preparse_callback([&, app](size_t) {
      chosen = command.get();
      chosen_app = app;
    });
    command->Declare(*app);
    CheckCounts(*app);
    app->add_flag("--json", json, "one JSON document on stdout; progress and messages go to stderr");
    app->set_help_flag("-h,--help", "this text");
  }
  try {
    std::ranges::reverse(words);  // as CLI11 wants them
    program.parse(words);
  } catch (const CLI::CallForHelp&) {
    std::string text = chosen_app == nullptr ? Help(commands, about) : HelpFor(*chosen, *chosen_app);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return console.Flush() ? kDone : kFailed;
  } catch (const CLI::CallForVersion& version) {
    std::fputs(version.what(), stdout);
    std::fputs("\n", stdout);
    return console.Flush() ? kDone : kFailed;
  } catch (const CLI::ParseError& error) {
    std::string name = chosen == nullptr ? "headrace" : "headrace " + chosen->name();
    console.Fail(name, WrongWords(error, program, chosen_app));
    fmt::print(stderr, "`{} --help` says what it takes.\n", name);
    return kWrongWords;
  }
  if (chosen == nullptr) {
    fmt::print(stderr, "{}", Help(commands, about));
    return kWrongWords;
  }
  return Execute(console, *chosen);
}

}  // namespace headrace::cli
