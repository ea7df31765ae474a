// Many producers, one log, in simulated time with S3-like latency: how long from finished to committed, and at what cost.
//
//   commit_bench [--seconds 192] [--rate 40] [--producers 1,8,64,256] [--disciplines combine,pace,backoff,fixed] [--json]
//
// A conditional create takes 60 ms, a put 40, a list 30, a get 20 (log-normal, sigma 0.25). All producers together finish `rate` chunks a
// second; each of 256 strands finishes equally many. "requests" are those per chunk, everything but the chunk's own put counted; "fairness" is
// what the slowest producer got committed within the time over what the fastest one did, for each of its strands.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/simulation.h"
#include "base/text.h"
#include "store/counting_store.h"
#include "store/memory_store.h"
#include "store/slow_store.h"
#include "stream/cell.h"
#include "stream/strand_writer.h"

namespace headrace {
namespace {

constexpr int kStrands = 256;  // shared evenly by the producers; a strand finishes one chunk at a time

struct Figures {
  double p50 = 0, p99 = 0;  // seconds from finished to committed
  double requests = 0;  // per chunk
  double fairness = 0;
  uint64_t offered = 0, committed = 0;
};

Figures Measure(int producers, double rate, double seconds, Discipline discipline) {
  Simulation simulation(static_cast<uint64_t>(producers));
  auto memory = std::make_shared<MemoryStore>("bench", simulation);
  auto slow = std::make_shared<SlowStore>(memory, SlowOptions{}, simulation, Random(1));
  auto store = std::make_shared<CountingStore>(slow, /*free=*/"data/");
  StreamInfo info;
  info.uuid[0] = 1;
  info.strands = kStrands;
  info.window = kStrands;
  info.order = Order::kArrival;
  info.columns = {{"tokens", Dtype::kU8, Column::kArray}};
  StreamContext context{store, &simulation, Random(2), discipline};
  simulation.Run([&] { (void)StreamLog::Create(info, context, {}); });

  // Whole rounds, so that all strands are due equally often.
  const double period = kStrands / rate;
  seconds = std::ceil(seconds / period - 1e-9) * period;
  const double warm_up = 40;
  const Instant begin = simulation.Now() + Duration(static_cast<int64_t>(warm_up * 1e9));
  const Instant end = begin + Duration(static_cast<int64_t>(seconds * 1e9));
  std::vector<double> waits;
  std::vector<uint64_t> shares(static_cast<size_t>(producers));
  Figures figures;
  figures.offered = static_cast<uint64_t>(std::llround(seconds / period)) * kStrands;
  uint64_t before = 0;
  simulation.Spawn([&] {
    simulation.SleepUntil(begin);
    before = store->requests();
  });
  uint64_t after = 0;
  simulation.Spawn([&] {
    simulation.SleepUntil(end);
    after = store->requests();
  });
  for (int i = 0; i < producers; ++i) {
    simulation.Start(Cat("producer", i), [&, i] {
      Random random(1000 + static_cast<uint64_t>(i));
      StreamContext own{store, &simulation, random.Fork("context"), discipline};
      auto log = StreamLog::Open(own, {});
      TaskGroup strands(simulation);
      for (int v = i; v < kStrands; v += producers) {
        strands.Spawn([&, v] {
          Random luck(5000 + static_cast<uint64_t>(v));
          auto writer = StrandWriter::Take(*log, static_cast<uint16_t>(v), {});
          if (!writer.ok()) return;
          Instant due = begin - Duration(static_cast<int64_t>((1 + luck.Uniform()) * period * 1e9));
          while (due < end) {
            simulation.SleepUntil(std::max(due, simulation.Now()));
            Array array{Dtype::kU8, {8}, Bytes::FromString("12345678")};
            ChunkBuilder chunk(info, {});
            std::vector<Body> cells(1, *BuildCell({&array, 1}, info.columns));
            (void)chunk.AddStep(std::move(cells));
            Status done = (*writer)->Append((*writer)->next(), chunk, Bytes::FromString("s"), {});
            if (!done.ok()) return;
            if (simulation.Now() >= begin && simulation.Now() < end) ++shares[static_cast<size_t>(i)];
            if (due >= begin) {
              ++figures.committed;
              waits.push_back(std::chrono::duration<double>(simulation.Now() - due).count());
            }
            due += Duration(static_cast<int64_t>(period * 1e9));
          }
        });
      }
      strands.Wait();
    });
  }
  simulation.RunUntil(end + std::chrono::seconds(120));
  std::ranges::sort(waits);
  if (!waits.empty()) {
    figures.p50 = waits[waits.size() / 2];
    figures.p99 = waits[waits.size() * 99 / 100];
    uint64_t in_time = static_cast<uint64_t>(rate * seconds);
    figures.requests = static_cast<double>(after - before) / static_cast<double>(std::max<uint64_t>(1, in_time));
  }
  std::vector<double> each;
  for (int i = 0; i < producers; ++i) {
    int strands = (kStrands - i + producers - 1) / producers;
    each.push_back(static_cast<double>(shares[static_cast<size_t>(i)]) / strands);
  }
  auto [least, most] = std::ranges::minmax(each);
  figures.fairness = most == 0 ? 0 : least / most;
  return figures;
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  using namespace headrace;
  std::map<std::string, std::string> options{
      {"--seconds", "192"}, {"--rate", "40"}, {"--producers", "1,8,64,256"}, {"--disciplines", "combine,pace,backoff,fixed"}};
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (options.contains(argv[i]) && i + 1 < argc) {
      options[argv[i]] = argv[i + 1];
      ++i;
    } else {
      std::fprintf(stderr, "commit_bench: there is no option %s\n", argv[i]);
      return 2;
    }
  }
  double seconds = std::stod(options["--seconds"]);
  double rate = std::stod(options["--rate"]);
  if (!json)
    std::printf("%-10s %10s %10s %10s %12s %12s %9s\n", "discipline", "producers", "p50 s", "p99 s", "requests", "committed",
                "fairness");
  for (const std::string& name : Split(options["--disciplines"], ',')) {
    Result<Discipline> discipline = ParseDiscipline(name);
    if (!discipline.ok()) {
      std::fprintf(stderr, "commit_bench: %s\n", discipline.status().message().c_str());
      return 2;
    }
    for (const std::string& count : Split(options["--producers"], ',')) {
      Figures f = Measure(std::stoi(count), rate, seconds, *discipline);
      const char* format =
          json
              ? "{\"discipline\": \"%s\", \"producers\": %s, \"p50_seconds\": %.3f, \"p99_seconds\": %.3f, \"requests_per_chunk\": %.2f, "
                "\"committed\": %lu, \"offered\": %lu, \"fairness\": %.3f}\n"
              : "%-10s %10s %10.3f %10.3f %12.2f %6lu/%-6lu %8.3f\n";
      std::printf(format, name.c_str(), count.c_str(), f.p50, f.p99, f.requests, f.committed, f.offered, f.fairness);
      std::fflush(stdout);
    }
  }
  return 0;
}
