// Many workers that send requests as fast as they are answered, for a while: one level of concurrency, counted and timed.
//
// May be simulated. Holds one duration for each request.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/executor.h"
#include "headrace/result.h"

namespace headrace {

struct MeasureLevel {
  size_t concurrency = 0;
  uint64_t requests = 0;  // that were answered
  uint64_t bytes = 0;     // that they moved
  Duration time{};        // from the first request's begin to the last one's end
  Duration p50{}, p90{}, p99{}, max{};  // of a request

  double requests_per_second() const;
  double bytes_per_second() const;
};

// What became of all workers together: the counts, and the first failure.
struct MeasureLevelOutcome {
  MeasureLevel level;
  Status failure;
};

struct MeasureLevelPlan {
  size_t concurrency = 1;
  Instant until;                // no request begins later, except the first of each worker
  uint64_t requests = 100'000;  // so many at the most
  // One request: its number in this level and its worker's; returns the bytes that it moved. A failure ends the level.
  std::function<Result<uint64_t>(uint64_t number, size_t worker)> request;
  // Called now and then from the caller's thread, with what there is so far.
  std::function<void(const MeasureLevel& so_far)> watch;
};

MeasureLevelOutcome RunMeasureLevel(Executor& executor, const MeasureLevelPlan& plan);

}  // namespace headrace
