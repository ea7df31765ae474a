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
  [[no_unique_address]] SampleInfo sample;
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

static_assert(sizeof(Drawn) == 64, "one line of a cache");

// What was drawn and not placed, in that order. What is taken away leaves its memory to what comes: a step draws hundreds of thousands of documents, and to
// clear away each of them would take as long as to place it.
class DrawnList {
 public:
  size_t size() const { return size_; }
  Drawn& operator[](size_t i) { return slots_[i]; }
  const Drawn& operator[](size_t i) const { return slots_[i]; }
  Drawn& back() { return slots_[size_ - 1]; }
  Drawn* begin() { return slots_.data(); }
  Drawn* end() { return slots_.data() + size_; }
  const Drawn* begin() const { return slots_.data(); }
  const Drawn* end() const { return slots_.data() + size_; }

  // A new one at the end.
  [[gnu::always_inline]] Drawn& Add() {
    if (size_ == slots_.size()) [[unlikely]]
      slots_.resize(std::max<size_t>(64, 2 * size_));
    // Its memory was last used a step ago, and is far away.
    __builtin_prefetch(slots_.data() + size_ + kAhead, 1);
    Drawn& drawn = slots_[size_++];
    // Member by member: as a whole it would be made elsewhere first.
    if (!drawn.sample.numbers.empty() || !drawn.rest.empty()) [[unlikely]]
      Empty(drawn);
    drawn.sample.bytes = 0;
    drawn.sample.ref = {};
    drawn.sample.length = drawn.sample.label_tokens = 0;
    drawn.start = drawn.length = drawn.waited = 0;
    drawn.split_now = false;
    return drawn;
  }
  void Add(Drawn drawn) { Add() = std::move(drawn); }
  void RemoveLast() { --size_; }
  void KeepFirst(size_t count) { size_ = count; }
  void RemoveFirst(size_t count) { size_ = static_cast<size_t>(std::move(begin() + count, end(), begin()) - begin()); }

 private:
  [[gnu::noinline]] static void Empty(Drawn& drawn) { drawn = Drawn(); }

  static constexpr size_t kAhead = 12;
  std::vector<Drawn> slots_;
  size_t size_ = 0;
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

// A step from its sequences, each of which is added when it is complete: while its pieces are at hand, what they cost and count is worked out.
class StepMaker {
 public:
  StepMaker(const Recipe& recipe, size_t sources, uint32_t length, const SequenceCost& cost);
  void Add(Sequence& sequence);
  // All that were added, in that order.
  StepPlan Make(std::vector<Sequence> sequences);

 private:
  const Recipe& recipe_;
  const SequenceCost& cost_;
  StepPlan plan_;
  uint64_t tokens_ = 0;
};

struct Planner::Parts {
  Parts(const Recipe& r, SampleFeed& f, SequenceCost c)
      : recipe(r), feed(f), cost(std::move(c)), group(std::max<uint32_t>(r.group_size, 1)) {}

  // One more into the buffer. False if nothing more can be drawn, or if it failed: then `failure` says why.
  bool Draw();
  // The same, in sight of its caller's loop, for what nearly every document is.
  [[gnu::always_inline]] bool DrawPlain() {
    if (stopped || backs > 0 || group > 1) [[unlikely]]
      return Draw();
    const uint32_t picked = mixer.Pick();
    if (picked == Mixer::kNobody) [[unlikely]]
      return Draw();
    const auto source = static_cast<uint16_t>(picked);
    Drawn& drawn = buffer.Add();
    if (Result<bool> some = feed.Next(source, drawn.sample); !some.ok() || !*some) [[unlikely]] {
      buffer.RemoveLast();
      return Nothing(source, std::move(some)) && Draw();
    }
    drawn.length = drawn.sample.length;
    if (!Fit(drawn, longest)) [[unlikely]] {
      buffer.RemoveLast();
      return Draw();
    }
    mixer.Charge(source, by_tokens ? drawn.length : 1);
    return true;
  }
  // The feed had nothing of it: false if nothing shall be drawn any more.
  bool Nothing(uint16_t source, Result<bool> some);
  // The others of its group, in the same way.
  bool DrawRest(uint16_t source, Drawn& drawn);
  // Weights that jump hold for the very next step: what was drawn by the old ones, and is not begun, is drawn again by the new ones.
  void PutBack();
  uint64_t Amount(const Drawn& drawn) const { return by_tokens ? drawn.total() : 1 + drawn.rest.size(); }
  Status TooLong(const Drawn& drawn, uint32_t limit) const;
  // Makes it no longer than `limit`, as `overflow` says; false if it is dropped.
  bool Fit(Drawn& drawn, uint32_t limit) {
    return !recipe.pack || method == PackMethod::kConcat || Size(drawn, align) <= limit || FitLong(drawn, limit);
  }
  bool FitLong(Drawn& drawn, uint32_t limit);
  bool Waits(const Drawn& drawn, uint32_t length) const {
    return length < longest && method != PackMethod::kConcat && !drawn.split_now && Size(drawn, align) > length;
  }
  [[gnu::always_inline]] Status Place(Layout& layout, uint32_t index, uint32_t per_lane) const {
    if (layout.done.size() <= index) [[unlikely]]
      layout.done.resize(std::max<size_t>(buffer.size(), 2 * size_t{index} + 1), 0);
    if (!buffer[index].rest.empty()) return PlaceGroup(layout, index, per_lane);
    PlaceOne(layout, index);
    return Status::Ok();
  }
  // What finds a place stays placed; if that is not all of it, it is among those that are left.
  [[gnu::always_inline]] void PlaceOne(Layout& layout, uint32_t index) const {
    const Drawn& drawn = buffer[index];
    const uint32_t length = layout.bins.length();
    uint32_t start = layout.done[index];
    while (true) {
      uint32_t part = std::min(drawn.length - start, length);
      if (method == PackMethod::kConcat) part = std::min(part, layout.bins.OpenRoom());
      const Bins::Place place = layout.bins.Put(part);
      if (!place) {
        layout.done[index] = start;
        ++layout.unfit;
        return;
      }
      layout.pieces.push_back({index, 0, drawn.start + start, part, place.bin, place.position});
      start += part;
      if (start == drawn.length) {
        layout.done[index] = Layout::kAll;
        return;
      }
    }
  }
  Status PlaceGroup(Layout& layout, uint32_t index, uint32_t per_lane) const;
  // `maker` gets them one by one.
  std::vector<Sequence> Build(Layout& layout, StepMaker* maker);
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
  DrawnList buffer;
  std::vector<std::deque<Drawn>> back;  // by source: to be drawn before anything of the feed
  size_t backs = 0;  // how many of these there are
  Status failure;
  uint64_t truncated = 0, dropped = 0;  // since the last step
  Layout online, sorted;  // of the step that is being planned
};

}  // namespace headrace
