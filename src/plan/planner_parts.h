// What a planner is made of; planner.cc draws and plans, placing.cc fills sequences, planner_state.cc writes down and restores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "plan/bins.h"
#include "plan/mixer.h"
#include "plan/planner.h"

namespace headrace {

// Recipes that plan by an expression: it is read once for all steps.
SequenceCost CostOf(const Recipe& recipe, SequenceCost cost);

struct Member {
  SampleInfo sample;
  uint32_t length = 0;  // less than the sample's where it was truncated
};

// What was drawn together: a sample, or a group of them; or what is left of a long one.
struct Drawn {
  SampleInfo sample;
  uint32_t start = 0;
  uint32_t length = 0;  // of the first sample, from `start` on
  uint32_t waited : 31 = 0;  // steps that left it behind
  bool split_now : 1 = false;  // too many wait for a longer step: this one does not
  Few<Member> rest;  // of the group

  uint64_t total() const {
    uint64_t sum = length;
    for (const Member& member : rest) sum += member.length;
    return sum;
  }

  // All of it as a sequence of its own; nothing is left here.
  Sequence Whole() {
    Sequence sequence;
    sequence.length = length;
    sequence.pieces.push_back({std::move(sample), 0, length, 0});
    for (Member& member : rest) {
      sequence.pieces.push_back({std::move(member.sample), 0, member.length, sequence.length});
      sequence.length += member.length;
    }
    return sequence;
  }
};

inline uint64_t Aligned(uint64_t length, uint32_t align) {
  const uint64_t size = std::max<uint64_t>(length, 1);
  return align == 1 ? size : (size + align - 1) / align * align;  // a division for each document would be felt
}

// What it takes of a sequence.
inline uint64_t Size(const Drawn& drawn, uint32_t align) {
  if (drawn.rest.empty()) return std::max<uint32_t>(drawn.length, 1);
  uint64_t sum = Aligned(drawn.length, align);
  for (size_t i = 0; i < drawn.rest.size(); ++i)
    sum += i + 1 < drawn.rest.size() ? Aligned(drawn.rest[i].length, align) : std::max<uint32_t>(drawn.rest[i].length, 1);
  return sum;
}

struct Piece {
  uint32_t drawn = 0;  // index
  uint32_t member = 0;  // 0: the first
  uint32_t start = 0, length = 0;
  uint32_t bin = 0, position = 0;
};

// One try at filling a step's sequences. Used again for the next step, so that its memory is.
struct Layout {
  static constexpr uint32_t kAll = UINT32_MAX;

  Layout() = default;
  Layout(PackMethod method, uint32_t count, uint32_t length, uint32_t align) { Reset(method, count, length, align); }
  void Reset(PackMethod method, uint32_t count, uint32_t length, uint32_t align) {
    bins.Reset(method, count, length, align);
    pieces.clear();
    done.clear();
    bonds.assign(count, 0);
    bonded_sets = largest_set = 0;
    unfit = 0;
  }

  Bins bins;
  std::vector<Piece> pieces;
  std::vector<uint32_t> done;  // by drawn: how much of it, from its start, is placed already; kAll: it is placed to its end
  std::vector<uint32_t> bonds;  // by bin
  uint32_t bonded_sets = 0, largest_set = 0;
  size_t unfit = 0;  // found no room, or not for all of it

  bool Placed(size_t drawn) const { return drawn < done.size() && done[drawn] == kAll; }
};

struct Planner::Parts {
  Parts(const Recipe& r, SampleFeed& f, SequenceCost c)
      : recipe(r), feed(f), cost(std::move(c)), group(std::max<uint32_t>(r.group_size, 1)) {}

  // False if nothing more can be drawn.
  Result<bool> Draw();
  // Weights that jump hold for the very next step: what was drawn by the old ones, and is not begun, is drawn again by the new ones.
  void PutBack();
  uint64_t Amount(const Drawn& drawn) const { return by_tokens ? drawn.total() : 1 + drawn.rest.size(); }
  Status TooLong(const Drawn& drawn, uint32_t limit) const;
  bool Fit(Drawn& drawn, uint32_t limit);
  bool Waits(const Drawn& drawn, uint32_t length) const {
    return length < longest && method != PackMethod::kConcat && !drawn.split_now && Size(drawn, align) > length;
  }
  Status Place(Layout& layout, uint32_t index, uint32_t per_lane) const {
    if (layout.done.size() <= index) layout.done.resize(std::max<size_t>(buffer.size(), 2 * size_t{index} + 1), 0);
    if (!buffer[index].rest.empty()) return PlaceGroup(layout, index, per_lane);
    PlaceOne(layout, index);
    return Status::Ok();
  }
  void PlaceOne(Layout& layout, uint32_t index) const;
  Status PlaceGroup(Layout& layout, uint32_t index, uint32_t per_lane) const;
  std::vector<Sequence> Build(Layout& layout);
  void Keep(const Layout& layout);
  Result<std::optional<StepPlan>> NextPacked(uint64_t step);
  Result<std::optional<StepPlan>> NextPlain(uint64_t step);
  Status FillBest(Layout& layout, uint32_t per_lane);

  Recipe recipe;
  SampleFeed& feed;
  SequenceCost cost;
  const uint32_t group;
  uint32_t longest = 0;  // of the pack's lengths
  uint32_t align = 1;
  PackMethod method = PackMethod::kBestFit;
  std::vector<std::string> sources;
  std::vector<AtEnd> at_end;
  Mixer mixer;
  bool by_tokens = true;
  bool stopped = false;  // nothing is drawn any more
  std::vector<Drawn> buffer;  // drawn and not placed, in that order
  std::vector<std::deque<Drawn>> back;  // by source: to be drawn before anything of the feed
  uint64_t truncated = 0, dropped = 0;  // since the last step
  Layout online, sorted;  // of the step that is being planned
};

}  // namespace headrace
