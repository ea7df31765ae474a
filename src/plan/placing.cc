// Where documents go in the sequences of a step.
#include <array>
#include <utility>

#include "plan/planner_parts.h"

namespace headrace {
namespace {

// A document that was left behind this often comes before all others.
constexpr uint32_t kPatience = 3;

// The lower halves ascend already, so that counting is enough: 11 bits at a time, those that are the same in all left out.
void SortByUpperHalf(std::vector<uint64_t>& keys) {
  constexpr uint32_t kBits = 11, kBuckets = 1 << kBits;
  if (keys.empty()) return;
  uint64_t differ = 0;
  for (uint64_t key : keys) differ |= key ^ keys.front();
  std::vector<uint64_t> sorted(keys.size());
  for (uint32_t shift = 32; shift < 64; shift += kBits) {
    if ((differ >> shift) % kBuckets == 0) continue;
    std::array<uint32_t, kBuckets> first{};
    for (uint64_t key : keys) ++first[(key >> shift) % kBuckets];
    uint32_t sum = 0;
    for (uint32_t& bucket : first) bucket = std::exchange(sum, sum + bucket);
    for (uint64_t key : keys) sorted[first[(key >> shift) % kBuckets]++] = key;
    keys.swap(sorted);
  }
}

}  // namespace

// Whole in one sequence, or in sequences of its own that share a lane.
Status Planner::Parts::PlaceGroup(Layout& layout, uint32_t index, uint32_t per_lane) const {
  const Drawn& drawn = buffer[index];
  const uint32_t length = layout.bins.length();
  const uint64_t size = Size(drawn, align);
  std::vector<Piece> pieces;
  const auto member_length = [&](uint32_t member) { return member == 0 ? drawn.length : drawn.rest[member - 1].length; };
  const auto members = static_cast<uint32_t>(1 + drawn.rest.size());
  if (size <= length) {
    const Bins::Place place = layout.bins.Put(static_cast<uint32_t>(size));
    if (!place) {
      ++layout.unfit;
      return Status::Ok();
    }
    uint64_t position = place.position;
    for (uint32_t member = 0; member < members; ++member) {
      layout.pieces.push_back({index, member, 0, member_length(member), place.bin, static_cast<uint32_t>(position)});
      position += Aligned(member_length(member), align);
    }
    layout.done[index] = Layout::kAll;
    return Status::Ok();
  }
  uint32_t bin = 0;
  uint64_t position = 0;
  for (uint32_t member = 0; member < members; ++member)
    for (uint32_t start = 0; start == 0 || start < member_length(member);) {
      if (position >= length) {
        ++bin;
        position = 0;
      }
      const auto part = static_cast<uint32_t>(std::min<uint64_t>(member_length(member) - start, length - position));
      pieces.push_back({index, member, start, part, bin, static_cast<uint32_t>(position)});
      position += Aligned(part, align);
      start += part;
      if (part == 0) break;
    }
  const uint32_t needed = bin + 1;
  if (needed > per_lane)
    return Status(Code::kInvalidArgument, "a group of " + std::to_string(members) + " samples of source `" +
                                              sources[drawn.sample.ref.source] + "` has " + std::to_string(drawn.total()) +
                                              " tokens and must stay in one lane, which has " + std::to_string(per_lane) +
                                              " sequences of " + std::to_string(length) +
                                              ": choose `overflow: truncate` or `drop`, or a greater `pack.length`");
  const uint32_t largest = std::max(layout.largest_set, needed);
  const uint32_t lanes = std::max<uint32_t>(recipe.lanes, 1);
  // Even if all sets were as large as the largest, lanes would have room for them: so balancing always finds some.
  bool fits = layout.bonded_sets + 1 <= lanes * (per_lane / largest);
  uint32_t empty = 0;
  for (uint32_t i = 0; fits && i < layout.bins.count() && empty < needed; ++i) empty += layout.bins.room(i) == length ? 1 : 0;
  if (!fits || empty < needed) {
    ++layout.unfit;
    return Status::Ok();
  }
  ++layout.bonded_sets;
  layout.largest_set = largest;
  // Unlike that of any other group, so that sequences of several strands can share a last step.
  const Position& at = drawn.sample.ref.position;
  uint32_t bond = 2166136261u;
  for (uint32_t number : {uint32_t{drawn.sample.ref.source}, at.epoch, at.group, at.piece, at.index})
    bond = (bond ^ number) * 16777619u;
  bond |= 1;
  std::vector<uint32_t> used;
  for (uint32_t i = 0; i < needed; ++i) {
    const Bins::Place place = layout.bins.Put(length);  // takes an empty one, and all of it
    used.push_back(place.bin);
    layout.bonds[place.bin] = bond;
  }
  for (Piece& piece : pieces) {
    piece.bin = used[piece.bin];
    layout.pieces.push_back(piece);
  }
  layout.done[index] = Layout::kAll;
  return Status::Ok();
}

std::vector<Sequence> Planner::Parts::Build(Layout& layout, StepMaker* maker) {
  const uint32_t count = layout.bins.count();
  std::vector<Sequence> sequences(count);
  std::vector<uint32_t> upto(count + 1, 0), earliest(count, UINT32_MAX), by_bin(layout.pieces.size());
  for (const Piece& piece : layout.pieces) {
    ++upto[piece.bin + 1];
    earliest[piece.bin] = std::min(earliest[piece.bin], piece.drawn);
  }
  // In the order of arrival of what they begin with, whatever order they were filled in.
  std::vector<uint64_t> order(count);
  for (uint32_t bin = 0; bin < count; ++bin) {
    order[bin] = uint64_t{earliest[bin]} << 32 | bin;
    upto[bin + 1] += upto[bin];
  }
  SortByUpperHalf(order);
  for (uint32_t i = 0; i < layout.pieces.size(); ++i) by_bin[upto[layout.pieces[i].bin]++] = i;
  // By sequence, so that each is filled, costed and counted in one go. Its pieces lie anywhere: what comes soon is fetched.
  constexpr uint32_t kAhead = 16;
  const auto fetch = [&](uint32_t i) { __builtin_prefetch(&buffer[layout.pieces[by_bin[i]].drawn]); };
  for (uint32_t i = 0; i < count; ++i) {
    const auto bin = static_cast<uint32_t>(order[i]);
    if (i + 1 < count) {
      const auto next = static_cast<uint32_t>(order[i + 1]);
      for (uint32_t j = next == 0 ? 0 : upto[next - 1], end = std::min(upto[next], j + kAhead); j < end; ++j) fetch(j);
    }
    Sequence& sequence = sequences[i];
    sequence.length = layout.bins.length();
    sequence.bond = layout.bonds[bin];
    const uint32_t first = bin == 0 ? 0 : upto[bin - 1];
    sequence.pieces.resize(upto[bin] - first);
    for (uint32_t j = first; j < upto[bin]; ++j) {
      if (j + kAhead < upto[bin]) fetch(j + kAhead);
      const Piece& piece = layout.pieces[by_bin[j]];
      Drawn& drawn = buffer[piece.drawn];
      SampleInfo& sample = piece.member == 0 ? drawn.sample : drawn.rest[piece.member - 1].sample;
      Placed& placed = sequence.pieces[j - first];
      if (drawn.rest.empty() && piece.start == drawn.start && piece.length == drawn.length)
        placed.sample = std::move(sample);
      else
        placed.sample = sample;
      placed.start = piece.start;
      placed.length = piece.length;
      placed.position = piece.position;
    }
    if (maker != nullptr) maker->Add(sequence);
  }
  return sequences;
}

// What is left becomes the buffer, in the order in which it was drawn.
void Planner::Parts::Keep(const Layout& layout) {
  size_t kept = 0;
  for (size_t index = 0; index < buffer.size(); ++index) {
    if (layout.Placed(index)) continue;
    Drawn& drawn = buffer[index];
    if (index < layout.done.size()) {
      drawn.start += layout.done[index];
      drawn.length -= layout.done[index];
    }
    drawn.waited = drawn.waited + 1;
    if (kept != index) buffer[kept] = std::move(drawn);
    ++kept;
  }
  buffer.KeepFirst(kept);
}

// The longest first; but those that have waited long before all others.
Status Planner::Parts::FillBest(Layout& layout, uint32_t per_lane) {
  std::vector<uint64_t> order;  // what is placed first has the smallest; below, its index
  order.reserve(buffer.size());
  layout.pieces.reserve(buffer.size() + layout.bins.count());
  for (uint32_t index = 0; index < buffer.size(); ++index) {
    const Drawn& drawn = buffer[index];
    if (Waits(drawn, layout.bins.length())) continue;
    const uint64_t size = std::min<uint64_t>(Size(drawn, align), UINT32_MAX);
    order.push_back((drawn.waited >= kPatience ? 0 : (UINT32_MAX - size) << 32) | index);
  }
  SortByUpperHalf(order);
  // In the order of length they lie anywhere: what comes soon is fetched.
  constexpr size_t kAhead = 12;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i + kAhead < order.size()) __builtin_prefetch(&buffer[static_cast<uint32_t>(order[i + kAhead])]);
    HR_RETURN_IF_ERROR(Place(layout, static_cast<uint32_t>(order[i]), per_lane));
  }
  return Status::Ok();
}

}  // namespace headrace
