// `headrace append STREAM [FILE…]`: steps from files and pipes.

#include "cli/append_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/lake_program.h"
#include "cli/progress.h"
#include "cli/serve_metrics.h"
#include "cli/step_inputs.h"
#include "cli/stream_for_command.h"
#include "stream/appender.h"

namespace headrace::cli {
namespace {

const std::map<std::string, StepFormat> kFormats = {
    {"jsonl", StepFormat::kJsonLines}, {"npz", StepFormat::kNpz}, {"arrow", StepFormat::kArrow}};
constexpr Duration kDrain = std::chrono::seconds(10);

// A stop that comes a while after another: time to finish what was begun.
class Drain {
 public:
  explicit Drain(std::stop_token stop)
      : waiter_([this, stop = std::move(stop)](const std::stop_token& own) {
          while (!stop.stop_requested() && !own.stop_requested()) RealClock().SleepFor(std::chrono::milliseconds(50), own);
          RealClock().SleepFor(kDrain, own);
          if (!own.stop_requested()) asked_.request_stop();
        }) {}

  Deadline deadline() const { return Deadline::OnlyStop(asked_.get_token()); }

 private:
  std::stop_source asked_;
  std::jthread waiter_;
};

std::string Steps(uint64_t count) { return fmt::format("{} step{}", count, count == 1 ? "" : "s"); }

class AppendCommand final : public Command {
 public:
  explicit AppendCommand(OpenArrowSteps open_arrow) : open_arrow_(std::move(open_arrow)) {}
  std::string name() const override { return "append"; }
  std::string summary() const override { return "append steps to a stream, from .npz files, JSON lines or Arrow"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_option("FILE", files_,
                   "a step each: an .npz, a line of .jsonl, a batch of .arrow; none or -: JSON lines or Arrow on stdin");
    app.add_option_function<std::string>(
           "--format", [this](const std::string& name) { format_ = kFormats.at(name); },
           "what the files are, whatever their names: jsonl, npz or arrow")
        ->type_name("FORMAT")
        ->check([](const std::string& name) {
          return kFormats.contains(name) ? std::string() : fmt::format("{} is not one of jsonl, npz, arrow", name);
        });
    app.add_option("--source", options_.source,
                   "append each step of this source once: as many steps of the input are skipped as it has given")
        ->type_name("NAME")
        ->check([](const std::string& name) {
          return name.empty() || name.size() > 200 ? std::string("a name has 1 to 200 bytes") : std::string();
        });
    app.add_option_function<uint16_t>(
           "--strand", [this](uint16_t strand) { options_.strand = strand; }, "write on this strand (any that is free)")
        ->type_name("N");
    AddMetrics(app, metrics_);
    app.add_flag_callback("--zstd", [this] { options_.chunk.codec = Codec::kZstd; }, "compress");
    app.footer(
        "A step is one global batch: every column with all lanes together; its leading dimension is split evenly over the lanes.\n"
        "JSON: nested lists for arrays, lists of lists for ragged columns, lists of texts for bytes columns. .npz: written with\n"
        "numpy.savez; a ragged or bytes column c as the arrays c.values and c.offsets. Arrow IPC (file or stream): a column of numbers,\n"
        "or of lists that are equally long, for an array; of lists for a ragged column; of texts or binaries for a bytes column; no\n"
        "nulls. Numbers that a column's type cannot hold are refused. What a step is, and what happens if a process dies:\n"
        "docs/guide/streams.md\n"
        "\n"
        "With --source a run that died is repeated with the same input, from its beginning: what is in is counted, not compared, and skipped.\n"
        "The next run's input is that of the last one and what follows it. Other steps need another name, or none.\n"
        "\n"
        "  headrace append /data/live step1.npz step2.npz\n"
        "  headrace append s3://bucket/live run3.jsonl --source run3    # again after a crash\n"
        "  echo '{\"tokens\": [[1, 2], [3, 4]]}' | headrace append /data/live --json");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(std::vector<StepInput> inputs, StepInputs::ByName(files_, format_));
    HR_RETURN_IF_ERROR(LeaveArrowToOthers(inputs));
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    HR_RETURN_IF_ERROR(StepInputs::LookAtStdin(inputs, stop));
    HR_RETURN_IF_ERROR(LeaveArrowToOthers(inputs));
    HR_ASSIGN_OR_RETURN(std::unique_ptr<MetricsServer> metrics, ServeMetrics(metrics_));
    Drain drain(stop);
    Deadline deadline = drain.deadline();
    Appender appender(log, options_);
    StepInputs steps(std::move(inputs), log->info(), stop, open_arrow_);
    uint64_t skipped = 0;
    Status status = Append(appender, steps, skipped, Deadline::OnlyStop(stop), deadline);
    bool stopped = status.code() == Code::kCancelled && stop.stop_requested();
    if (!status.ok() && !stopped) {
      std::string before = appender.appended() > 0 ? fmt::format("; {} before it were appended", Steps(appender.appended())) : "";
      return Status(status.code(), status.message() + before);
    }
    return Report(console, appender, log->known()->manifest, skipped, stopped);
  }

 private:
  // Does not return if there is Arrow and headrace-lake reads it.
  Status LeaveArrowToOthers(const std::vector<StepInput>& inputs) const {
    auto arrow = std::ranges::find(inputs, StepFormat::kArrow, &StepInput::format);
    return arrow == inputs.end() || open_arrow_ ? Status() : HandOverToLake("reading Arrow IPC").Annotate(arrow->name);
  }

  static Status Append(Appender& appender, StepInputs& inputs, uint64_t& skipped, const Deadline& begin,
                       const Deadline& deadline) {
    Progress progress;
    HR_ASSIGN_OR_RETURN(uint64_t done, appender.Foresee(begin));
    for (; skipped < done; ++skipped) {
      HR_ASSIGN_OR_RETURN(bool more, inputs.Skip());
      if (!more) return {};
      progress.Show(fmt::format("skipping what is in already: {} of {}", Steps(skipped + 1), done));
    }
    Result<std::optional<std::vector<Body>>> cells = inputs.Next();
    // A strand is taken from whoever has it, so not before there is something to append.
    if (!cells.ok() || !*cells) return std::move(cells).status();
    HR_ASSIGN_OR_RETURN(done, appender.Begin(begin));
    for (; skipped < done && cells.ok() && *cells; ++skipped) cells = inputs.Next();
    for (; cells.ok() && *cells; cells = inputs.Next()) {
      HR_RETURN_IF_ERROR(appender.Add(**std::move(cells), deadline));
      progress.Show(fmt::format("appended {}", Steps(appender.appended())));
    }
    // What was read before the trouble, or the end, is whole.
    HR_RETURN_IF_ERROR(appender.Flush(deadline));
    return std::move(cells).status();
  }

  Result<ExitStatus> Report(const Console& console, const Appender& appender, const Manifest& manifest, uint64_t skipped,
                            bool stopped) const {
    uint64_t left = appender.waiting();
    if (console.json()) {
      nlohmann::json document = {{"appended", appender.appended()}, {"skipped", skipped}, {"steps", manifest.frontier_step}};
      if (appender.first_step()) document["first_step"] = *appender.first_step();
      if (left > 0) document["left_over"] = left;
      if (stopped) document["interrupted"] = true;
      console.SayJson(document);
    }
    std::string skips =
        skipped > 0 ? fmt::format(" ({} of \"{}\" skipped: in the stream already)", Steps(skipped), options_.source) : "";
    console.Say(fmt::format("{}appended {}{}; the stream has {}", stopped ? "interrupted: " : "", Steps(appender.appended()),
                            skips, Steps(manifest.frontier_step)));
    if (skipped > 0) {
      console.Say(fmt::format(
          "\"{0}\" has given {1} before, so the first {1} of this input were skipped, whatever is in {2}. If they are "
          "new: append them under another --source, or without",
          options_.source, Steps(skipped), skipped == 1 ? "it" : "them"));
    }
    if (left > 0) {
      std::string_view why = stopped ? "were read and not appended"
                                     : "at the end do not fill a block of the stream and were left out: append them together "
                                       "with the steps that follow";
      console.Complain("headrace append", Status(Code::kInvalidArgument, fmt::format("{} {}", Steps(left), why)));
    }
    return stopped ? kInterrupted : left > 0 ? kFailed : kDone;
  }

  std::string uri_, metrics_;
  std::vector<std::string> files_;
  std::optional<StepFormat> format_;
  AppendOptions options_;
  OpenArrowSteps open_arrow_;
};

}  // namespace

std::unique_ptr<Command> MakeAppendCommand() { return MakeAppendCommandWithArrow({}); }
std::unique_ptr<Command> MakeAppendCommandWithArrow(OpenArrowSteps open_arrow) {
  return std::make_unique<AppendCommand>(std::move(open_arrow));
}

}  // namespace headrace::cli
