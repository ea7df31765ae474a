// A sample's place in the order of its source, as one strand sees it. A pure function leads from here to the sample's bytes (source/), so that
// a checkpoint is a few of these and never a buffer.
#pragma once

#include <compare>
#include <cstdint>

namespace headrace {

// A strand reads its share of a source window by window: groups of granules, cut into pieces, each piece shuffled (docs/design/0006-making-steps.md).
struct Position {
  uint32_t epoch = 0;
  uint32_t group = 0;  // of granules, in the strand's order of this epoch
  uint32_t piece = 0;  // of the group
  uint32_t index = 0;  // in the piece's shuffled order
  friend auto operator<=>(const Position&, const Position&) = default;
};

struct SampleRef {
  uint16_t source = 0;  // its place among the stream's sources, which only grow
  Position position;
  friend auto operator<=>(const SampleRef&, const SampleRef&) = default;
};

}  // namespace headrace
