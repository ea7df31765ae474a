// `headrace probe URI`: is this store safe to commit to?

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/size.h"
#include "cli/command.h"
#include "cli/open_for_command.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "store/probe.h"
#include "store/probe_checks.h"

namespace headrace::cli {
namespace {

std::string_view VerdictName(ProbeCheck::Verdict verdict) {
  switch (verdict) {
    case ProbeCheck::kPassed: return "passed";
    case ProbeCheck::kFailed: return "failed";
    case ProbeCheck::kUntested: return "untested";
  }
  return "";
}

class ProbeCommand final : public Command {
 public:
  std::string name() const override { return "probe"; }
  std::string summary() const override {
    return "is this store safe to commit to? one line for each property, exit 1 if one does not hold";
  }

  void Declare(CLI::App& app) override {
    app.add_option("URI", uri_, "the store: s3://bucket/prefix, file:///path, a plain path")->required();
    app.add_option("--rounds", options_.rounds, "races of 32 creators for one object (20)")
        ->type_name("N")
        ->check(CLI::Range(1, 10'000));
    AddDuration(app, "--timeout", timeout_, "when to give up (5m)");
    app.footer(
        "Writes some 40 MB in small objects below URI/headrace-probe-… and removes them again, also after Ctrl-C. A store that is slow or\n"
        "loses answers passes; one that lies does not. What each property is needed for: docs/guide/stores.md\n"
        "\n"
        "  headrace probe /data/runs\n"
        "  headrace probe \"s3://bucket/runs?endpoint=http://127.0.0.1:9000\" --json");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(OpenedStore opened, OpenForCommand(uri_));
    ProbeReport report;
    {
      Progress progress;
      options_.on_progress = [&](std::string_view title, int done, int of) {
        progress.Show(title, static_cast<double>(done) / std::max(1, of));
      };
      options_.on_check = [&](const ProbeCheck& check) {
        if (check.verdict == ProbeCheck::kUntested) return;
        progress.Clear();
        console.Say(Line(console, check));
        console.Flush();
      };
      report =
          Probe(*opened.once, options_, Deadline::After(RealClock(), timeout_, stop), SharedExecutor(), Random::FromEntropy());
    }
    if (stop.stop_requested()) return Stopped(report);
    if (console.json()) console.SayJson(ToJson(report));
    if (!report.untested.ok() && report.broken() == nullptr) {
      console.Complain("headrace probe", report.untested);
    } else {
      console.Say("");
      console.Say(console.Bold(Sentence(report)));
    }
    if (!report.left_behind.ok()) console.Complain("headrace probe", report.left_behind);
    return report.safe() && report.left_behind.ok() ? kDone : kFailed;
  }

 private:
  static std::string Line(const Console& console, const ProbeCheck& check) {
    static const size_t width =
        std::ranges::max(kProperties, {}, [](const Property& property) { return Width(property.title); }).title.size();
    return fmt::format("{} {}  {}  {}", console.Mark(check.verdict == ProbeCheck::kPassed), PadRight(check.title, width),
                       PadLeft(FormatDuration(check.took), 6), check.seen);
  }

  static std::string Sentence(const ProbeReport& report) {
    if (const ProbeCheck* broken = report.broken())
      return fmt::format("NOT SAFE to commit to: {}. {}", broken->seen, broken->need);
    return fmt::format("safe: streams can be committed to {}", report.store);
  }

  static Status Stopped(const ProbeReport& report) {
    return report.left_behind.ok() ? Status(Code::kCancelled, "probing was stopped") : report.left_behind;
  }

  static nlohmann::json ToJson(const ProbeReport& report) {
    nlohmann::json checks = nlohmann::json::array();
    for (const ProbeCheck& check : report.checks) {
      checks.push_back({{"name", check.name},
                        {"title", check.title},
                        {"need", check.need},
                        {"verdict", VerdictName(check.verdict)},
                        {"seen", check.seen},
                        {"seconds", std::chrono::duration<double>(check.took).count()}});
    }
    nlohmann::json document = {{"store", report.store}, {"checks", checks}};
    // Neither yes nor no, if something could not be tried.
    bool unknown = !report.untested.ok() && report.broken() == nullptr;
    document["safe"] = unknown ? nlohmann::json() : nlohmann::json(report.safe());
    if (const ProbeCheck* broken = report.broken()) document["reason"] = fmt::format("{}. {}", broken->seen, broken->need);
    if (!report.untested.ok()) {
      document["error"] = {{"code", CodeName(report.untested.code())}, {"message", report.untested.message()}};
    }
    if (!report.left_behind.ok()) document["left_behind"] = report.left_behind.message();
    return document;
  }

  std::string uri_;
  ProbeOptions options_;
  Duration timeout_ = std::chrono::minutes(5);
};

}  // namespace

std::unique_ptr<Command> MakeProbeCommand() { return std::make_unique<ProbeCommand>(); }

}  // namespace headrace::cli
