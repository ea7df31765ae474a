// A rank's share of one step, as it was read and checked: arrays that view the bytes that were fetched.
//
// A step keeps its whole block in memory, and so does every view of its bytes. Immutable; safe to read from many threads.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "load/habit.h"
#include "load/lanes.h"
#include "stream/cell.h"
#include "stream/manifest.h"

namespace headrace {

struct LoadedBlock {
  Entry entry;
  LaneRange lanes;
  // cells[step − entry.first_step][lane − lanes.first]: the arrays of all columns, in the stream's order.
  std::vector<std::vector<std::vector<Array>>> cells;
  uint64_t bytes = 0;  // of memory
  std::shared_ptr<Habit> habit;  // of whoever reads it
};

class Step {
 public:
  Step(std::shared_ptr<const LoadedBlock> block, uint64_t number) : block_(std::move(block)), number_(number) {}

  uint64_t number() const { return number_; }
  uint32_t mixture() const { return block_->entry.mixture; }
  LaneRange lanes() const { return block_->lanes; }
  // The arrays of the `i`-th of its lanes.
  std::span<const Array> cell(size_t i) const { return block_->cells[number_ - block_->entry.first_step][i]; }
  const LoadedBlock& block() const { return *block_; }

 private:
  std::shared_ptr<const LoadedBlock> block_;
  uint64_t number_;
};

}  // namespace headrace
