// `headrace produce RECIPE`: runs producers until the recipe ends.

#include <fcntl.h>
#include <fmt/core.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/log.h"
#include "base/size.h"
#include "cli/lake/commands.h"
#include "cli/progress.h"
#include "cli/serve_metrics.h"
#include "cli/stream_for_command.h"
#include "cli/table.h"
#include "produce/producer.h"
#include "store/probe.h"

namespace headrace::cli {
namespace {

// Windows shrink to what there is, but a row group of the lake has to fit, and a block of the stream.
constexpr uint64_t kLeastMemory = 16'000'000;
// A lake that holds less than one step has no more than this, as a rule.
constexpr uint64_t kSmallLake = 64'000'000;

// With less than this, memory that was freed goes back to the system at once; with more it is kept, because clearing it anew takes a third of the time
// (main.cc). And one heap for all threads, Arrow's among them: each would keep its own.
constexpr uint64_t kAmple = 600'000'000;
void GiveBackAtOnce() {
  setenv("ARROW_DEFAULT_MEMORY_POOL", "system", /*overwrite=*/0);  // read when Arrow first needs any
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  mallopt(M_TRIM_THRESHOLD, 8 << 20);
  mallopt(M_TOP_PAD, 1 << 20);
  mallopt(M_ARENA_MAX, 1);
#endif
}

class ProduceCommand final : public Command {
 public:
  std::string name() const override { return "produce"; }
  std::string summary() const override { return "turn a lake into a stream, as a recipe says"; }

  void Declare(CLI::App& app) override {
    app.add_option("RECIPE", recipe_, "the recipe, a YAML file")->required()->type_name("FILE");
    app.add_option("--folder", folder_, "what relative paths in the recipe start from (its own folder)")->type_name("DIR");
    app.add_option("--stream", stream_, "the stream to fill, instead of the recipe's")->type_name("URI");
    app.add_option("--producers", producers_, "how many processes to run on this machine (1)")
        ->type_name("N")
        ->check(CLI::Range(1u, 256u));
    app.add_option("--steps", steps_, "stop when so many steps are visible")->type_name("N");
    app.add_option("--owner", owner_, "a name for this producer, for people (host and process)")->type_name("NAME");
    app.add_option("--threads", threads_, "blocks in the making at once (as many as there are cores)")
        ->type_name("N")
        ->check(CLI::Range(1u, 1024u));
    app.add_option("--strands", capacity_, "take so many strands at the most (all)")->type_name("N")->check(CLI::Range(1u, 256u));
    AddSize(app, "--memory", memory_, "for all of the process: what is read ahead, and what is in the making (2GB)");
    app.add_flag("--memory-may-grow", memory_may_grow_, "take more where the recipe needs it")->group("");  // for children
    app.final_callback([this, &app] {
      chosen_memory_ = app.count("--memory") > 0 && !memory_may_grow_;
      if (memory_ < kLeastMemory * producers_)
        throw CLI::ValidationError(
            "--memory", fmt::format("{} is too little: at least {} for each producer", FormatSize(static_cast<double>(memory_)),
                                    FormatSize(static_cast<double>(kLeastMemory))));
    });
    AddDuration(app, "--drain", options_.drain, "how long a block that was begun may go on after SIGINT or SIGTERM (20s)");
    AddDuration(app, "--take-over-after", options_.take_over_after,
                "take strands of a producer that gave no sign for so long (10s)");
    AddDuration(app, "--collect-every", options_.collect_every, "delete what the recipe's `retain` lets go of so often (2m)");
    AddDuration(app, "--grace", options_.grace, "how long to wait before deleting, for readers that are behind (60s)");
    app.add_option("--split", split_, "train, or holdout: what the recipe's `holdout` keeps back")
        ->check(CLI::IsMember({"train", "holdout"}))
        ->type_name("SPLIT");
    AddMetrics(app, metrics_);
    app.add_flag("--no-probe", no_probe_, "do not try whether the store is safe to commit to");
    app.add_option("--replaces", options_.replaces, "the process that this one is started instead of, which is dead")->group("");
    app.add_option("--opened-fd", opened_fd_, "write a byte there once the stream is open and is this recipe's")->group("");
    app.add_flag("--compare", compare_, "only say whether the stream is this recipe's")->group("");
    app.add_flag("--print-stream", print_stream_, "say which stream the recipe fills, and do nothing");
    app.footer(
        "Start it on as many machines as you like: they share the strands, and the stream is the same whatever happens to them. Ctrl-C at\n"
        "any moment, and start again: it goes on where it was.\n"
        "\n"
        "  headrace produce recipe.yaml\n"
        "  headrace produce recipe.yaml --stream s3://bucket/runs/a --memory 8GB\n"
        "  headrace produce recipe.yaml --split holdout --stream s3://bucket/runs/a-eval");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(Recipe recipe, ReadRecipe(recipe_, console, folder_));
    if (split_ == "holdout") {
      if (recipe.holdout_fraction <= 0)
        return Status(Code::kInvalidArgument,
                      fmt::format("{} has no `holdout`, so there is nothing that is kept back", recipe.name));
      if (stream_.empty())
        return Status(Code::kInvalidArgument, "--split holdout makes a stream of its own: name it by --stream");
    }
    const std::string uri = StreamOf(recipe, stream_);
    if (print_stream_) {
      if (console.json()) console.SayJson({{"stream", uri}});
      console.Say(uri);
      return kDone;
    }
    if (compare_) return Compare(console, recipe, uri, stop);
    if (producers_ > 1) return RunMany(console, uri, stop);
    Result<ExitStatus> done = RunOne(console, std::move(recipe), uri, stop);
    if (done.code() == Code::kCancelled && stop.stop_requested()) return kStopped;  // before it had begun with anything
    return done;
  }

 private:
  // For a rank that starts no producer.
  Result<ExitStatus> Compare(const Console& console, const Recipe& recipe, const std::string& uri, std::stop_token stop) const {
    HR_ASSIGN_OR_RETURN(OpenedStore opened, OpenForCommand(uri));
    const Deadline deadline = Deadline::After(RealClock(), std::chrono::seconds(60), std::move(stop));
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, StreamLog::Open(ContextForCommand(opened), deadline));
    HR_RETURN_IF_ERROR(CompareRecipe(recipe, split_ == "holdout", *log, deadline));
    if (console.json()) console.SayJson({{"stream", uri}});
    return kDone;
  }

  Result<ExitStatus> RunOne(const Console& console, Recipe recipe, const std::string& uri, std::stop_token stop) {
    if (memory_ < kAmple) GiveBackAtOnce();
    if (opened_fd_ >= 0) fcntl(opened_fd_, F_SETFD, FD_CLOEXEC);  // not for the workers of transforms
    HR_ASSIGN_OR_RETURN(std::unique_ptr<MetricsServer> metrics, ServeMetrics(metrics_));
    Progress progress;
    HR_ASSIGN_OR_RETURN(OpenedStore opened, OpenForCommand(uri));
    if (opened.uri.scheme == StoreUri::Scheme::kS3) HR_RETURN_IF_ERROR(Reach(opened, stop));
    LakeOptions lake_options;
    lake_options.python = PythonForWorkers();
    lake_options.memory = memory_ / 2;
    lake_options.threads = threads_;
    lake_options.strands = capacity_;
    lake_options.try_below_bytes = kSmallLake;
    lake_options.require_memory = [this, name = recipe.name](const MemoryNeed& need) -> Status {
      // Nobody has said how much it may be: then it is what the recipe needs.
      if (!chosen_memory_) memory_ = std::max(memory_, need.least());
      return need.Check(memory_, name);
    };
    lake_options.holdout = split_ == "holdout";
    lake_options.progress = [&](const std::string& what, uint64_t done, uint64_t of) {
      progress.Show(fmt::format("{} ({} of {})", what, done, of),
                    of == 0 ? -1 : static_cast<double>(done) / static_cast<double>(of));
    };
    const Deadline deadline = Deadline::OnlyStop(stop);
    if (!no_probe_) {
      lake_options.require_safe = [&] {
        ProbeOptions probe;
        probe.on_progress = [&](std::string_view title, int done, int of) {
          progress.Show(title, static_cast<double>(done) / std::max(1, of));
        };
        return RequireSafe(*opened.once, probe, deadline, SharedExecutor(), Random::FromEntropy());
      };
    }
    HR_ASSIGN_OR_RETURN(std::unique_ptr<LoadedRecipe> lake, LoadedRecipe::Make(std::move(recipe), lake_options));
    HR_ASSIGN_OR_RETURN(std::unique_ptr<LakeStream> stream,
                        LakeStream::Open(std::move(lake), ContextForCommand(opened), lake_options, deadline));
    TellOpened();
    const std::vector<std::string> changed = LookForChanges(*stream, stop);
    options_.owner = owner_;
    options_.threads = threads_;
    const MemoryNeed& need = stream->memory_need();
    options_.memory = need.ForBlocks(memory_, threads_);
    stream->sources().SetMemory(need.ForWindows(memory_, threads_));
    options_.capacity = capacity_;
    options_.steps = steps_;
    Producer producer(*stream, options_);
    const Instant began = RealClock().Now();
    HR_ASSIGN_OR_RETURN(ProducerReport report,
                        producer.Run(stop, [&](const ProducerReport& now) { ShowProgress(progress, now, began); }));
    progress.Clear();
    Answer(console, uri, report, RealClock().Now() - began, changed);
    return stop.stop_requested() ? kStopped : kDone;
  }

  // A trainer that started this one takes no step before it knows that they are this recipe's.
  void TellOpened() const {
    if (opened_fd_ < 0) return;
    if (write(opened_fd_, "o", 1) != 1) HR_LOG(kDebug, "nobody wants to know that the stream is open");
    close(opened_fd_);
  }

  // A sealed stream is what it is, and nobody reads the lake for it any more. Who has changed a file may not know that.
  static std::vector<std::string> LookForChanges(const LakeStream& stream, std::stop_token stop) {
    if (!stream.log()->known()->manifest.finished) return {};
    const Deadline soon = Deadline::After(RealClock(), std::chrono::seconds(10), std::move(stop));
    const Result<std::vector<std::string>> changed = stream.ChangedFiles(soon);
    if (!changed.ok() || changed->empty()) return {};  // nothing depends on it
    HR_LOG(kWarning, "files have changed since the stream was made; it is sealed and stays as it is. Another stream has them",
           {"stream", stream.log()->store().Describe()}, {"files", changed->size()}, {"first", changed->front()});
    return *changed;
  }

  void ShowProgress(Progress& progress, const ProducerReport& report, Instant began) const {
    const double seconds = std::max(0.1, std::chrono::duration<double>(RealClock().Now() - began).count());
    std::string text = fmt::format("step {}, {:.1f} steps/s, {}/s", report.frontier, static_cast<double>(report.steps) / seconds,
                                   FormatSize(static_cast<double>(report.bytes) / seconds));
    if (report.tokens > 0 && report.tokens_by_source.size() > 1 && report.tokens_by_source.size() <= 6) {
      for (const auto& [source, tokens] : report.tokens_by_source)
        text += fmt::format(", {} {:.1f}%", source, 100.0 * static_cast<double>(tokens) / static_cast<double>(report.tokens));
    }
    if (report.readers)
      text += fmt::format(", {} steps ahead", report.frontier > report.reader_step ? report.frontier - report.reader_step : 0);
    if (report.producers > 1) text += fmt::format(", {} of the strands, {} producers", report.strands, report.producers);
    if (!report.waiting.empty()) text += fmt::format(", waiting for {}", report.waiting);
    progress.Show(text, steps_ ? std::min(1.0, static_cast<double>(report.frontier) / static_cast<double>(*steps_)) : -1);
  }

  static void Answer(const Console& console, const std::string& uri, const ProducerReport& report, Duration took,
                     const std::vector<std::string>& changed) {
    const double seconds = std::chrono::duration<double>(took).count();
    if (console.json()) {
      console.SayJson({{"stream", uri},
                       {"steps", report.frontier},
                       {"sealed", report.sealed},
                       {"made",
                        {{"steps", report.steps},
                         {"blocks", report.blocks},
                         {"bytes", report.bytes},
                         {"tokens", report.tokens},
                         {"padding", report.padding}}},
                       {"tokens", report.tokens_by_source},
                       {"samples", report.samples_by_source},
                       {"skipped", report.skipped_by_source},
                       {"changed_files", changed.size()},
                       {"changed_file", changed.empty() ? nlohmann::json() : nlohmann::json(changed.front())},
                       {"seconds", seconds}});
    }
    console.Say(fmt::format("{}: {} steps{}", uri, report.frontier, report.sealed ? ", sealed" : ""));
    if (report.sealed && report.wanted && report.frontier < *report.wanted)
      console.Say(fmt::format(
          "the lake ended before `until` was reached: {} steps were wanted. More files, or `at_end: repeat`, go further",
          *report.wanted));
    console.Say(fmt::format("this producer made {} steps, {} in {} ({}/s)", report.steps,
                            FormatSize(static_cast<double>(report.bytes)), FormatDuration(took),
                            FormatSize(static_cast<double>(report.bytes) / std::max(seconds, 1e-3))));
    Table table;
    for (const auto& [source, samples] : report.samples_by_source) {
      const double tokens = static_cast<double>(report.tokens_by_source.at(source));
      table.Add({"  " + source, fmt::format("{} samples", Grouped(static_cast<double>(samples))),
                 fmt::format("{} tokens", Grouped(tokens)),
                 report.tokens > 0 ? fmt::format("{:.2f} %", 100 * tokens / static_cast<double>(report.tokens)) : ""});
    }
    for (const std::string& line : table.Lines()) console.Say(line);
    for (const auto& [source, skipped] : report.skipped_by_source)
      console.Say(fmt::format("  {} bad samples of {} were left out: a warning above names the first, and why",
                              Grouped(static_cast<double>(skipped)), source));
  }

  // Children that each do what this would; this one watches over them and shows how far the stream is.
  Result<ExitStatus> RunMany(const Console& console, const std::string& uri, std::stop_token stop) {
    const std::string self = "/proc/self/exe";
    // Each child serves its own, one port after another.
    std::optional<HostPort> metrics;
    if (!metrics_.empty()) {
      HR_ASSIGN_OR_RETURN(metrics, ParseHostPort(metrics_));
    }
    std::vector<pid_t> children;
    for (uint32_t i = 0; i < producers_; ++i) {
      std::vector<std::string> words = {"headrace",
                                        "produce",
                                        recipe_,
                                        "--stream",
                                        uri,
                                        "--threads",
                                        std::to_string(std::max(1u, threads_ / producers_)),
                                        "--memory",
                                        std::to_string(memory_ / producers_),
                                        "--drain",
                                        fmt::format("{}ms", options_.drain.count() / 1'000'000),
                                        "--take-over-after",
                                        fmt::format("{}ms", options_.take_over_after.count() / 1'000'000),
                                        "--collect-every",
                                        fmt::format("{}ms", options_.collect_every.count() / 1'000'000),
                                        "--grace",
                                        fmt::format("{}ms", options_.grace.count() / 1'000'000),
                                        "--owner",
                                        fmt::format("{}-{}", owner_.empty() ? fmt::format("p{}", getpid()) : owner_, i)};
      if (!chosen_memory_) words.push_back("--memory-may-grow");
      if (!folder_.empty()) words.insert(words.end(), {"--folder", folder_});
      if (steps_) words.insert(words.end(), {"--steps", std::to_string(*steps_)});
      if (metrics) {
        const HostPort at{metrics->host, static_cast<uint16_t>(metrics->port == 0 ? 0 : metrics->port + i)};
        words.insert(words.end(), {"--metrics", at.ToString()});
      }
      if (no_probe_) words.emplace_back("--no-probe");
      if (split_ == "holdout") words.insert(words.end(), {"--split", "holdout"});
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      const pid_t child = fork();
      if (child == 0) {
        setenv("HEADRACE_PROGRESS", "0", 1);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execv(self.c_str(), arguments.data());
        _exit(127);
      }
      if (child < 0) return Status(Code::kInternal, fmt::format("cannot start a producer: {}", std::strerror(errno)));
      children.push_back(child);
    }
    Progress progress;
    std::shared_ptr<StreamLog> log;
    int failed = 0;
    bool told = false;
    while (!children.empty()) {
      if (stop.stop_requested() && !told) {
        for (pid_t child : children) kill(child, SIGTERM);
        told = true;
      }
      std::erase_if(children, [&](pid_t child) {
        int status = 0;
        if (waitpid(child, &status, WNOHANG) != child) return false;
        failed += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
        return true;
      });
      if (log == nullptr) {
        if (Result<OpenedStore> opened = OpenForCommand(uri); opened.ok()) {
          if (auto found = StreamLog::Open(ContextForCommand(*opened), Deadline::After(RealClock(), std::chrono::seconds(2)));
              found.ok())
            log = *found;
        }
      } else if (auto state = log->Refresh(Deadline::After(RealClock(), std::chrono::seconds(2))); state.ok()) {
        progress.Show(fmt::format("step {}, {} producers", (*state)->manifest.frontier_step, children.size()));
      }
      RealClock().SleepFor(std::chrono::milliseconds(300), told ? std::stop_token{} : stop);
    }
    progress.Clear();
    const uint64_t steps = log == nullptr ? 0 : log->known()->manifest.frontier_step;
    const bool sealed = log != nullptr && log->known()->manifest.finished;
    if (console.json()) console.SayJson({{"stream", uri}, {"steps", steps}, {"sealed", sealed}, {"producers_failed", failed}});
    console.Say(fmt::format("{}: {} steps{}", uri, steps, sealed ? ", sealed" : ""));
    if (failed > 0)
      return Status(Code::kInternal, fmt::format("{} of {} producers failed; what they said stands above", failed, producers_));
    return stop.stop_requested() ? kStopped : kDone;
  }

  std::string recipe_, folder_, stream_, owner_, metrics_;
  std::string split_ = "train";
  uint32_t producers_ = 1;
  uint32_t threads_ = std::max(1u, std::thread::hardware_concurrency());
  uint32_t capacity_ = UINT32_MAX;
  uint64_t memory_ = uint64_t{2} << 30;
  bool chosen_memory_ = false, memory_may_grow_ = false;
  std::optional<uint64_t> steps_;
  bool no_probe_ = false;
  int opened_fd_ = -1;
  bool print_stream_ = false, compare_ = false;
  ProducerOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeProduceCommand() { return std::make_unique<ProduceCommand>(); }

}  // namespace headrace::cli
