// One command of `headrace`: the words it takes, and what it does.
//
// Words are checked while they are read, so that a wrong one is told before anything is touched.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "cli/console.h"
#include "headrace/clock.h"
#include "headrace/result.h"

namespace headrace::cli {

// What the shell is told. 128 + signal after an interruption.
enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,      // the answer is no, or it failed
  kWrongWords = 2,  // the command line could not be understood
  kStopped = 4,  // stopped by a signal, which is how it ends: the shell is told 0
  kInterrupted = 3,  // stopped by a signal, and the answer says how far it came; the shell is told 128 + signal
};

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  // One line for the list of commands.
  virtual std::string summary() const = 0;
  virtual void Declare(CLI::App& app) = 0;
  // Returns soon after `stop` asks for it, having cleaned up. A failure is for the caller to tell.
  virtual Result<ExitStatus> Run(const Console& console, std::stop_token stop) = 0;
};

// Options in human units: --size 2GB, --timeout 30s, --gpu-rate 250MB/s.
CLI::Option* AddSize(CLI::App& app, const std::string& name, uint64_t& bytes, const std::string& help);
CLI::Option* AddRate(CLI::App& app, const std::string& name, uint64_t& bytes_per_second, const std::string& help);
CLI::Option* AddDuration(CLI::App& app, const std::string& name, Duration& time, const std::string& help);

std::unique_ptr<Command> MakeDemoCommand();
std::unique_ptr<Command> MakeProbeCommand();
std::unique_ptr<Command> MakeBenchCommand();
std::unique_ptr<Command> MakeCreateCommand();
// Hands over to headrace-lake where an input is Arrow.
std::unique_ptr<Command> MakeAppendCommand();
std::unique_ptr<Command> MakeInspectCommand();
std::unique_ptr<Command> MakeDigestCommand();
std::unique_ptr<Command> MakeVerifyCommand();
std::unique_ptr<Command> MakeCatCommand();
std::unique_ptr<Command> MakePinCommand();
std::unique_ptr<Command> MakeUnpinCommand();
std::unique_ptr<Command> MakePinsCommand();
std::unique_ptr<Command> MakeGcCommand();
std::unique_ptr<Command> MakeFeedbackCommand();

}  // namespace headrace::cli
