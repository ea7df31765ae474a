// A store as slow as S3: every request takes its time, and bytes come at the rate of a connection and of a network card.
//
// Times are log-normal around a median for each operation, from a seed. The effect happens somewhere inside that time, so
// that requests overlap as they do in earnest. Who runs out of time before it gets a timeout (a create: `kUnknown`), before
// or after the effect.
//
// Thread-safe. Time is the clock's that was passed in, so a simulated minute costs nothing.
#pragma once

#include <mutex>

#include "base/random.h"
#include "store/decorator.h"
#include "store/operation.h"

namespace headrace {

struct SlowOptions {
  // Medians as seen on S3 from a machine in the same region.
  Duration create = std::chrono::milliseconds(60);
  Duration put = std::chrono::milliseconds(40);
  Duration list = std::chrono::milliseconds(30);
  Duration remove = std::chrono::milliseconds(30);
  Duration get = std::chrono::milliseconds(20);
  double sigma = 0.25;
  double connection_bytes_per_second = 90e6;  // of one request
  double total_bytes_per_second = 3e9;        // of all together, in each direction; 0: without limit
};

class SlowStore final : public StoreDecorator {
 public:
  SlowStore(std::shared_ptr<ObjectStore> inner, const SlowOptions& options, Clock& clock, Random random);

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override;
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override;
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override;
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override;
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override;

 private:
  struct Latency {
    Duration before, after;  // the effect
  };
  Latency Draw(Duration median);
  // Until `bytes` are through, whose place in the queue begins now. `free_at` is when the direction's other bytes are.
  Duration Transfer(uint64_t bytes, Instant& free_at);

  const SlowOptions options_;
  Clock& clock_;
  std::mutex mutex_;
  Random random_;
  Instant up_free_at_{};
  Instant down_free_at_{};
};

}  // namespace headrace
