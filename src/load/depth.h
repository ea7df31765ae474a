// How many blocks to hold ready or on their way: enough to hide the store's latency, not more.
//
// A trainer that takes a block every `interval` and a store that needs `latency` for one must have latency / interval of them on the way. Both
// are measured, with their spread. What the formula gets wrong is corrected by what happens: each time that the trainer had to
// wait for a block that could have been there, the depth doubles, and it comes back only slowly.
//
// Not thread-safe.
#pragma once

#include <cstddef>

#include "headrace/clock.h"

namespace headrace {

class Depth {
 public:
  static constexpr size_t kLeast = 3;
  static constexpr size_t kFirst = 16;
  static constexpr size_t kMost = 256;

  size_t blocks() const { return blocks_; }

  // A block was read in this time.
  void Read(Duration took);
  // The trainer came for the next block this long after it came for the one before, time that it waited for us not counted.
  void Taken(Duration interval);
  // The trainer had to wait although the block was there to be read.
  void Waited();

 private:
  struct Spread {
    double mean = 0;
    double deviation = 0;
    bool any = false;
    void Add(double value);
  };

  Spread latency_;
  Spread interval_;
  size_t blocks_ = kFirst;
  size_t taken_ = 0;  // since the depth was last changed
};

}  // namespace headrace
