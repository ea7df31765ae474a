// `headrace verify STREAM`: is everything there, and as it was written?

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/size.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/stream_for_command.h"
#include "stream/verify.h"
#include "stream/verify_recipe.h"

namespace headrace::cli {
namespace {

class VerifyCommand final : public Command {
 public:
  std::string name() const override { return "verify"; }
  std::string summary() const override {
    return "read all data of a stream and check every checksum; exit 1 and name each damaged object";
  }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.footer(
        "Reads all that the newest manifest refers to: every chunk that is not trimmed and its checksums, the index, the chain of every\n"
        "strand, and where the stream has a recipe, that, its mixtures and the inventories of its sources. Not lineage, feedback and\n"
        "status objects, nor the lake. What could not be checked because of the damage is said apart: it may well be whole.\n"
        "\n"
        "  headrace verify /data/live\n"
        "  headrace verify s3://bucket/live --json");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    Result<VerifyReport> report = Read(stop);
    if (report.code() == Code::kCorrupt) {
      // So near the root that nothing below it can be found.
      VerifyReport root;
      root.damaged.push_back({uri_, report.status().message()});
      report = std::move(root);
    }
    if (!report.ok()) return report.status();
    bool good = report->damaged.empty();
    if (console.json()) {
      auto list = [](const std::vector<Damage>& found) {
        nlohmann::json objects = nlohmann::json::array();
        for (const Damage& damage : found) objects.push_back({{"object", damage.object}, {"what", damage.what}});
        return objects;
      };
      console.SayJson({{"ok", good},
                       {"damaged", list(report->damaged)},
                       {"unchecked", list(report->unchecked)},
                       {"steps", report->steps},
                       {"chunks", report->chunks},
                       {"segments", report->segments},
                       {"recipe_objects", report->recipe_objects},
                       {"bytes", report->bytes}});
    }
    for (const Damage& damage : report->damaged)
      console.Say(fmt::format("{} {}: {}", console.Mark(false), damage.object, damage.what));
    for (const Damage& gap : report->unchecked) console.Say(fmt::format("  not checked: {}: {}", gap.object, gap.what));
    std::string seen = fmt::format("{} steps, {} chunks, {} index segments, {}", report->steps, report->chunks, report->segments,
                                   FormatSize(static_cast<double>(report->bytes)));
    console.Say(console.Bold(good ? fmt::format("{} whole: {}", console.Mark(true), seen)
                                  : fmt::format("{} damaged object{} among {}", report->damaged.size(),
                                                report->damaged.size() == 1 ? "" : "s", seen)));
    return good ? kDone : kFailed;
  }

 private:
  Result<VerifyReport> Read(std::stop_token stop) const {
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    Progress progress;
    const Deadline deadline = Deadline::OnlyStop(stop);
    HR_ASSIGN_OR_RETURN(VerifyReport report, Verify(*log, deadline, [&](uint64_t done, uint64_t of) {
                          progress.Show(fmt::format("step {} of {}", done, of),
                                        static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(1, of)));
                        }));
    HR_RETURN_IF_ERROR(VerifyRecipe(*log, deadline, report));
    return report;
  }

  std::string uri_;
};

}  // namespace

std::unique_ptr<Command> MakeVerifyCommand() { return std::make_unique<VerifyCommand>(); }

}  // namespace headrace::cli
