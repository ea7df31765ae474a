// One simulated run of a stream: producers, readers, collectors, checkpoints, deciders and a stranger, all dying, stalling and being
// restarted, over a store in trouble; then peace, until the stream is sealed. Everything comes from the seed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/simulation.h"
#include "sim/history.h"
#include "sim/process_time.h"
#include "store/faulty_store.h"
#include "stream/stream_log.h"

namespace headrace {

class StrandWriter;

// What a seed decides.
struct Scenario {
  StreamInfo info;
  std::vector<uint64_t> samples;  // of each strand
  int producers = 2;
  int capacity = 1;  // strands of a producer
  int readers = 1;
  int collectors = 1;
  int trainers = 1;
  bool decider = false;
  bool stranger = false;
  bool flood = false;  // more pins than fit
  double trouble = 0;  // probability of a fault in a request
  double death = 0;  // of a process at a request
  double stall = 0;  // of a process at a request
  double jump = 0;  // of a process' clock at a request
  Duration longest_stall{};
  Duration shortest_build{}, longest_build{};
  Duration grace{};
  Duration war{};  // how long things go wrong
  Discipline discipline = Discipline::kCombine;

  static Scenario FromSeed(uint64_t seed);
};

struct Outcome {
  std::vector<std::string> violations;
  uint64_t fingerprint = 0;
  uint64_t steps = 0, manifests = 0, deaths = 0, zombies = 0, faults = 0, jumps = 0;
};

class World {
 public:
  World(uint64_t seed, Rules rules);
  Outcome Run();

 private:
  class ProcessStore;
  void Supervise();
  void StartActor(const std::string& role, std::function<void(StreamContext)> life);
  bool Peace() const { return const_cast<Simulation&>(simulation_).Now() >= peace_at_; }
  // Of the process that asks; the simulation's own where none has one.
  Clock& OwnClock();
  Deadline Soon();
  void Nap(Duration longest);

  void Produce(StreamContext context);
  void RunStrand(const std::shared_ptr<StreamLog>& log, uint16_t strand);
  void TryFinish(const std::shared_ptr<StreamLog>& log);
  void Follow(StreamContext context);
  void CollectGarbage(StreamContext context);
  void Checkpoint(StreamContext context);
  void Decide(StreamContext context);
  void Intrude(StreamContext context);
  void Flood(StreamContext context);
  void OnChunk(const Entry& entry, const Bytes& object);
  void CheckSamples();

  const uint64_t seed_;
  const Rules rules_;
  const Scenario scenario_;
  std::map<Simulation::ProcessId, std::unique_ptr<ProcessTime>> times_;  // outlives the processes
  Simulation simulation_;
  std::shared_ptr<History> history_;
  std::shared_ptr<FaultyStore> faulty_;
  std::shared_ptr<ObjectStore> store_;
  Random chance_;
  Instant peace_at_{};
  bool stopping_ = false;
  uint64_t deaths_ = 0;
  uint64_t jumps_ = 0;
  uint64_t lives_ = 0;
  std::map<std::pair<uint16_t, uint64_t>, int> drawn_;
};

}  // namespace headrace
