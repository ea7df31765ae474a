// `headrace gc STREAM`: gives back what no pin needs.

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/size.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/stream_for_command.h"
#include "cli/table.h"
#include "feedback/fold_feedback.h"
#include "stream/collector.h"

namespace headrace::cli {
namespace {

class GcCommand final : public Command {
 public:
  std::string name() const override { return "gc"; }
  std::string summary() const override { return "delete what no pin needs, and what crashes left"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_flag("--dry-run", options_.dry_run, "say what would go, change nothing");
    AddDuration(app, "--grace", options_.grace, "how long to wait before deleting, for readers that are behind (60s)");
    app.footer(
        "Everything before the lowest pin goes; without any pin, no step goes. What trainers reported of such steps stays, in fewer objects.\n"
        "May run at any time, in any number, and be killed.\n"
        "\n"
        "  headrace gc /data/live --dry-run\n"
        "  headrace gc s3://bucket/live --grace 5m --json");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    bool pinned = log->known()->manifest.LowestPin().has_value();
    HR_ASSIGN_OR_RETURN(Collected collected, Collect(log, stop));
    HR_ASSIGN_OR_RETURN(const FoldedFeedback folded,
                        FoldFeedback(*log, collected.trim_step, options_.dry_run, Deadline::OnlyStop(stop)));
    if (console.json()) {
      console.SayJson({{"dry_run", options_.dry_run},
                       {"trim", collected.trim_step},
                       {"chunks", collected.chunks},
                       {"chunk_bytes", collected.chunk_bytes},
                       {"kept_chunks", collected.kept_chunks},
                       {"kept_chunk_bytes", collected.kept_chunk_bytes},
                       {"orphans", collected.orphans},
                       {"orphan_bytes", collected.orphan_bytes},
                       {"segments", collected.segments},
                       {"intents", collected.intents},
                       {"manifests", collected.manifests},
                       {"expired_pins", collected.expired_pins},
                       {"feedback_objects", folded.objects},
                       {"feedback_folds", folded.folds}});
    }
    console.Say(options_.dry_run ? "would delete" : "deleted");
    Table table;
    auto add = [&](std::string what, uint64_t count, uint64_t bytes) {
      table.Add({"  " + what, Grouped(static_cast<double>(count)), bytes == 0 ? "" : FormatSize(static_cast<double>(bytes))});
    };
    add(fmt::format("chunks before step {}", collected.trim_step), collected.chunks, collected.chunk_bytes);
    add("chunks that crashes left", collected.orphans, collected.orphan_bytes);
    add("pieces of the index", collected.segments, 0);
    add("intents", collected.intents, 0);
    add("old manifests", collected.manifests, 0);
    for (const std::string& line : table.Lines()) console.Say(line);
    if (folded.objects > 0) {
      console.Say(fmt::format("{} {} objects with reports of steps before {} into {}", options_.dry_run ? "would fold" : "folded",
                              Grouped(static_cast<double>(folded.objects)), collected.trim_step,
                              Grouped(static_cast<double>(folded.folds))));
    }
    if (collected.expired_pins > 0) console.Say(fmt::format("{} pins had expired", collected.expired_pins));
    if (collected.kept_chunks > 0) {
      console.Say(fmt::format(
          "{} before step {} {} ({}): the last of each strand there, from which a restart or a branch goes on",
          collected.kept_chunks == 1 ? "1 chunk" : fmt::format("{} chunks", collected.kept_chunks), collected.trim_step,
          collected.kept_chunks == 1 ? "stays" : "stay", FormatSize(static_cast<double>(collected.kept_chunk_bytes))));
    }
    if (std::optional<uint64_t> pin = log->known()->manifest.LowestPin(); pin && *pin > collected.trim_step) {
      console.Say(fmt::format("the lowest pin is on step {}: the chunk that holds it begins at step {}, and stays whole", *pin,
                              collected.trim_step));
    }
    console.Say(pinned ? fmt::format("the stream {} at step {}", options_.dry_run ? "would begin" : "begins", collected.trim_step)
                       : "there is no pin, so no step was given up");
    return kDone;
  }

 private:
  Result<Collected> Collect(const std::shared_ptr<StreamLog>& log, std::stop_token stop) const {
    Collector collector(log);
    Progress progress;
    Instant began = RealClock().Now();
    std::string grace = options_.dry_run ? "" : fmt::format(", with a grace period of {}", FormatDuration(options_.grace));
    std::jthread ticker([&](const std::stop_token& own) {
      while (!own.stop_requested()) {
        progress.Show(fmt::format("collecting{}: {}", grace, FormatDuration(RealClock().Now() - began)));
        RealClock().SleepFor(std::chrono::milliseconds(200), own);
      }
    });
    return collector.Collect(options_, Deadline::OnlyStop(std::move(stop)));
  }

  std::string uri_;
  CollectOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeGcCommand() { return std::make_unique<GcCommand>(); }

}  // namespace headrace::cli
