// `headrace demo [DIR]`: producers on one stream, one of them killed half-way, and what came of it.

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/hash.h"
#include "base/random.h"
#include "base/size.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "headrace/stream.h"
#include "stream/digest.h"
#include "stream/verify.h"

namespace headrace::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr uint16_t kProducers = 3;
constexpr uint16_t kVictim = 1;
constexpr uint32_t kLanes = 4;
constexpr uint32_t kBlockSteps = 4;
constexpr uint64_t kBlocks = 100;  // of each producer
constexpr uint64_t kStepsEach = kBlocks * kBlockSteps;
constexpr uint64_t kSteps = kProducers * kStepsEach;
constexpr uint64_t kStepsBeforeDeath = kStepsEach / 2;  // of the victim
constexpr uint64_t kSamplesPerStep = 8;
constexpr uint64_t kSamples = kSteps * kSamplesPerStep;
constexpr size_t kTokens = 64;  // of a sample
constexpr std::string_view kWhole = "whole.jsonl";  // all steps of the victim
constexpr Duration kPause = std::chrono::seconds(1);

// Step `n` of a producer as a line for `append`: numbered samples, each with tokens of its own.
std::string Line(uint16_t producer, uint64_t n) {
  json samples = json::array(), tokens = json::array();
  for (uint64_t i = 0; i < kSamplesPerStep; ++i) {
    uint64_t sample = (producer * kStepsEach + n) * kSamplesPerStep + i;
    samples.push_back(sample);
    Random random(sample);
    json row = json::array();
    for (size_t t = 0; t < kTokens; ++t) row.push_back(random.Below(50'000));
    tokens.push_back(std::move(row));
  }
  return json{{"sample", samples}, {"tokens", tokens}}.dump() + "\n";
}

// The numbers of the samples, as a reader of some lanes sees them: step by step.
using SamplesByStep = std::vector<std::vector<uint64_t>>;

Status ReadLanes(const Stream& stream, uint32_t first, uint32_t end, SamplesByStep& found, const Deadline& deadline) {
  std::unique_ptr<StreamReader> reader = stream.Reader();
  for (uint64_t step = 0; step < kSteps;) {
    HR_ASSIGN_OR_RETURN(bool there, reader->WaitFor(step, deadline));
    if (!there) return {};
    HR_ASSIGN_OR_RETURN(StreamReader::Block block, reader->ReadBlock(step, first, end, deadline));
    for (; step < block.entry.end_step(); ++step) {
      std::vector<uint64_t>& samples = found.emplace_back();
      for (uint32_t lane = first; lane < end; ++lane) {
        HR_ASSIGN_OR_RETURN(CellArrays cell, reader->CellOf(block, step, lane));
        size_t before = samples.size();
        samples.resize(before + cell[0].elements());
        std::memcpy(samples.data() + before, cell[0].bytes.data(), cell[0].bytes.size());
      }
    }
  }
  return {};
}

// Ranks that read side by side, each its share of the lanes.
class Ranks {
 public:
  Ranks(const Stream& stream, uint32_t count, const Deadline& deadline) : found_(count), outcomes_(count) {
    for (uint32_t rank = 0; rank < count; ++rank) {
      threads_.emplace_back([=, this] {
        uint32_t share = kLanes / count;
        outcomes_[rank] = ReadLanes(stream, rank * share, (rank + 1) * share, found_[rank], deadline);
      });
    }
  }

  // What all of them read, one after another in each step.
  Result<SamplesByStep> Join() {
    threads_.clear();
    for (Status& outcome : outcomes_) HR_RETURN_IF_ERROR(outcome);
    SamplesByStep all(kSteps);
    for (const SamplesByStep& rank : found_) {
      for (size_t step = 0; step < rank.size(); ++step) all[step].insert(all[step].end(), rank[step].begin(), rank[step].end());
    }
    return all;
  }

 private:
  std::vector<SamplesByStep> found_;
  std::vector<Status> outcomes_;
  std::vector<std::jthread> threads_;
};

// A named pipe in the place of a file: whoever reads it gets `text` and then waits for more, until the feeder is gone.
class Feeder {
 public:
  static Result<std::unique_ptr<Feeder>> Start(const std::string& path, std::string text) {
    if (mkfifo(path.c_str(), 0600) != 0)
      return Status(Code::kUnavailable, fmt::format("cannot make the named pipe {}: {}", path, std::strerror(errno)));
    // For both directions: it is there before its reader comes, and when that one is dead.
    int descriptor = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return Status(Code::kUnavailable, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
    return std::unique_ptr<Feeder>(new Feeder(descriptor, std::move(text)));
  }
  ~Feeder() {
    thread_ = {};
    close(descriptor_);
  }

 private:
  Feeder(int descriptor, std::string text)
      : descriptor_(descriptor), text_(std::move(text)), thread_([this](const std::stop_token& stop) { Feed(stop); }) {}

  void Feed(const std::stop_token& stop) const {
    for (size_t at = 0; at < text_.size() && !stop.stop_requested();) {
      ssize_t written = write(descriptor_, text_.data() + at, text_.size() - at);
      if (written > 0) at += static_cast<size_t>(written);
      pollfd room{.fd = descriptor_, .events = POLLOUT, .revents = 0};
      if (written < 0) poll(&room, 1, /*timeout=*/20);
    }
  }

  int descriptor_;
  const std::string text_;
  std::jthread thread_;
};

struct Tally {
  uint64_t once = 0, lost = 0, repeated = 0;
};

Tally Count(const SamplesByStep& steps) {
  std::vector<uint32_t> seen(kSamples);
  for (const std::vector<uint64_t>& step : steps) {
    for (uint64_t sample : step) {
      if (sample < kSamples) ++seen[sample];
    }
  }
  Tally tally;
  for (uint32_t times : seen) ++(times == 0 ? tally.lost : times == 1 ? tally.once : tally.repeated);
  return tally;
}

Result<std::string> DigestOf(Stream& stream, const Deadline& deadline) {
  Sha256 all;
  std::unique_ptr<StreamReader> reader = stream.Reader();
  HR_RETURN_IF_ERROR(DigestSteps(*reader, stream.info(), 0, kSteps, deadline, [&](uint64_t, const std::string& digest) {
    all.Update(digest.data(), digest.size());
    return Status();
  }));
  return ToHex(all.Finish());
}

std::string ReadText(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DemoCommand final : public Command {
 public:
  std::string name() const override { return "demo"; }
  std::string summary() const override { return "see it work: producers on one stream, one of them killed half-way"; }

  void Declare(CLI::App& app) override {
    app.add_option("DIR", dir_, "an empty or new folder, which is kept; without it, one that is removed at the end");
    app.footer("Takes a few seconds and a few megabytes.\n\n  headrace demo /tmp/look-around");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    bool keep = !dir_.empty();
    std::error_code error;
    if (!keep) {
      std::string made = (fs::temp_directory_path(error) / "headrace-demo.XXXXXX").string();
      if (error || mkdtemp(made.data()) == nullptr)
        return Status(Code::kUnavailable, fmt::format("cannot make the folder {}: name another one (headrace demo DIR)", made));
      root_ = made;
    } else {
      root_ = dir_;
      fs::create_directories(root_, error);
      if (error) return Status(Code::kUnavailable, fmt::format("cannot make the folder {}: {}", dir_, error.message()));
      if (!fs::is_empty(root_, error))
        return Status(Code::kConflict, fmt::format("{} is not empty: name a new folder, or an empty one", dir_));
    }
    Result<ExitStatus> status = Show(console, Deadline::OnlyStop(std::move(stop)));
    if (!keep) {
      fs::remove_all(root_, error);
    } else if (status.ok()) {
      console.Say("");
      console.Say(fmt::format(
          "Look around: headrace inspect {0}/live · headrace cat {0}/live --step 7 · headrace digest {0}/live", root_.string()));
    }
    return status;
  }

 private:
  std::string At(std::string_view name) const { return (root_ / name).string(); }
  static std::string Producer(uint16_t producer) { return fmt::format("producer-{}", producer); }

  Status WriteInputs() {
    std::vector<std::ofstream> files;
    for (uint16_t v = 0; v < kProducers; ++v) files.emplace_back(At(Producer(v) + ".jsonl"));
    // The same steps in the order in which the stream shall have them: block by block, the strands in turn.
    std::ofstream all(At("all.jsonl"));
    for (uint64_t block = 0; block < kBlocks; ++block) {
      for (uint16_t v = 0; v < kProducers; ++v) {
        for (uint64_t i = 0; i < kBlockSteps; ++i) {
          std::string line = Line(v, block * kBlockSteps + i);
          files[v] << line;
          all << line;
        }
      }
    }
    files.push_back(std::move(all));
    for (std::ofstream& file : files) {
      file.close();
      if (!file) return Status(Code::kFull, fmt::format("cannot write the inputs of the demo into {}", root_.string()));
    }
    return {};
  }

  static StreamOptions Options(bool probe) {
    return {.lanes = kLanes,
            .strands = kProducers,
            .blocks = BlockSizes::Even(kBlockSteps),
            .columns = {{"sample", Dtype::kI64}, {"tokens", Dtype::kI32}},
            .probe = probe};
  }

  Result<Child> StartProducer(uint16_t v, std::string_view output) {
    return Child::Start(
        {"append", At("live"), At(Producer(v) + ".jsonl"), "--strand", std::to_string(v), "--source", Producer(v), "--json"},
        At(output));
  }

  // What a child said at its end.
  Result<json> AnswerOf(Child& child, std::string_view output, const Deadline& deadline) {
    HR_ASSIGN_OR_RETURN(int status, child.Wait(RealClock(), deadline));
    json answer = json::parse(ReadText(At(output)), nullptr, /*allow_exceptions=*/false);
    if (status == 0 && answer.is_object()) return answer;
    return Status(Code::kInternal, fmt::format("`headrace append` ended with {}: {}", status, ReadText(At(output) + ".err")));
  }

  Result<ExitStatus> Show(const Console& console, const Deadline& deadline) {
    Instant began = RealClock().Now();
    console.Say(
        "Headrace carries global batches from producers to training ranks through an object store. No server runs, and any");
    console.Say(fmt::format("process may die at any moment. Here the store is a folder, {}; a bucket works the same way.",
                            root_.string()));
    console.Say("");
    HR_RETURN_IF_ERROR(WriteInputs());

    console.Say(fmt::format("1. An empty stream of {} lanes and {} strands. The store has to prove first that it can be trusted.",
                            kLanes, kProducers));
    console.Say("     headrace create live …");
    StreamOptions options = Options(/*probe=*/true);
    HR_ASSIGN_OR_RETURN(Stream stream, CreateLive(options, deadline));
    console.Say(
        fmt::format("   It holds: of many writers that create the same object exactly one wins. ({:.1f} s)", Since(began)));
    console.Say("");

    console.Say(fmt::format("2. {} processes append {} steps each, at once; 2 ranks read meanwhile, {} lanes each.", kProducers,
                            kStepsEach, kLanes / 2));
    for (uint16_t v = 0; v < kProducers; ++v)
      console.Say(fmt::format("     headrace append live {0}.jsonl --strand {1} --source {0} &", Producer(v), v));
    HR_ASSIGN_OR_RETURN(Incident incident, Produce(console, stream, deadline));
    console.Say("");

    console.Say("3. What came of it");
    HR_ASSIGN_OR_RETURN(VerifyReport report, Verify(*stream.log(), deadline));
    Tally tally = Count(incident.read);
    HR_ASSIGN_OR_RETURN(SamplesByStep again, Ranks(stream, 4, deadline).Join());
    HR_ASSIGN_OR_RETURN(std::string digest, DigestOf(stream, deadline));
    HR_ASSIGN_OR_RETURN(std::string undisturbed, DigestOfUndisturbedRun(deadline));
    bool whole = report.damaged.empty() && report.steps == kSteps;
    bool exactly_once = tally.once == kSamples;
    bool elastic = again == incident.read;
    bool same = digest == undisturbed;
    auto say = [&](bool good, std::string text) { console.Say(fmt::format("   {} {}", console.Mark(good), text)); };
    say(whole, fmt::format("every checksum of {} chunks and {} steps holds (headrace verify)", report.chunks, report.steps));
    say(exactly_once,
        fmt::format("{} samples were read exactly once; {} lost, {} repeated", tally.once, tally.lost, tally.repeated));
    say(same, fmt::format("byte for byte what one process that nobody disturbs makes: digest {}… (headrace digest)",
                          digest.substr(0, 16)));
    say(elastic, "read again by 4 ranks instead of 2: the same samples in the same steps");
    console.Say(fmt::format("   {:.1f} s in all", Since(began)));
    if (console.json()) {
      console.SayJson({{"steps", kSteps},
                       {"killed_at_step", incident.killed_at},
                       {"skipped_after_restart", incident.skipped},
                       {"samples", tally.once},
                       {"lost", tally.lost},
                       {"repeated", tally.repeated},
                       {"damaged", report.damaged.size()},
                       {"digest", digest},
                       {"undisturbed_digest", undisturbed},
                       {"same_with_other_ranks", elastic}});
    }
    return whole && exactly_once && elastic && same ? kDone : kFailed;
  }

  static double Since(Instant began) { return std::chrono::duration<double>(RealClock().Now() - began).count(); }

  Result<Stream> CreateLive(StreamOptions& options, const Deadline& deadline) {
    Progress progress;
    options.on_probe = [&](std::string_view title, int done, int of) {
      progress.Show(title, static_cast<double>(done) / std::max(1, of));
    };
    return Stream::Create(At("live"), options, deadline);
  }

  struct Incident {
    uint64_t killed_at = 0;
    uint64_t skipped = 0;
    SamplesByStep read;
  };

  Result<Incident> Produce(const Console& console, Stream& stream, const Deadline& deadline) {
    Incident incident;
    HR_ASSIGN_OR_RETURN(std::unique_ptr<Feeder> feeder, FeedVictim());
    std::vector<Child> producers;
    for (uint16_t v = 0; v < kProducers; ++v) {
      HR_ASSIGN_OR_RETURN(Child child, StartProducer(v, Producer(v) + ".out"));
      producers.push_back(std::move(child));
    }
    // Ends the ranks if anything goes wrong here: they would wait for ever.
    std::stop_source enough;
    std::stop_callback on_stop(deadline.stop(), [&] { enough.request_stop(); });
    Ranks ranks(stream, 2, Deadline::OnlyStop(enough.get_token()));
    Result<json> answer = KillAndRestart(console, stream, producers, std::move(feeder), incident, deadline);
    for (uint16_t v = 0; answer.ok() && v < kProducers; ++v) {
      if (v == kVictim) continue;
      Result<json> other = AnswerOf(producers[v], Producer(v) + ".out", deadline);
      if (!other.ok()) answer = std::move(other).status();
    }
    if (!answer.ok()) {
      enough.request_stop();
      return std::move(answer).status();
    }
    incident.skipped = (*answer)["skipped"].get<uint64_t>();
    console.Say(fmt::format("   It skipped {} steps of its own that were in already, and appended {}. All {} steps are there.",
                            incident.skipped, (*answer)["appended"].get<uint64_t>(), kSteps));
    HR_ASSIGN_OR_RETURN(incident.read, ranks.Join());
    return incident;
  }

  // So that it has not ended when it is to be killed, however fast it is and however late we look: half of its steps are there at first.
  Result<std::unique_ptr<Feeder>> FeedVictim() {
    std::string text;
    for (uint64_t n = 0; n < kStepsBeforeDeath; ++n) text += Line(kVictim, n);
    std::error_code error;
    fs::rename(At(Producer(kVictim) + ".jsonl"), At(kWhole), error);
    if (error) return Status(Code::kUnavailable, fmt::format("cannot rename a file in {}: {}", root_.string(), error.message()));
    return Feeder::Start(At(Producer(kVictim) + ".jsonl"), std::move(text));
  }

  Result<json> KillAndRestart(const Console& console, Stream& stream, std::vector<Child>& producers,
                              std::unique_ptr<Feeder> feeder, Incident& incident, const Deadline& deadline) {
    HR_ASSIGN_OR_RETURN(bool there, stream.Reader()->WaitFor(kSteps / 3, deadline));
    if (!there) return Status(Code::kInternal, "the stream was sealed by somebody else");
    pid_t process = producers[kVictim].process();
    producers[kVictim].Kill();
    feeder.reset();
    std::error_code error;
    fs::rename(At(kWhole), At(Producer(kVictim) + ".jsonl"), error);
    if (error) return Status(Code::kUnavailable, fmt::format("cannot rename a file in {}: {}", root_.string(), error.message()));
    HR_ASSIGN_OR_RETURN(Stream::Extent extent, stream.Refresh(deadline));
    incident.killed_at = extent.steps;
    console.Say(fmt::format("   At step {}: kill -9 {} ({}).", incident.killed_at, process, Producer(kVictim)));
    HR_RETURN_IF_ERROR(deadline.Sleep(RealClock(), kPause, "show a dead producer"));
    HR_ASSIGN_OR_RETURN(extent, stream.Refresh(deadline));
    console.Say(fmt::format("   A second later the stream is at step {}: the others are as far ahead as they may be, and wait.",
                            extent.steps));
    console.Say("   The same words again:");
    console.Say(fmt::format("     headrace append live {0}.jsonl --strand {1} --source {0}", Producer(kVictim), kVictim));
    HR_ASSIGN_OR_RETURN(producers[kVictim], StartProducer(kVictim, "again.out"));
    return AnswerOf(producers[kVictim], "again.out", deadline);
  }

  Result<std::string> DigestOfUndisturbedRun(const Deadline& deadline) {
    HR_ASSIGN_OR_RETURN(Stream stream, Stream::Create(At("undisturbed"), Options(/*probe=*/false), deadline));
    HR_ASSIGN_OR_RETURN(Child child, Child::Start({"append", At("undisturbed"), At("all.jsonl"), "--json"}, At("all.out")));
    HR_RETURN_IF_ERROR(AnswerOf(child, "all.out", deadline).status());
    return DigestOf(stream, deadline);
  }

  std::string dir_;
  fs::path root_;
};

}  // namespace

std::unique_ptr<Command> MakeDemoCommand() { return std::make_unique<DemoCommand>(); }

}  // namespace headrace::cli
