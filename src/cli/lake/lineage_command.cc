// `headrace lineage STREAM --step N`: the samples that a step is made of.

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/lake/commands.h"
#include "cli/stream_for_command.h"
#include "cli/table.h"
#include "produce/lineage.h"
#include "stream/stream_reader.h"

namespace headrace::cli {
namespace {

class LineageCommand final : public Command {
 public:
  std::string name() const override { return "lineage"; }
  std::string summary() const override { return "which samples a step is made of"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_option("--step", step_, "which step")->required()->type_name("N");
    app.add_option("--lane", lane_, "only this lane (all)")->type_name("L");
    app.footer(
        "Each sample has source, file and row, and its elements start … start+length stand at `position` of a sequence of a lane.\n"
        "\n"
        "  headrace lineage s3://bucket/runs/a --step 1000 --lane 3");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    const Deadline deadline = Deadline::OnlyStop(stop);
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    if (lane_ && *lane_ >= log->info().lanes)
      return Status(Code::kInvalidArgument,
                    fmt::format("the stream has {} lanes; there is no lane {}", log->info().lanes, *lane_));
    StreamReader reader(log);
    HR_ASSIGN_OR_RETURN(Entry entry, reader.Find(step_, deadline));
    const std::string key = LineageKey(entry.name);
    HR_ASSIGN_OR_RETURN(std::optional<Object> object, log->store().Get(key, deadline));
    if (!object) {
      return Status(
          Code::kNotFound,
          log->info().recipe.empty()
              ? fmt::format("the stream {} was not made from a recipe, so nothing is known about where its samples came from",
                            uri_)
              : fmt::format("{} is not there", log->store().Describe(key)));
    }
    HR_ASSIGN_OR_RETURN(std::vector<LineageSample> samples, DecodeLineage(object->bytes, log->store().Describe(key)));
    nlohmann::json list = nlohmann::json::array();
    Table table;
    table.Add({"lane", "sequence", "position", "source", "row", "start", "length", "file"});
    for (const LineageSample& sample : samples) {
      if (entry.first_step + sample.step != step_ || (lane_ && sample.lane != *lane_)) continue;
      if (console.json()) {
        list.push_back({{"source", sample.source},
                        {"file", sample.file},
                        {"row", sample.row},
                        {"start", sample.start},
                        {"length", sample.length},
                        {"lane", sample.lane},
                        {"sequence", sample.sequence},
                        {"position", sample.position},
                        {"mixture", sample.mixture}});
      } else {
        table.Add({fmt::format("{}", sample.lane), fmt::format("{}", sample.sequence), fmt::format("{}", sample.position),
                   sample.source, fmt::format("{}", sample.row), fmt::format("{}", sample.start),
                   fmt::format("{}", sample.length), sample.file});
      }
    }
    if (console.json()) console.SayJson({{"samples", list}});
    for (const std::string& line : table.Lines()) console.Say(line);
    return kDone;
  }

 private:
  std::string uri_;
  uint64_t step_ = 0;
  std::optional<uint32_t> lane_;
};

}  // namespace

std::unique_ptr<Command> MakeLineageCommand() { return std::make_unique<LineageCommand>(); }

}  // namespace headrace::cli
