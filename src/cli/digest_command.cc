// `headrace digest STREAM`: what the steps hold, as hashes.

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/stream_for_command.h"
#include "stream/digest.h"

namespace headrace::cli {
namespace {

class DigestCommand final : public Command {
 public:
  std::string name() const override { return "digest"; }
  std::string summary() const override { return "one hash for each step's content, and one for all of them"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_option_function<uint64_t>(
           "--from", [this](uint64_t step) { from_ = step; }, "the first step (the first that is still there)")
        ->type_name("A");
    app.add_option_function<uint64_t>(
           "--to", [this](uint64_t step) { to_ = step; }, "the step after the last (the end of the stream)")
        ->type_name("B");
    app.footer(
        "Of columns and bytes of every lane, not of how they are stored: equal streams have equal digests, whatever their chunks,\n"
        "compression, strands or uuid. \"all\" is the SHA-256 of the steps' hashes, written one after another.\n"
        "\n"
        "  headrace digest /data/live\n"
        "  headrace digest s3://bucket/live --from 100 --to 200 --json");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    StreamLog::StatePtr state = log->known();
    uint64_t from = from_.value_or(state->manifest.trim_step);
    uint64_t to = to_.value_or(state->manifest.frontier_step);
    if (from > to) return Status(Code::kInvalidArgument, fmt::format("there are no steps from {} to {}", from, to));
    if (to > state->manifest.frontier_step) {
      return Status(Code::kNotFound, fmt::format("--to {}: there are {} steps{}", to, state->manifest.frontier_step,
                                                 state->manifest.finished ? ", and the stream ends there" : " so far"));
    }
    nlohmann::json steps = nlohmann::json::array();
    Sha256 all;
    StreamReader reader(log);
    {
      Progress progress;
      HR_RETURN_IF_ERROR(
          DigestSteps(reader, log->info(), from, to, Deadline::OnlyStop(stop), [&](uint64_t step, const std::string& digest) {
            all.Update(digest.data(), digest.size());
            if (console.json()) {
              steps.push_back(digest);
            } else {
              progress.Clear();
              console.Say(fmt::format("{:>10}  {}", step, digest));
            }
            progress.Show(fmt::format("step {}", step), static_cast<double>(step - from + 1) / static_cast<double>(to - from));
            return Status();
          }));
    }
    std::string whole = ToHex(all.Finish());
    if (console.json()) console.SayJson({{"from", from}, {"to", to}, {"steps", steps}, {"all", whole}});
    console.Say(fmt::format("{:>10}  {}", "all", whole));
    return kDone;
  }

 private:
  std::string uri_;
  std::optional<uint64_t> from_;
  std::optional<uint64_t> to_;
};

}  // namespace

std::unique_ptr<Command> MakeDigestCommand() { return std::make_unique<DigestCommand>(); }

}  // namespace headrace::cli
