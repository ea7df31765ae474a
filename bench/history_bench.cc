// What history costs: a commit and an open after a million steps, beside those after a thousand.
//
//   history_bench [--steps 1000000] [--block 16] [--rounds 9] [--folder DIR] [--json]
//
// The history is made of real commits, one block each, into memory; old manifests are forgotten on the way, as a collector does. Most blocks
// have `--block` steps; the first thousand and those that are measured have one. Commit cost is processor time, background work included.
// "rounds" are the round trips that follow each other: virtual time with a store that takes a second for each request. For the folder all
// but most of the chunks is copied to one.
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/simulation.h"
#include "base/text.h"
#include "base/thread_executor.h"
#include "store/counting_store.h"
#include "store/folder_store.h"
#include "store/memory_store.h"
#include "store/slow_store.h"
#include "stream/cell.h"
#include "stream/strand_writer.h"
#include "stream/stream_log.h"
#include "stream/stream_reader.h"

namespace headrace {
namespace {

constexpr uint32_t kStrands = 16;
constexpr uint64_t kFirstBlocks = 1000;  // of one step
constexpr uint64_t kMeasured = 512;  // commits a round: four times through the tail
constexpr uint64_t kForgetEvery = 2048;

double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

[[noreturn]] void Fail(const Status& status) {
  std::fprintf(stderr, "history_bench: %s\n", status.ToString().c_str());
  std::exit(1);
}

void Must(const Status& status) {
  if (!status.ok()) Fail(status);
}

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) Fail(result.status());
  return *std::move(result);
}

// A stream that one process fills, block by block.
class Filled {
 public:
  Filled(Simulation& simulation, const StreamInfo& info, uint64_t seed)
      : store(std::make_shared<MemoryStore>(Cat("history", seed), simulation)), simulation_(simulation) {
    log_ = Must(StreamLog::Create(info, {store, &simulation, Random(seed)}, {}));
    for (uint16_t v = 0; v < kStrands; ++v) writers_.push_back(Must(StrandWriter::Take(log_, v, {})));
  }

  // Appends blocks until there are so many of them, or so many steps.
  void Fill(uint64_t blocks, uint64_t steps) {
    const StreamInfo& info = log_->info();
    while (blocks_ < blocks && steps_ < steps) {
      StrandWriter& writer = *writers_[blocks_ % kStrands];
      StrandWriter::Turn turn = writer.next();
      ChunkBuilder chunk(info, {});
      for (uint32_t i = 0; i < turn.steps; ++i) {
        Array array{Dtype::kU8, {8}, Bytes::FromString("12345678")};
        Must(chunk.AddStep({Must(BuildCell({&array, 1}, info.columns))}));
      }
      Must(writer.Append(turn, chunk, Bytes::FromString("state"), {}));
      steps_ += turn.steps;
      largest_ = std::max(largest_, log_->known()->encoded.size());
      // A moment for what is done in the background.
      simulation_.SleepFor(std::chrono::milliseconds(1));
      if (++blocks_ % kForgetEvery != 0) continue;
      uint64_t floor = Must(log_->log().RaiseFloor(log_->known()->manifest.number, {}));
      Must(store->Delete(Must(log_->log().Forgotten(floor, {})), {}));
    }
  }

  uint64_t blocks() const { return blocks_; }
  uint64_t steps() const { return steps_; }
  size_t largest() const { return largest_; }
  const Manifest& manifest() const { return log_->known()->manifest; }

  std::shared_ptr<MemoryStore> store;

 private:
  Simulation& simulation_;
  std::shared_ptr<StreamLog> log_;
  std::vector<std::unique_ptr<StrandWriter>> writers_;
  uint64_t blocks_ = 0;
  uint64_t steps_ = 0;
  size_t largest_ = 0;
};

StreamInfo Info(std::vector<BlockSizes::Phase> phases) {
  StreamInfo info;
  info.uuid[0] = 1;
  info.strands = kStrands;
  info.window = kStrands;
  info.blocks = Must(BlockSizes::FromPhases(std::move(phases)));
  info.columns = {{"tokens", Dtype::kU8, Column::kArray}};
  return info;
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Figures {
  double build_seconds = 0;
  uint64_t steps = 0, commits = 0;
  double young_us = 0, old_us = 0;  // processor time of a commit
  size_t manifest_bytes = 0;
  uint64_t open_requests = 0, first_cell_requests = 0;  // the most
  double rounds = 0, open_rounds = 0;  // the most
  double folder_ms = 0, folder_worst_ms = 0;
};

// From nothing to a cell of each of these steps, with a new process every time.
void MeasureRounds(Simulation& simulation, const std::shared_ptr<MemoryStore>& memory, const std::vector<uint64_t>& steps,
                   Figures& figures) {
  SlowOptions second{.create = std::chrono::seconds(1),
                     .put = std::chrono::seconds(1),
                     .list = std::chrono::seconds(1),
                     .remove = std::chrono::seconds(1),
                     .get = std::chrono::seconds(1),
                     .sigma = 0,
                     .connection_bytes_per_second = 1e15,
                     .total_bytes_per_second = 0};
  for (uint64_t step : steps) {
    auto counting = std::make_shared<CountingStore>(std::make_shared<SlowStore>(memory, second, simulation, Random(1)));
    simulation.Run([&] {
      Instant began = simulation.Now();
      auto log = Must(StreamLog::Open({counting, &simulation, Random(step)}, {}));
      auto since = [&] { return std::chrono::duration<double>(simulation.Now() - began).count(); };
      figures.open_requests = std::max(figures.open_requests, counting->requests());
      figures.open_rounds = std::max(figures.open_rounds, since());
      StreamReader reader(log);
      (void)Must(reader.ReadCell(step, 0, {}));
      figures.first_cell_requests = std::max(figures.first_cell_requests, counting->requests());
      figures.rounds = std::max(figures.rounds, since());
    });
  }
}

void MeasureFolder(MemoryStore& memory, const std::vector<uint64_t>& steps, const std::string& where, Simulation& simulation,
                   Figures& figures) {
  ThreadExecutor executor;
  auto folder = std::make_shared<FolderStore>(where, FolderOptions{.sync = false});
  std::vector<std::string> keys;
  simulation.Run([&] {
    auto log = Must(StreamLog::Open({std::shared_ptr<ObjectStore>(&memory, [](ObjectStore*) {}), &simulation, Random(3)}, {}));
    for (uint64_t step : steps) keys.push_back(Must(log->index().FindStep(log->known()->manifest, step, {}))->name.Key());
    for (const char* prefix : {"stream.json", "log/", "gc/", "index/"}) {
      for (ListEntry& entry : Must(ListAll(memory, prefix, {}))) keys.push_back(std::move(entry.key));
    }
  });
  std::ranges::sort(keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i > 0 && keys[i] == keys[i - 1]) continue;
    std::optional<Object> object = Must(memory.Get(keys[i], {}));
    (void)Must(folder->PutIfAbsent(keys[i], Body(object->bytes), {}));
  }
  std::vector<double> times;
  for (uint64_t step : steps) {
    Instant began = RealClock().Now();
    auto log = Must(StreamLog::Open({folder, &executor, Random(step)}, {}));
    StreamReader reader(log);
    (void)Must(reader.ReadCell(step, 0, {}));
    times.push_back(std::chrono::duration<double, std::milli>(RealClock().Now() - began).count());
  }
  figures.folder_ms = Median(times);
  figures.folder_worst_ms = *std::ranges::max_element(times);
}

Figures Measure(uint64_t steps, uint32_t block, int rounds, const std::string& folder) {
  Figures figures;
  Simulation simulation(1);
  uint64_t large = steps > kFirstBlocks ? (steps - kFirstBlocks) / block : 0;
  std::vector<BlockSizes::Phase> phases{{kFirstBlocks, 1}};
  if (large > 0) phases.push_back({large, block});
  phases.push_back({1, 1});
  std::unique_ptr<Filled> old;
  std::vector<uint64_t> samples;
  simulation.Run([&] {
    double began = ProcessorSeconds();
    old = std::make_unique<Filled>(simulation, Info(phases), 1);
    old->Fill(UINT64_MAX, steps);
    figures.build_seconds = ProcessorSeconds() - began;
    figures.steps = old->steps();
    figures.commits = old->blocks();
    std::vector<double> young_us;
    std::vector<double> old_us;
    for (int round = 0; round < rounds; ++round) {
      Filled young(simulation, Info({{1, 1}}), 100 + static_cast<uint64_t>(round));
      young.Fill(UINT64_MAX, kFirstBlocks);
      double start = ProcessorSeconds();
      young.Fill(young.blocks() + kMeasured, UINT64_MAX);
      double middle = ProcessorSeconds();
      old->Fill(old->blocks() + kMeasured, UINT64_MAX);
      double end = ProcessorSeconds();
      young_us.push_back((middle - start) / kMeasured * 1e6);
      old_us.push_back((end - middle) / kMeasured * 1e6);
    }
    figures.young_us = Median(young_us);
    figures.old_us = Median(old_us);
    figures.manifest_bytes = old->largest();
    Random random(7);
    samples = {0, 1, kFirstBlocks, old->steps() / 2, old->steps() - 1};
    for (int i = 0; i < 27; ++i) samples.push_back(random.Below(old->steps()));
  });
  std::shared_ptr<MemoryStore> memory = old->store;
  simulation.Run([&] { old.reset(); });
  MeasureRounds(simulation, memory, samples, figures);
  MeasureFolder(*memory, samples, folder, simulation, figures);
  return figures;
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  using namespace headrace;
  std::map<std::string, std::string> options{{"--steps", "1000000"}, {"--block", "16"}, {"--rounds", "9"}, {"--folder", ""}};
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (options.contains(argv[i]) && i + 1 < argc) {
      options[argv[i]] = argv[i + 1];
      ++i;
    } else {
      std::fprintf(stderr, "history_bench: there is no option %s\n", argv[i]);
      return 2;
    }
  }
  std::string pattern = Cat(std::filesystem::temp_directory_path().string(), "/history_bench.XXXXXX");
  bool own = options["--folder"].empty();
  std::string folder = own ? (mkdtemp(pattern.data()) != nullptr ? pattern : "") : options["--folder"];
  if (folder.empty()) {
    std::fprintf(stderr, "history_bench: cannot make the folder %s\n", pattern.c_str());
    return 1;
  }
  Figures f = Measure(std::stoull(options["--steps"]), static_cast<uint32_t>(std::stoul(options["--block"])),
                      std::stoi(options["--rounds"]), folder);
  if (own) std::filesystem::remove_all(folder);
  double ratio = f.old_us / f.young_us;
  if (json) {
    std::printf(
        "{\"steps\": %lu, \"commits\": %lu, \"build_seconds\": %.1f, \"commit_us_after_1000\": %.1f, \"commit_us\": %.1f, "
        "\"commit_ratio\": %.3f, \"manifest_bytes\": %zu, \"open_requests\": %lu, \"open_rounds\": %.0f, "
        "\"first_cell_requests\": %lu, \"first_cell_rounds\": %.0f, \"folder_first_cell_ms\": %.2f, "
        "\"folder_first_cell_worst_ms\": %.2f}\n",
        f.steps, f.commits, f.build_seconds, f.young_us, f.old_us, ratio, f.manifest_bytes, f.open_requests, f.open_rounds,
        f.first_cell_requests, f.rounds, f.folder_ms, f.folder_worst_ms);
    return 0;
  }
  std::printf("%lu steps in %lu commits, %.1f s\n", f.steps, f.commits, f.build_seconds);
  std::printf("%-52s %10s %8s\n", "", "", "target");
  std::printf("%-52s %10.3f %8s   (%.1f us, %.1f us after 1,000 steps)\n", "a commit, beside one after 1,000 steps", ratio,
              "1.15", f.old_us, f.young_us);
  std::printf("%-52s %10zu %8s\n", "largest manifest, bytes", f.manifest_bytes, "65536");
  std::printf("%-52s %10lu %8s   (%.0f rounds)\n", "requests to open", f.open_requests, "4", f.open_rounds);
  std::printf("%-52s %10.0f %8s   (%lu requests)\n", "round trips from opening to the first cell", f.rounds, "6",
              f.first_cell_requests);
  std::printf("%-52s %10.2f %8s   (worst %.2f)\n", "opening to the first cell in a folder, ms", f.folder_ms, "20",
              f.folder_worst_ms);
  return 0;
}
