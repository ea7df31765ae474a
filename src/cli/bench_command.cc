// `headrace bench URI`: is this store fast enough?

#include <fmt/core.h>
#include <sys/sysinfo.h>

#include <nlohmann/json.hpp>

#include "base/size.h"
#include "base/text.h"
#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/open_for_command.h"
#include "cli/progress.h"
#include "store/measure.h"

namespace headrace::cli {
namespace {

constexpr uint64_t kLeastSize = 1'000'000;

uint64_t MemoryBytes() {
  struct sysinfo info{};
  return sysinfo(&info) == 0 ? static_cast<uint64_t>(info.totalram) * info.mem_unit : 0;
}

class BenchCommand final : public Command {
 public:
  std::string name() const override { return "bench"; }
  std::string summary() const override {
    return "is this store fast enough? throughput, latency, commits a second, GPUs it feeds";
  }

  void Declare(CLI::App& app) override {
    app.add_option("URI", uri_, "the store: s3://bucket/prefix, file:///path, a plain path")->required();
    AddDuration(app, "--seconds", options_.time, "how long to measure (20)")->type_name("N");
    AddSize(app, "--size", options_.size, "bytes to write at the most (256MB); more than the memory to measure a disk");
    AddSize(app, "--range", options_.range_bytes, "bytes of a range read (1MiB)");
    AddRate(app, "--gpu-rate", gpu_bytes_per_second_, "what one GPU eats (250MB/s)");
    app.callback([this] { CheckWords(); });
    app.footer(
        "Writes below URI/headrace-bench-… and removes it again, also after Ctrl-C. Every byte that is read is checked.\n"
        "Commits are one after another, as in a stream's log. The others start with one request at a time and double until that gains\n"
        "nothing. How to read the answer: docs/guide/stores.md\n"
        "\n"
        "  headrace bench /data/runs --size 100GB --seconds 120\n"
        "  headrace bench \"s3://bucket/tmp?endpoint=http://127.0.0.1:9000\" --json");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(OpenedStore opened, OpenForCommand(uri_));
    HR_RETURN_IF_ERROR(Reach(opened, stop));
    options_.into_own_memory = opened.uri.scheme != StoreUri::Scheme::kFile;
    BenchReport report{
        .uri = opened.uri.ToString(), .measured = {}, .gpu_bytes_per_second = gpu_bytes_per_second_, .remarks = {}};
    {
      Progress progress;
      report.measured = Measure(*opened.store, options_, SharedExecutor(), Random::FromEntropy(), stop,
                                [&](const MeasureView& view) { progress.Show(LiveLine(view), view.done); });
    }
    report.remarks = Remarks(opened, report.measured);
    const MeasureReport& measured = report.measured;
    HR_RETURN_IF_ERROR(WithLeftovers(measured.failure, measured));
    if (console.json()) console.SayJson(report.ToJson());
    for (const std::string& line : report.TableLines(console)) console.Say(line);
    console.Say("");
    for (const std::string& remark : report.remarks) console.Say("note: " + remark);
    if (!report.remarks.empty()) console.Say("");
    console.Say(console.Bold(report.Sentence()));
    if (measured.damaged > 0) console.Complain("headrace bench", Status(Code::kCorrupt, report.Sentence()));
    if (!measured.left_behind.empty())
      console.Complain("headrace bench", Status(measured.removal_failure.code(), Leftovers(measured)));
    return measured.damaged > 0 || !measured.left_behind.empty() ? kFailed : kDone;
  }

 private:
  void CheckWords() const {
    auto wrong = [](const char* option, std::string why) { throw CLI::ValidationError(option, std::move(why)); };
    if (options_.time < std::chrono::seconds(1)) wrong("--seconds", "one second is the least that says anything");
    if (options_.size < kLeastSize) wrong("--size", fmt::format("{} is the least", FormatSize(kLeastSize)));
    if (options_.range_bytes < 1 << 10) wrong("--range", "1KiB is the least");
    if (gpu_bytes_per_second_ == 0) wrong("--gpu-rate", "a GPU that eats nothing needs no store");
  }

  std::vector<std::string> Remarks(const OpenedStore& opened, const MeasureReport& measured) const {
    std::vector<std::string> remarks;
    if (opened.uri.scheme == StoreUri::Scheme::kFile && measured.written_bytes < MemoryBytes()) {
      remarks.push_back(
          fmt::format("reads came from the page cache: {} fit into the {} of memory here. --size {} measures the disk",
                      FormatSize(static_cast<double>(measured.written_bytes)), FormatSize(static_cast<double>(MemoryBytes())),
                      FormatSize(2 * static_cast<double>(MemoryBytes()))));
    }
    if (opened.on_this_machine)
      remarks.push_back(
          "the server runs on this machine: it shares its processors with the measurement, and there is no network between");
    return remarks;
  }

  static std::string Leftovers(const MeasureReport& measured) {
    const auto& left = measured.left_behind;
    std::string more = left.size() > 1 ? fmt::format(" and {} more beside it", left.size() - 1) : "";
    return fmt::format("could not remove {}{}: {}", left.front(), more, measured.removal_failure.message());
  }

  static Status WithLeftovers(const Status& failure, const MeasureReport& measured) {
    if (failure.ok() || measured.left_behind.empty()) return failure;
    return Status(failure.code(), fmt::format("{}; {}", failure.message(), Leftovers(measured)));
  }

  std::string uri_;
  MeasureOptions options_;
  uint64_t gpu_bytes_per_second_ = 250'000'000;
};

}  // namespace

std::unique_ptr<Command> MakeBenchCommand() { return std::make_unique<BenchCommand>(); }

}  // namespace headrace::cli
