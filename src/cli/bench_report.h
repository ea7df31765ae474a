// What `headrace bench` says about a measurement: a table, remarks on what makes it better than the truth, and one sentence.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/console.h"
#include "store/measure.h"

namespace headrace::cli {

struct BenchReport {
  std::string uri;
  MeasureReport measured;
  uint64_t gpu_bytes_per_second = 0;
  std::vector<std::string> remarks;

  std::vector<std::string> TableLines(const Console& console) const;
  // "this store feeds 11 GPUs that each eat 250MB/s; 14 commits a second"
  std::string Sentence() const;
  nlohmann::json ToJson() const;
};

// "reading 1MiB ranges, 8 at once: 812MB/s"
std::string LiveLine(const MeasureView& view);

// "16KiB", "8MiB": sizes that are whole in powers of two.
std::string BinarySize(uint64_t bytes);

}  // namespace headrace::cli
