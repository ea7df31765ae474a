// `headrace feedback STREAM`: what trainers reported of its steps.

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "cli/command.h"
#include "cli/stream_for_command.h"
#include "cli/table.h"
#include "feedback/read_feedback.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

constexpr size_t kLastSteps = 20;

// As the stored objects write what JSON has no number for.
json NumberJson(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

json LossJson(const SourceLoss& loss) {
  return {{"sum", NumberJson(loss.sum)},
          {"count", NumberJson(loss.count)},
          {"mean", loss.count > 0 ? NumberJson(loss.sum / loss.count) : json()}};
}

std::string MeanText(const SourceLoss& loss) { return loss.count > 0 ? fmt::format("{:.4f}", loss.sum / loss.count) : ""; }

class FeedbackCommand final : public Command {
 public:
  std::string name() const override { return "feedback"; }
  std::string summary() const override { return "the loss by source and the metrics that trainers reported"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_option("--steps", steps_, "these steps, A up to but not including B; either may be left out (the last 20 reported)")
        ->type_name("A:B")
        ->check([this](const std::string& text) { return ParseSteps(text); });
    app.footer(
        "What loader.report() said, of all ranks together: sums and counts are added up, and a rank that reported a step again after a\n"
        "restart counts once. Reports stay when their steps are trimmed.\n"
        "\n"
        "  headrace feedback /data/live\n"
        "  headrace feedback s3://bucket/live --steps 1000:2000 --json");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    Deadline deadline = Deadline::OnlyStop(stop);
    HR_ASSIGN_OR_RETURN(Feedback feedback, steps_.empty() ? ReadLastFeedback(*log, kLastSteps, deadline)
                                                          : ReadFeedback(*log, first_, end_, deadline));
    if (console.json()) console.SayJson(Document(*log, feedback));
    if (feedback.steps.empty()) {
      console.Say(steps_.empty() ? "no trainer has reported anything: loader.report(step.number, loss=…, metrics=…) does"
                                 : "no trainer has reported anything about these steps");
    } else {
      for (const std::string& line : Lines(*log, feedback)) console.Say(line);
    }
    for (const auto& [object, what] : feedback.damaged)
      console.Complain("headrace feedback", Status(Code::kCorrupt, fmt::format("{}: {}", object, what)));
    return feedback.damaged.empty() ? kDone : kFailed;
  }

 private:
  std::string ParseSteps(const std::string& text) {
    const std::vector<std::string> parts = Split(text, ':');
    const bool good = parts.size() == 2 && (parts[0].empty() || ParseNumber(parts[0], first_)) &&
                      (parts[1].empty() || ParseNumber(parts[1], end_)) && first_ < end_;
    return good ? "" : fmt::format("\"{}\" is not like 100:200, with the first step below the second", text);
  }

  static json Document(StreamLog& log, const Feedback& feedback) {
    json document = {{"stream", log.store().Describe()}, {"lanes", log.info().lanes}};
    document["steps"] = json::array();
    document["damaged"] = json::array();
    for (const StepFeedback& step : feedback.steps) {
      json row = {{"step", step.step},
                  {"reader", step.reader},
                  {"time", step.time},
                  {"lanes", step.lanes},
                  {"mixture", json()},
                  {"loss", json::object()},
                  {"all", LossJson(step.total())},
                  {"metrics", json::object()}};
      if (step.mixture) row["mixture"] = *step.mixture;
      for (const auto& [source, loss] : step.loss) row["loss"][source] = LossJson(loss);
      for (const auto& [name, value] : step.metrics) row["metrics"][name] = NumberJson(value);
      document["steps"].push_back(std::move(row));
    }
    for (const auto& [object, what] : feedback.damaged) document["damaged"].push_back({{"object", object}, {"what", what}});
    return document;
  }

  static std::vector<std::string> Lines(StreamLog& log, const Feedback& feedback) {
    std::set<std::string> sources, metrics, readers;
    bool partly = false;
    for (const StepFeedback& step : feedback.steps) {
      for (const auto& [source, _] : step.loss) sources.insert(source);
      for (const auto& [name, _] : step.metrics) metrics.insert(name);
      readers.insert(step.reader);
      partly = partly || step.lanes < log.info().lanes;
    }
    const bool several = readers.size() > 1;
    Table table;
    std::vector<std::string> head = {"step"};
    if (several) head.emplace_back("reader");
    head.emplace_back("mixture");
    if (partly) head.emplace_back("lanes");
    if (!sources.empty()) head.emplace_back("loss");
    for (const std::string& source : sources) head.push_back(source);
    for (const std::string& name : metrics) head.push_back(name);
    table.Add(head);
    for (const StepFeedback& step : feedback.steps) {
      std::vector<std::string> row = {std::to_string(step.step)};
      if (several) row.push_back(step.reader);
      row.push_back(step.mixture ? std::to_string(*step.mixture) : "");
      if (partly) row.push_back(fmt::format("{} of {}", step.lanes, log.info().lanes));
      if (!sources.empty()) row.push_back(MeanText(step.total()));
      for (const std::string& source : sources) {
        auto loss = step.loss.find(source);
        row.push_back(loss == step.loss.end() ? "" : MeanText(loss->second));
      }
      for (const std::string& name : metrics) {
        auto metric = step.metrics.find(name);
        row.push_back(metric == step.metrics.end() ? "" : fmt::format("{:.6g}", metric->second));
      }
      table.Add(std::move(row));
    }
    return table.Lines();
  }

  std::string uri_;
  std::string steps_;
  uint64_t first_ = 0;
  uint64_t end_ = UINT64_MAX;
};

}  // namespace

std::unique_ptr<Command> MakeFeedbackCommand() { return std::make_unique<FeedbackCommand>(); }

}  // namespace headrace::cli
