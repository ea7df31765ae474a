// How many steps each block has: a pure function of the block's number, fixed when the stream is created.
//
// Small at first, so that training starts when the first few steps are there; then larger, so that a chunk is worth a request.
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/result.h"

namespace headrace {

class BlockSizes {
 public:
  struct Phase {
    uint64_t blocks;  // how many blocks; the last phase goes on for ever
    uint32_t steps;   // in each of them
    friend bool operator==(const Phase&, const Phase&) = default;
  };

  BlockSizes() : phases_{{UINT64_MAX, 1}} {}
  // All of them with `steps`, which is at least 1.
  static BlockSizes Even(uint32_t steps);
  // Phases of one round of `strands` blocks each with 1, 2, 4, … steps, until `steps`.
  static BlockSizes Growing(uint32_t strands, uint32_t steps);
  static Result<BlockSizes> FromPhases(std::vector<Phase> phases);

  // Like `Growing`, for a stream of exactly `total` steps, whose last block is as short as it must be. `*blocks` gets their number.
  static BlockSizes Exactly(uint64_t total, uint32_t strands, uint32_t steps, uint64_t* blocks);

  // k(t).
  uint32_t Steps(uint64_t block) const;
  // The sum of those before it: the block's first step, as long as no strand has ended.
  uint64_t FirstStep(uint64_t block) const;

  const std::vector<Phase>& phases() const { return phases_; }
  friend bool operator==(const BlockSizes&, const BlockSizes&) = default;

 private:
  std::vector<Phase> phases_;
};

}  // namespace headrace
