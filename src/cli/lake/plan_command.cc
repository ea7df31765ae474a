// `headrace plan RECIPE`: what a recipe would do, before anything is written.

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "base/size.h"
#include "base/text.h"
#include "cli/lake/commands.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "plan/summary.h"
#include "produce/last_steps.h"
#include "produce/strand_feed.h"
#include "store/memory_store.h"

namespace headrace::cli {
namespace {

// List prices of S3 Standard in us-east-1: enough to tell cents from fortunes.
constexpr double kDollarsPerPut = 0.005 / 1000, kDollarsPerGet = 0.0004 / 1000, kDollarsPerGbMonth = 0.023;
constexpr double kSecondsPerDay = 86400;

struct Money {
  double steps_per_day = 0, bytes_per_day = 0;
  double puts_per_day = 0, gets_per_day = 0;
  double requests_dollars = 0, storage_dollars = 0;  // a day; storage of what is made in one
};

Money Estimate(const StreamDraft& draft, double bytes_per_step, double step_seconds) {
  Money money;
  money.steps_per_day = kSecondsPerDay / step_seconds;
  money.bytes_per_day = money.steps_per_day * bytes_per_step;
  const double blocks = money.steps_per_day / draft.info.blocks.phases().back().steps;
  // A chunk, its lineage and a manifest each; readers take one range of a chunk per rank, and look at the log.
  money.puts_per_day = 3 * blocks;
  money.gets_per_day = blocks * (draft.info.lanes + 2);
  money.requests_dollars = money.puts_per_day * kDollarsPerPut + money.gets_per_day * kDollarsPerGet;
  money.storage_dollars = money.bytes_per_day / 1e9 * kDollarsPerGbMonth / 30;
  return money;
}

class PlanCommand final : public Command {
 public:
  std::string name() const override { return "plan"; }
  std::string summary() const override { return "what a recipe would do, before anything is written"; }

  void Declare(CLI::App& app) override {
    app.add_option("RECIPE", recipe_, "the recipe, a YAML file")->required()->type_name("FILE");
    app.add_option("--folder", folder_, "what relative paths in the recipe start from (its own folder)")->type_name("DIR");
    app.add_option("--steps", steps_, "how many steps to plan (64)")->type_name("N")->check(CLI::Range(1u, 1000000u));
    AddDuration(app, "--step-time", step_time_, "how long the trainer takes for a step, for requests and money per day (1s)");
    AddSize(app, "--memory", memory_, "for what is read ahead (1GB)");
    app.footer(
        "Reads as much of the lake as the planned steps need, writes nothing.\n"
        "\n"
        "  headrace plan recipe.yaml\n"
        "  headrace plan recipe.yaml --steps 1000 --step-time 4s --json");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    Progress progress;
    HR_ASSIGN_OR_RETURN(Recipe recipe, ReadRecipe(recipe_, console, folder_));
    const Deadline deadline = Deadline::OnlyStop(stop);
    LakeOptions options;
    options.python = PythonForWorkers();
    options.memory = memory_;
    options.threads = std::max(1u, std::thread::hardware_concurrency());
    options.progress = [&](const std::string& what, uint64_t done, uint64_t of) {
      progress.Show(fmt::format("{} ({} of {})", what, done, of));
    };
    HR_ASSIGN_OR_RETURN(std::unique_ptr<LoadedRecipe> lake, LoadedRecipe::Make(std::move(recipe), options));
    MemoryStore store("plan");
    HR_ASSIGN_OR_RETURN(StreamDraft draft, DraftStream(*lake, options, store, deadline));
    PlanSummary summary;
    bool ended = false;
    HR_RETURN_IF_ERROR(PlanSteps(*lake, draft, store, options, deadline, progress, summary, ended));
    progress.Clear();
    Tell(console, *lake, draft, summary, ended);
    return kDone;
  }

 private:
  // The strands in turn, block by block, as the stream will have them.
  Status PlanSteps(const LoadedRecipe& lake, const StreamDraft& draft, ObjectStore& store, const LakeOptions& options,
                   const Deadline& deadline, Progress& progress, PlanSummary& summary, bool& ended) const {
    Sources sources(lake.recipe, lake.transforms, lake.cost, false, options.memory);
    HR_RETURN_IF_ERROR(sources.Open(draft.recipe.first.sources, store, deadline));
    const CellLayout layout = LayoutOf(draft.info.columns);
    struct Line {
      std::unique_ptr<StrandFeed> feed;
      std::unique_ptr<Planner> planner;
      bool ended = false;
    };
    std::vector<Line> lines(draft.info.strands);
    for (uint32_t strand = 0; strand < draft.info.strands; ++strand) {
      lines[strand].feed =
          std::make_unique<StrandFeed>(lake.recipe, sources, layout.kept, static_cast<uint16_t>(strand), deadline);
      lines[strand].planner =
          std::make_unique<Planner>(lake.recipe, draft.recipe.first.Names(), *lines[strand].feed, lake.Cost());
    }
    uint64_t step = 0;
    for (uint64_t block = 0; summary.steps < steps_; ++block) {
      if (draft.recipe.blocks != 0 && block >= draft.recipe.blocks) break;
      Line& line = lines[block % lines.size()];
      const uint32_t count = draft.info.blocks.Steps(block);
      for (uint32_t i = 0; i < count && summary.steps < steps_ && !line.ended; ++i) {
        HR_RETURN_IF_ERROR(deadline.Check(RealClock(), "planning"));
        HR_ASSIGN_OR_RETURN(std::optional<StepPlan> plan, line.planner->Next(step + i, draft.recipe.first.mix));
        if (!plan) {
          line.ended = true;
          break;
        }
        summary.Add(*plan);
        line.feed->Retain(line.planner->Carried());
        progress.Show(fmt::format("planning step {}", summary.steps), static_cast<double>(summary.steps) / steps_);
      }
      step += count;
      ended = std::ranges::all_of(lines, &Line::ended);
      if (ended) break;
    }
    if (!ended || summary.steps >= steps_) return {};
    LastSteps last{lake.recipe, draft.recipe.first.sources.size(), draft.recipe.first.mix, lake.Cost(), summary.steps};
    last.most = steps_ - summary.steps;
    if (draft.recipe.blocks != 0)
      last.most = std::min(last.most, draft.info.blocks.FirstStep(draft.recipe.blocks) - summary.steps);
    return PlanLastSteps(
        last, static_cast<uint16_t>(lines.size()),
        [&](uint16_t strand) -> Result<EndingStrand> {
          return EndingStrand{lines[strand].feed.get(), lines[strand].planner.get(), step};
        },
        [&](const StepPlan& plan) {
          summary.Add(plan);
          return Status();
        });
  }

  void Tell(const Console& console, const LoadedRecipe& lake, const StreamDraft& draft, const PlanSummary& summary,
            bool ended) const {
    const std::vector<std::string> names = draft.recipe.first.Names();
    const double bytes = summary.BytesPerStep();
    const Money money = Estimate(draft, bytes, std::chrono::duration<double>(step_time_).count());
    const double drawn = static_cast<double>(std::accumulate(summary.samples.begin(), summary.samples.end(), uint64_t{0}));
    double lasts = summary.steps == 0 || drawn == 0
                       ? 0
                       : static_cast<double>(draft.inventory_rows) / (drawn / static_cast<double>(summary.steps));
    // Chunks grow at first, and the last one of a stream that ends is as short as it must be.
    uint32_t most_steps = 0;
    for (const BlockSizes::Phase& phase : draft.info.blocks.phases()) most_steps = std::max(most_steps, phase.steps);
    // `until` may end the stream before the lake does; and with a source that is repeated the lake never does.
    if (draft.recipe.blocks != 0 && summary.steps > 0) {
      const auto asked_for = static_cast<double>(draft.info.blocks.FirstStep(draft.recipe.blocks));
      const bool repeated =
          std::ranges::any_of(lake.recipe.sources, [](const SourceSpec& source) { return source.at_end == AtEnd::kRepeat; });
      lasts = repeated ? asked_for : std::min(lasts, asked_for);
    }
    if (console.json()) {
      nlohmann::json shares;
      const auto weights = draft.recipe.first.mix.At(0);
      for (size_t i = 0; i < names.size(); ++i) {
        shares[names[i]] = {{"share", i < summary.samples.size() ? summary.Share(i) : 0.0},
                            {"weight", weights.contains(names[i]) ? weights.at(names[i]) : 0.0},
                            {"samples", i < summary.samples.size() ? summary.samples[i] : 0},
                            {"tokens", i < summary.tokens.size() ? summary.tokens[i] : 0}};
      }
      console.SayJson({{"steps", summary.steps},
                       {"sources", shares},
                       {"padding", summary.PaddingShare()},
                       {"truncated_tokens", summary.truncated},
                       {"dropped_samples", summary.dropped},
                       {"spread",
                        {{"before", summary.MeanBefore()},
                         {"after", summary.MeanAfter()},
                         {"worst_before", summary.worst_before},
                         {"worst_after", summary.worst_after}}},
                       {"bytes_per_step", bytes},
                       {"steps_per_chunk", most_steps},
                       {"lake",
                        {{"files", draft.inventory_files},
                         {"rows", draft.inventory_rows},
                         {"bytes", draft.inventory_bytes},
                         {"exact", draft.exact}}},
                       {"lasts_steps", lasts},
                       {"ends_within", ended && summary.steps < steps_},
                       {"per_day",
                        {{"steps", money.steps_per_day},
                         {"bytes", money.bytes_per_day},
                         {"puts", money.puts_per_day},
                         {"gets", money.gets_per_day},
                         {"request_dollars", money.requests_dollars},
                         {"storage_dollars", money.storage_dollars}}}});
    }
    console.Say(fmt::format("{}: {} steps planned, {} lanes, {} strands", lake.recipe.name, summary.steps, draft.info.lanes,
                            draft.info.strands));
    if (ended && summary.steps == 0) {
      console.Say(fmt::format(
          "all that the sources have is less than one step of {} {}: nothing would be made. Make steps smaller (`step`), "
          "or keep a last step that is not full (`drop_last: false`)",
          lake.recipe.StepSize(0), lake.recipe.pack ? "sequences" : "samples"));
      return;
    }
    console.Say("");
    for (const std::string& line : Lines(Bars(summary, names, draft.recipe.first.mix.At(0), 40, console.Pick("u", "a") == "a")))
      console.Say(line);
    console.Say("");
    Table table;
    table.Add({"lake", fmt::format("{} files, {}{} rows, {}", Grouped(static_cast<double>(draft.inventory_files)),
                                   draft.exact ? "" : "about ", Grouped(static_cast<double>(draft.inventory_rows)),
                                   FormatSize(static_cast<double>(draft.inventory_bytes)))});
    table.Add({"lasts", ended && summary.steps < steps_ ? "it ends within the planned steps"
                                                        : fmt::format("about {} steps", Grouped(lasts))});
    table.Add({"memory",
               fmt::format("{} at least, for a producer of all strands", FormatSize(static_cast<double>(draft.memory.least())))});
    table.Add({"a step", fmt::format("{}; up to {} steps in a chunk", FormatSize(bytes), most_steps)});
    table.Add(
        {"a day", fmt::format("{} steps of {}, {}, {} puts, {} gets", Grouped(money.steps_per_day), FormatDuration(step_time_),
                              FormatSize(money.bytes_per_day), Grouped(money.puts_per_day), Grouped(money.gets_per_day))});
    table.Add({"money a day", fmt::format("${:.2f} for requests, ${:.2f} for keeping what was made (S3 Standard)",
                                          money.requests_dollars, money.storage_dollars)});
    for (const std::string& line : table.Lines()) console.Say(line);
  }

  static std::vector<std::string> Lines(const std::string& text) {
    std::vector<std::string> lines = Split(text, '\n');
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines;
  }

  std::string recipe_, folder_;
  uint32_t steps_ = 64;
  Duration step_time_ = std::chrono::seconds(1);
  uint64_t memory_ = uint64_t{1} << 30;
};

}  // namespace

std::unique_ptr<Command> MakePlanCommand() { return std::make_unique<PlanCommand>(); }

}  // namespace headrace::cli
