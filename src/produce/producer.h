// A producer: runs as many strands as this process should have, and shares them with the other producers of the stream.
//
// Producers never talk to each other. Each one writes down which strands it holds (status/producer-<id>) and sees what the others wrote. It takes strands that
// nobody holds and those whose holder seems to be dead, up to its share; if it has more than its share because others have joined, it gives
// some back between two blocks. What it thinks may be wrong at any time: the strand's epoch decides who may write.
//
// One thread per block in the making; the block that is furthest behind is made first, so that the frontier moves.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "base/random.h"
#include "produce/lake_stream.h"
#include "produce/status_board.h"
#include "produce/strand_line.h"
#include "stream/strand_watch.h"

namespace headrace {

struct ProducerOptions {
  std::string owner;  // for people; a name of this process if empty
  uint32_t threads = 2;
  uint32_t capacity = UINT32_MAX;  // strands at the most
  uint64_t memory = uint64_t{1} << 30;  // for blocks in the making
  std::optional<uint64_t> steps;  // stop when so many are visible
  Duration take_over_after = std::chrono::seconds(10);
  std::optional<int64_t> replaces;  // a process of this machine that is dead, as whoever started both knows: no need to wait
  Duration drain = std::chrono::seconds(20);
  bool seal = true;
  Duration collect_every = std::chrono::minutes(2);  // what `retain` lets go of is deleted so often
  Duration grace = std::chrono::seconds(60);  // before it is deleted
};

struct ProducerReport {
  uint64_t frontier = 0;
  bool sealed = false;
  std::optional<uint64_t> wanted;  // steps, where `until` says how many
  uint64_t blocks = 0, steps = 0, bytes = 0;  // made by this process
  uint64_t tokens = 0, padding = 0;
  std::map<std::string, uint64_t> tokens_by_source, samples_by_source;
  std::map<std::string, uint64_t> skipped_by_source;  // bad samples that were left out; only sources that have some
  uint32_t strands = 0, producers = 1;
  uint64_t reader_step = 0;  // of the slowest training reader
  bool readers = false;
  std::string waiting;  // what for, if for anything: "readers", "space", "other strands"
};

class Producer {
 public:
  Producer(LakeStream& lake, ProducerOptions options);
  ~Producer();

  // Until the recipe ends, `options.steps` are visible, or `stop`. `progress` is called about five times a second, from one thread.
  Result<ProducerReport> Run(std::stop_token stop, const std::function<void(const ProducerReport&)>& progress);

 private:
  struct Held {
    std::unique_ptr<StrandLine> line;  // nothing while a thread works with it
    bool busy = false;
    uint64_t next_block = 0;
  };
  // Of a strand that could not be taken, or whose block could not be made. Outlives `Held`: who lets go of a strand and takes it again has not begun anew.
  struct Trouble {
    int failures = 0;  // since its last block
    int conflicts = 0;  // of those
    Instant not_before{};
  };

  // One look at everything: takes and gives back strands, finishes the stream, tells others.
  Status Govern(const Deadline& deadline);
  std::vector<uint16_t> Wanted(const Manifest& manifest, size_t* share);
  Status TakeStrand(uint16_t strand, const Deadline& deadline);
  // Notes that something of the strand failed: when to try again; or that there is no point in it, and the producer ends. With `mutex_`.
  void Suffer(uint16_t strand, const Status& why);
  void Work(const Deadline& deadline);
  std::optional<uint16_t> Choose();
  void Note(const StrandLine::Made& made);
  // Whether a block may be made, by how far the readers are.
  uint64_t MostSteps() const;
  Instant NextFinish(Instant now);
  Status TryFinish(const Deadline& deadline);
  void Retain(std::stop_token stop);
  ProducerReport Report();

  LakeStream& lake_;
  const ProducerOptions options_;
  std::string id_;
  Clock& clock_;
  StatusBoard board_;
  StrandWatch watch_;
  Random random_;
  std::atomic<size_t> rank_ = 0;  // among the producers that are alive
  std::optional<Instant> all_ended_;
  Instant next_finish_{};
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<uint16_t, Held> held_;
  std::map<uint16_t, Trouble> troubles_;
  std::set<uint16_t> ended_;
  std::unique_ptr<StrandLine> finisher_;  // kept from one try to the next, so that a try costs no epoch
  int finish_conflicts_ = 0;
  uint32_t making_ = 0;
  uint32_t most_making_ = 1;
  bool stopping_ = false;
  Status failure_;
  ProducerReport report_;
};

}  // namespace headrace
