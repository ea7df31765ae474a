#include "cli/lake_program.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace headrace::cli {
namespace {

// The words of this process, as the system keeps them.
std::vector<std::string> OwnWords() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

class LakeCommand final : public Command {
 public:
  LakeCommand(std::string name, std::string summary) : name_(std::move(name)), summary_(std::move(summary)) {}
  std::string name() const override { return name_; }
  std::string summary() const override { return summary_; }
  void Declare(CLI::App& app) override {
    // Words and help are the other program's to understand.
    app.allow_extras();
    app.prefix_command();
    app.preparse_callback([this](size_t) { refused_ = HandOverToLake("reading a lake"); });
  }
  Result<ExitStatus> Run(const Console&, std::stop_token) override { return refused_; }

 private:
  const std::string name_, summary_;
  Status refused_;
};

}  // namespace

Status HandOverToLake(std::string_view what) {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path program = own.parent_path() / "headrace-lake";
  if (error || access(program.c_str(), X_OK) != 0) {
    return Status(
        Code::kUnsupported,
        fmt::format(
            "this Headrace was built without what {} needs (headrace-lake is missing beside it); build it with HEADRACE_LAKE=ON",
            what));
  }
  // Asked first, so that a person is told what to do, not what the system's linker thinks.
  if (void* arrow = dlopen(HEADRACE_ARROW_LIBRARY, RTLD_LAZY | RTLD_LOCAL); arrow == nullptr) {
    return Status(Code::kUnsupported,
                  fmt::format("{} needs the Python package pyarrow {} beside Headrace: `pip install 'pyarrow=={}.*'` ({})", what,
                              HEADRACE_ARROW_MAJOR, HEADRACE_ARROW_MAJOR, dlerror()));
  }
  std::vector<char*> arguments;
  std::vector<std::string> kept = OwnWords();
  for (std::string& word : kept) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  return Status(Code::kUnsupported, fmt::format("cannot start {}: {}", program.string(), std::strerror(errno)));
}

Commands LakeCommands() {
  Commands commands;
  commands.push_back(std::make_unique<LakeCommand>("produce", "turn a lake into a stream, as a recipe says"));
  commands.push_back(std::make_unique<LakeCommand>("plan", "what a recipe would do, before anything is written"));
  commands.push_back(std::make_unique<LakeCommand>("mix", "change the mixture of a living stream, or add sources"));
  commands.push_back(std::make_unique<LakeCommand>("lineage", "which samples a step is made of"));
  return commands;
}

}  // namespace headrace::cli
