// A reader for formats that can be entered at any row: it asks for runs of rows by their numbers.
#pragma once

#include <algorithm>
#include <functional>

#include "source/format.h"

namespace headrace {

class RunReader final : public GranuleReader {
 public:
  // Rows first … first + count of the file. May bring fewer, but not none.
  using Load = std::function<Result<RowRun>(uint64_t first, uint64_t count, const Deadline& deadline)>;
  RunReader(uint64_t first, uint64_t count, Load load, uint64_t bytes = 4096)
      : row_(first), end_(first + count), load_(std::move(load)), bytes_(bytes) {}

  Result<RowRun> Read(uint64_t rows, const Deadline& deadline) override {
    const uint64_t count = std::min(rows, end_ - row_);
    if (count == 0) return RowRun();
    HR_ASSIGN_OR_RETURN(RowRun run, load_(row_, count, deadline));
    row_ += run.consumed;
    return run;
  }
  Result<uint64_t> Skip(uint64_t rows, const Deadline&) override {
    const uint64_t count = std::min(rows, end_ - row_);
    row_ += count;
    return count;
  }
  uint64_t bytes() const override { return bytes_; }

 private:
  uint64_t row_;
  const uint64_t end_;
  const Load load_;
  const uint64_t bytes_;
};

}  // namespace headrace
