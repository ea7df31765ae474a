#include "plan/planner.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "plan/balance.h"
#include "plan/bins.h"
#include "plan/cost.h"
#include "plan/mixer.h"

namespace headrace {
namespace {

// Documents that a step may leave behind: enough to choose from, few enough for a chunk's footer.
constexpr size_t kMostLeft = 256;
// Documents that wait for a step of greater length.
constexpr size_t kMostWaiting = 256;
// A document that was left behind this often comes before all others.
constexpr uint32_t kPatience = 3;
// More documents are looked at as long as more than one token in this many is padding.
constexpr uint64_t kPaddingGoal = 400;
// So many documents in a row that `overflow: drop` refuses are a mistake, not a corpus.
constexpr uint64_t kMostDropped = 100'000;

struct Member {
  SampleInfo sample;
  uint32_t length = 0;  // less than the sample's where it was truncated
};

// What was drawn together: a sample, or a group of them; or what is left of a long one.
struct Drawn {
  SampleInfo sample;
  uint32_t start = 0;
  uint32_t length = 0;  // of the first sample, from `start` on
  uint32_t waited = 0;  // steps that left it behind
  bool split_now = false;  // too many wait for a longer step: this one does not
  std::vector<Member> rest;  // of the group

  uint64_t total() const {
    uint64_t sum = length;
    for (const Member& member : rest) sum += member.length;
    return sum;
  }
};

uint64_t Aligned(uint64_t length, uint32_t align) { return (std::max<uint64_t>(length, 1) + align - 1) / align * align; }

// What it takes of a sequence.
uint64_t Size(const Drawn& drawn, uint32_t align) {
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

// One try at filling a step's sequences.
struct Layout {
  Layout(PackMethod method, uint32_t count, uint32_t length, uint32_t align)
      : bins(method, count, length, align), bonds(count, 0) {}

  Bins bins;
  std::vector<Piece> pieces;
  std::vector<bool> placed;  // by drawn: to the end
  std::vector<uint32_t> done;  // by drawn: how much of it, from its start, is placed already
  std::vector<uint32_t> bonds;  // by bin
  uint32_t bonded_sets = 0, largest_set = 0;
  size_t unfit = 0;  // found no room, or not for all of it

  bool Placed(size_t drawn) const { return drawn < placed.size() && placed[drawn]; }
};

}  // namespace

namespace {

// An expression is read once for all steps.
SequenceCost CostOf(const Recipe& recipe, SequenceCost cost) {
  if (!cost && recipe.cost.kind == CostSpec::kExpression)
    if (Result<SequenceCost> expression = ExpressionCost(recipe.cost); expression.ok()) return *std::move(expression);
  return cost;
}

}  // namespace

uint32_t LengthAt(const PackSpec& pack, uint64_t step) {
  if (pack.lengths.empty()) return 0;
  // Steps times the golden ratio: evenly spread over all steps, and over every n-th of them.
  const double at = static_cast<double>((step * 0x9E3779B97F4A7C15u) >> 11) * 0x1p-53;
  double sum = 0, upto = 0;
  for (const PackLength& length : pack.lengths) sum += length.share;
  for (const PackLength& length : pack.lengths) {
    upto += length.share / sum;
    if (at < upto) return length.length;
  }
  return pack.lengths.back().length;
}

uint32_t RemainderLength(const Recipe& recipe) {
  uint32_t longest = 0;
  if (recipe.pack)
    for (const PackLength& length : recipe.pack->lengths) longest = std::max(longest, length.length);
  return longest;
}

StepPlan PlanStep(const Recipe& recipe, size_t sources, uint32_t length, std::vector<Sequence> sequences,
                  const SequenceCost& cost) {
  const bool packed = recipe.pack.has_value();
  const uint32_t lanes = std::max<uint32_t>(recipe.lanes, 1);
  StepPlan plan;
  plan.length = length;
  plan.samples.assign(sources, 0);
  plan.tokens.assign(sources, 0);
  if (packed)
    while (sequences.empty() || sequences.size() % lanes != 0) {
      sequences.emplace_back();
      sequences.back().length = length;
    }
  SetCosts(recipe.cost, CostOf(recipe, cost), sequences);
  uint64_t tokens = 0;
  for (const Sequence& sequence : sequences)
    for (const Placed& piece : sequence.pieces) {
      const uint16_t source = piece.sample.ref.source;
      if (source >= plan.samples.size()) {
        plan.samples.resize(source + 1, 0);
        plan.tokens.resize(source + 1, 0);
      }
      plan.samples[source] += piece.start == 0 ? 1 : 0;
      plan.tokens[source] += piece.length;
      tokens += piece.length;
      // Of a part of a sample, so that the parts add up to the whole.
      const uint64_t labels = piece.sample.label_tokens, whole = std::max<uint32_t>(piece.sample.length, 1);
      plan.label_tokens += labels * (uint64_t{piece.start} + piece.length) / whole - labels * piece.start / whole;
    }
  if (packed) plan.padding = sequences.size() * uint64_t{length} - tokens;

  std::vector<double> costs(sequences.size());
  std::vector<uint32_t> bonds(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    costs[i] = sequences[i].cost;
    bonds[i] = sequences[i].bond;
  }
  const Lanes balanced = Balance(costs, lanes, {recipe.balance.method, packed, bonds});
  plan.spread_before = Spread(costs, InOrder(costs.size(), lanes));
  plan.spread_after = Spread(costs, balanced);
  plan.lanes.resize(lanes);
  for (size_t lane = 0; lane < lanes; ++lane) {
    plan.lanes[lane].reserve(balanced[lane].size());
    for (uint32_t item : balanced[lane]) plan.lanes[lane].push_back(std::move(sequences[item]));
  }
  return plan;
}

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
  Result<bool> Place(Layout& layout, uint32_t index, uint32_t per_lane) const;
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
};

Planner::Planner(const Recipe& recipe, std::vector<std::string> sources, SampleFeed& feed, SequenceCost cost)
    : parts_(std::make_unique<Parts>(recipe, feed, std::move(cost))) {
  parts_->longest = RemainderLength(recipe);
  parts_->cost = CostOf(recipe, std::move(parts_->cost));
  if (recipe.pack) {
    parts_->align = std::max<uint32_t>(recipe.pack->align, 1);
    parts_->method = recipe.pack->method;
    // A group is not cut where a sequence happens to end.
    if (parts_->group > 1 && parts_->method == PackMethod::kConcat) parts_->method = PackMethod::kFirstFit;
  }
  SetSources(std::move(sources));
}

Planner::~Planner() = default;

void Planner::SetSources(std::vector<std::string> sources, std::vector<AtEnd> at_end) {
  Parts& parts = *parts_;
  if (at_end.empty())
    for (const std::string& name : sources) {
      const auto spec = std::find_if(parts.recipe.sources.begin(), parts.recipe.sources.end(),
                                     [&](const SourceSpec& source) { return source.name == name; });
      at_end.push_back(spec == parts.recipe.sources.end() ? AtEnd::kDrop : spec->at_end);
    }
  at_end.resize(sources.size(), AtEnd::kDrop);
  parts.sources = std::move(sources);
  parts.at_end = std::move(at_end);
  parts.mixer.Resize(parts.sources.size());
  parts.back.resize(parts.mixer.size());
}

std::string Planner::State() const {
  const Parts& parts = *parts_;
  nlohmann::json ended = nlohmann::json::array(), buffer = nlohmann::json::array(), back = nlohmann::json::array();
  for (uint16_t source = 0; source < parts.mixer.size(); ++source)
    if (parts.mixer.ended(source)) ended.push_back(source);
  const auto position = [](const SampleInfo& sample) {
    const Position& at = sample.ref.position;
    return nlohmann::json{at.epoch, at.group, at.piece, at.index};
  };
  const auto entry_of = [&](const Drawn& drawn) {
    nlohmann::json entry = position(drawn.sample);
    for (uint32_t number :
         {uint32_t{drawn.sample.ref.source}, drawn.start, drawn.length, 2 * drawn.waited + (drawn.split_now ? 1 : 0)})
      entry.push_back(number);
    for (const Member& member : drawn.rest) {
      nlohmann::json other = position(member.sample);
      other.push_back(member.length);
      entry.push_back(std::move(other));
    }
    return entry;
  };
  for (const Drawn& drawn : parts.buffer) buffer.push_back(entry_of(drawn));
  for (const std::deque<Drawn>& source : parts.back)
    for (const Drawn& drawn : source) back.push_back(entry_of(drawn));
  return nlohmann::json{{"owed", parts.mixer.owed()},
                        {"longest", parts.mixer.longest()},
                        {"ended", ended},
                        {"stopped", parts.stopped},
                        {"drawn", buffer},
                        {"back", back},
                        {"weights", parts.mixer.weights()},
                        {"truncated", parts.truncated},
                        {"dropped", parts.dropped}}
      .dump();
}

std::vector<SampleRef> Planner::Carried() const {
  std::vector<SampleRef> refs;
  const auto add = [&](const Drawn& drawn) {
    refs.push_back(drawn.sample.ref);
    for (const Member& member : drawn.rest) refs.push_back(member.sample.ref);
  };
  for (const Drawn& drawn : parts_->buffer) add(drawn);
  for (const std::deque<Drawn>& source : parts_->back)
    for (const Drawn& drawn : source) add(drawn);
  return refs;
}

Status Planner::Restore(const std::string& state) {
  Parts& parts = *parts_;
  const nlohmann::json json = nlohmann::json::parse(state, nullptr, /*allow_exceptions=*/false);
  const auto broken = [](const std::string& what) {
    return Status(Code::kCorrupt, "the planner's state in the strand's last chunk " + what);
  };
  const auto numbers = [](const nlohmann::json& list) {
    return list.is_array() &&
           std::all_of(list.begin(), list.end(), [](const nlohmann::json& n) { return n.is_number_integer(); });
  };
  if (!json.is_object() || !json.contains("owed") || !numbers(json["owed"]) || !json.contains("ended") ||
      !numbers(json["ended"]) || !json.contains("drawn") || !json["drawn"].is_array() || !json.contains("longest") ||
      !json["longest"].is_number_integer() || !json.contains("stopped") || !json["stopped"].is_boolean())
    return broken("is not what a planner writes: it needs `owed`, `ended`, `drawn`, `longest` and `stopped`");
  if (json["owed"].size() > parts.sources.size())
    return broken("knows " + std::to_string(json["owed"].size()) + " sources, and the stream has " +
                  std::to_string(parts.sources.size()));

  const nlohmann::json nothing = nlohmann::json::array();
  const nlohmann::json& back = json.contains("back") ? json["back"] : nothing;
  const nlohmann::json& weights = json.contains("weights") ? json["weights"] : nothing;
  if (!back.is_array() || !weights.is_array() ||
      !std::all_of(weights.begin(), weights.end(), [](const nlohmann::json& n) { return n.is_number(); }) ||
      weights.size() > parts.sources.size())
    return broken("has `back` or `weights` that no planner writes");

  const auto again = [&](const nlohmann::json& entry, uint16_t source) {
    return parts.feed.Again(
        {source, {entry[0].get<uint32_t>(), entry[1].get<uint32_t>(), entry[2].get<uint32_t>(), entry[3].get<uint32_t>()}});
  };
  const auto changed = [&](const SampleInfo& sample, uint64_t wanted) {
    const std::string name = sample.ref.source < parts.sources.size() ? parts.sources[sample.ref.source] : "?";
    return Status(Code::kCorrupt, "a sample of source `" + name + "` that was carried over had at least " +
                                      std::to_string(wanted) + " tokens when it was drawn and has " +
                                      std::to_string(sample.length) + " now: a transform does not do the same every time");
  };
  const auto read = [&](const nlohmann::json& entry) -> Result<Drawn> {
    if (!entry.is_array() || entry.size() < 8 || !numbers({entry.begin(), entry.begin() + 8}))
      return broken("has a carried sample without a position");
    Drawn drawn;
    const auto source = entry[4].get<uint16_t>();
    if (source >= parts.sources.size())
      return broken("carries a sample of source " + std::to_string(source) + ", which the stream does not have");
    HR_ASSIGN_OR_RETURN(drawn.sample, again(entry, source));
    drawn.start = entry[5].get<uint32_t>();
    drawn.length = entry[6].get<uint32_t>();
    drawn.waited = entry[7].get<uint32_t>() / 2;
    drawn.split_now = entry[7].get<uint32_t>() % 2 == 1;
    if (uint64_t{drawn.start} + drawn.length > drawn.sample.length)
      return changed(drawn.sample, uint64_t{drawn.start} + drawn.length);
    for (size_t i = 8; i < entry.size(); ++i) {
      if (!numbers(entry[i]) || entry[i].size() != 5) return broken("has a carried group with a sample without a position");
      Member member;
      HR_ASSIGN_OR_RETURN(member.sample, again(entry[i], source));
      member.length = entry[i][4].get<uint32_t>();
      if (member.length > member.sample.length) return changed(member.sample, member.length);
      drawn.rest.push_back(std::move(member));
    }
    return drawn;
  };
  std::vector<Drawn> buffer;
  for (const nlohmann::json& entry : json["drawn"]) {
    HR_ASSIGN_OR_RETURN(Drawn drawn, read(entry));
    buffer.push_back(std::move(drawn));
  }
  std::vector<std::deque<Drawn>> put_back(parts.sources.size());
  for (const nlohmann::json& entry : back) {
    HR_ASSIGN_OR_RETURN(Drawn drawn, read(entry));
    put_back[drawn.sample.ref.source].push_back(std::move(drawn));
  }
  parts.mixer = Mixer(parts.sources.size());
  parts.mixer.Restore(json["owed"].get<std::vector<int64_t>>(), json["ended"].get<std::vector<uint16_t>>(),
                      json["longest"].get<int64_t>(), weights.get<std::vector<double>>());
  parts.stopped = json["stopped"].get<bool>();
  parts.truncated = json.value("truncated", uint64_t{0});
  parts.dropped = json.value("dropped", uint64_t{0});
  parts.buffer = std::move(buffer);
  parts.back = std::move(put_back);
  return Status::Ok();
}

Status Planner::Parts::TooLong(const Drawn& drawn, uint32_t limit) const {
  return Status(Code::kInvalidArgument,
                "every one of the last " + std::to_string(kMostDropped) + " documents was longer than the pack's length of " +
                    std::to_string(limit) + " tokens and dropped (the last one, of source `" + sources[drawn.sample.ref.source] +
                    "`, has " + std::to_string(drawn.total()) + "): choose a greater `pack.length`, or `overflow: split`");
}

// Makes it no longer than `limit`, as `overflow` says; false if it is dropped.
bool Planner::Parts::Fit(Drawn& drawn, uint32_t limit) {
  if (!recipe.pack || method == PackMethod::kConcat || Size(drawn, align) <= limit) return true;
  switch (recipe.pack->overflow) {
    case Overflow::kSplit: return true;
    case Overflow::kDrop: dropped += 1 + drawn.rest.size(); return false;
    case Overflow::kTruncate: break;
  }
  if (drawn.rest.empty()) {
    truncated += drawn.length - limit;
    drawn.length = limit;
    return true;
  }
  // Of a group every sample may have the same; what the short ones leave goes to the long ones.
  const uint64_t before = drawn.total();
  uint32_t low = 0, high = limit;
  const Drawn whole = drawn;
  const auto cut = [&](uint32_t each) {
    drawn.length = std::min(whole.length, each);
    for (size_t i = 0; i < drawn.rest.size(); ++i) drawn.rest[i].length = std::min(whole.rest[i].length, each);
  };
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    cut(middle);
    (Size(drawn, align) <= limit ? low : high) = Size(drawn, align) <= limit ? middle : middle - 1;
  }
  cut(low);
  truncated += before - drawn.total();
  return true;
}

Result<bool> Planner::Parts::Draw() {
  for (uint64_t tries = 0; !stopped;) {
    const std::optional<uint16_t> source = mixer.Pick();
    if (!source) {
      stopped = true;
      break;
    }
    if (std::deque<Drawn>& again = back[*source]; !again.empty()) {
      buffer.push_back(std::move(again.front()));
      again.pop_front();
      mixer.Charge(*source, Amount(buffer.back()));
      return true;
    }
    HR_ASSIGN_OR_RETURN(std::optional<SampleInfo> first, feed.Next(*source));
    if (!first) {
      if (at_end[*source] == AtEnd::kStop)
        stopped = true;
      else
        mixer.End(*source);
      continue;
    }
    Drawn drawn;
    drawn.sample = *std::move(first);
    drawn.length = drawn.sample.length;
    while (drawn.rest.size() + 1 < group) {
      HR_ASSIGN_OR_RETURN(std::optional<SampleInfo> next, feed.Next(*source));
      if (!next) break;  // an incomplete group at the end of a source; that it has ended shows at the next draw
      drawn.rest.push_back({*std::move(next), 0});
      drawn.rest.back().length = drawn.rest.back().sample.length;
    }
    if (!Fit(drawn, longest)) {
      if (++tries == kMostDropped) return TooLong(drawn, longest);
      continue;
    }
    mixer.Charge(*source, Amount(drawn));
    buffer.push_back(std::move(drawn));
    return true;
  }
  return false;
}

void Planner::Parts::PutBack() {
  if (stopped) return;
  std::vector<Drawn> begun;
  for (auto drawn = buffer.rbegin(); drawn != buffer.rend(); ++drawn) {
    const uint16_t source = drawn->sample.ref.source;
    // A source that has ended is not asked again, and a document goes on where it was cut.
    if (mixer.ended(source) || drawn->start != 0) {
      begun.push_back(std::move(*drawn));
      continue;
    }
    mixer.Refund(source, Amount(*drawn));
    back[source].push_front(std::move(*drawn));
  }
  std::reverse(begun.begin(), begun.end());
  buffer = std::move(begun);
  mixer.Forgive();
}

// True if all of it found a place; else what did stays placed, and it is among those that are left.
Result<bool> Planner::Parts::Place(Layout& layout, uint32_t index, uint32_t per_lane) const {
  const Drawn& drawn = buffer[index];
  const uint32_t length = layout.bins.length();
  if (layout.done.size() <= index) {
    layout.done.resize(std::max<size_t>(buffer.size(), 2 * size_t{index} + 1), 0);
    layout.placed.resize(layout.done.size(), false);
  }
  if (drawn.rest.empty()) {
    uint32_t start = layout.done[index];
    while (true) {
      uint32_t part = std::min(drawn.length - start, length);
      if (method == PackMethod::kConcat) part = std::min(part, layout.bins.OpenRoom());
      const std::optional<Bins::Place> place = layout.bins.Put(part);
      if (!place) {
        layout.done[index] = start;
        ++layout.unfit;
        return false;
      }
      layout.pieces.push_back({index, 0, drawn.start + start, part, place->bin, place->position});
      start += part;
      if (start == drawn.length) {
        layout.done[index] = start;
        return layout.placed[index] = true;
      }
    }
  }

  // A group: whole in one sequence, or in sequences of its own that share a lane.
  const uint64_t size = Size(drawn, align);
  std::vector<Piece> pieces;
  const auto member_length = [&](uint32_t member) { return member == 0 ? drawn.length : drawn.rest[member - 1].length; };
  const auto members = static_cast<uint32_t>(1 + drawn.rest.size());
  if (size <= length) {
    const std::optional<Bins::Place> place = layout.bins.Put(static_cast<uint32_t>(size));
    if (!place) {
      ++layout.unfit;
      return false;
    }
    uint64_t position = place->position;
    for (uint32_t member = 0; member < members; ++member) {
      layout.pieces.push_back({index, member, 0, member_length(member), place->bin, static_cast<uint32_t>(position)});
      position += Aligned(member_length(member), align);
    }
    return layout.placed[index] = true;
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
    return false;
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
    const std::optional<Bins::Place> place = layout.bins.Put(length);  // takes an empty one, and all of it
    used.push_back(place->bin);
    layout.bonds[place->bin] = bond;
  }
  for (Piece& piece : pieces) {
    piece.bin = used[piece.bin];
    layout.pieces.push_back(piece);
  }
  return layout.placed[index] = true;
}

std::vector<Sequence> Planner::Parts::Build(Layout& layout) {
  const uint32_t count = layout.bins.count();
  std::vector<Sequence> sequences(count);
  std::vector<uint32_t> sizes(count, 0), earliest(count, UINT32_MAX), place(count), order(count);
  for (const Piece& piece : layout.pieces) {
    ++sizes[piece.bin];
    earliest[piece.bin] = std::min(earliest[piece.bin], piece.drawn);
  }
  // In the order of arrival of what they begin with, whatever order they were filled in.
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return earliest[a] < earliest[b]; });
  for (uint32_t i = 0; i < count; ++i) {
    place[order[i]] = i;
    sequences[i].length = layout.bins.length();
    sequences[i].pieces.reserve(sizes[order[i]]);
    sequences[i].bond = layout.bonds[order[i]];
  }
  for (const Piece& piece : layout.pieces) {
    Drawn& drawn = buffer[piece.drawn];
    SampleInfo& sample = piece.member == 0 ? drawn.sample : drawn.rest[piece.member - 1].sample;
    const bool whole = drawn.rest.empty() && piece.start == drawn.start && piece.length == drawn.length;
    sequences[place[piece.bin]].pieces.push_back({whole ? std::move(sample) : sample, piece.start, piece.length, piece.position});
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
    ++drawn.waited;
    if (kept != index) buffer[kept] = std::move(drawn);
    ++kept;
  }
  buffer.resize(kept);
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
  std::sort(order.begin(), order.end());
  for (uint64_t key : order) HR_RETURN_IF_ERROR(Place(layout, static_cast<uint32_t>(key), per_lane).status());
  return Status::Ok();
}

Result<std::optional<StepPlan>> Planner::Parts::NextPacked(uint64_t step) {
  const uint32_t length = LengthAt(*recipe.pack, step), count = recipe.StepSize(step);
  const uint32_t lanes = std::max<uint32_t>(recipe.lanes, 1), per_lane = (count + lanes - 1) / lanes;
  const uint64_t capacity = uint64_t{count} * length;
  const uint64_t goal = method == PackMethod::kConcat ? 0 : capacity / kPaddingGoal;

  size_t waiting = 0;
  for (const Drawn& drawn : buffer) waiting += Waits(drawn, length) ? 1 : 0;
  // Draws one more document; if it waits for a longer step and too many do already, it is made to fit into this one.
  const auto draw = [&]() -> Result<bool> {
    while (true) {
      HR_ASSIGN_OR_RETURN(const bool drew, Draw());
      if (!drew || !Waits(buffer.back(), length)) return drew;
      if (waiting < kMostWaiting) {
        ++waiting;
        return true;
      }
      buffer.back().split_now = true;
      if (Fit(buffer.back(), length)) return true;
      buffer.pop_back();
    }
  };

  // In order of arrival, while drawing.
  Layout online(method, count, length, align);
  const size_t most_unfit = method == PackMethod::kBestFit ? kMostLeft / 2 : method == PackMethod::kFirstFit ? kMostLeft / 4 : 1;
  uint64_t size = 0;
  for (uint32_t next = 0; method == PackMethod::kBestFit ? size < capacity : online.bins.room() > goal; ++next) {
    if (next == buffer.size()) {
      if (online.unfit >= most_unfit) break;
      HR_ASSIGN_OR_RETURN(const bool drew, draw());
      if (!drew) break;
    }
    if (Waits(buffer[next], length)) continue;
    size += Aligned(Size(buffer[next], align), align);
    HR_RETURN_IF_ERROR(Place(online, next, per_lane).status());
  }
  if (stopped && (method == PackMethod::kConcat ? online.bins.room() > 0 : size < capacity)) return std::optional<StepPlan>();

  std::optional<Layout> sorted;
  Layout* best = &online;
  if (method == PackMethod::kBestFit) {
    if (online.bins.room() > goal / 4) {
      sorted.emplace(method, count, length, align);
      HR_RETURN_IF_ERROR(FillBest(*sorted, per_lane));
      if (sorted->bins.padding() <= online.bins.padding() && sorted->unfit <= kMostLeft) best = &*sorted;
    }
    // More documents, for what is still empty.
    while (best->bins.room() > goal && best->unfit < kMostLeft) {
      HR_ASSIGN_OR_RETURN(const bool drew, draw());
      if (!drew) break;
      if (!Waits(buffer.back(), length))
        HR_RETURN_IF_ERROR(Place(*best, static_cast<uint32_t>(buffer.size() - 1), per_lane).status());
    }
  }
  StepPlan plan = PlanStep(recipe, sources.size(), length, Build(*best), cost);
  plan.truncated = std::exchange(truncated, 0);
  plan.dropped = std::exchange(dropped, 0);
  Keep(*best);
  return std::optional<StepPlan>(std::move(plan));
}

Result<std::optional<StepPlan>> Planner::Parts::NextPlain(uint64_t step) {
  const size_t wanted = std::max<uint32_t>(recipe.StepSize(step) / group, 1);
  while (buffer.size() < wanted) {
    HR_ASSIGN_OR_RETURN(const bool drew, Draw());
    if (!drew) return std::optional<StepPlan>();
  }
  std::vector<Sequence> sequences;
  sequences.reserve(wanted);
  for (size_t i = 0; i < wanted; ++i) {
    Drawn& drawn = buffer[i];
    Sequence sequence;
    sequence.length = drawn.length;
    sequence.pieces.push_back({std::move(drawn.sample), 0, drawn.length, 0});
    for (Member& member : drawn.rest) {
      sequence.pieces.push_back({std::move(member.sample), 0, member.length, sequence.length});
      sequence.length += member.length;
    }
    sequences.push_back(std::move(sequence));
  }
  buffer.erase(buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(wanted));
  return std::optional<StepPlan>(PlanStep(recipe, sources.size(), 0, std::move(sequences), cost));
}

Result<std::optional<StepPlan>> Planner::Next(uint64_t step, const MixSchedule& mix) {
  Parts& parts = *parts_;
  const std::map<std::string, double> by_name = mix.At(step);
  std::vector<double> weights(parts.sources.size(), 0);
  for (size_t i = 0; i < weights.size(); ++i)
    if (const auto found = by_name.find(parts.sources[i]); found != by_name.end()) weights[i] = found->second;
  parts.by_tokens = mix.by_tokens;
  const std::vector<double>& before = parts.mixer.weights();
  if (!mix.ramp && !std::equal(weights.begin(), weights.end(), before.begin(), before.end())) parts.PutBack();
  parts.mixer.SetWeights(weights);
  return parts.recipe.pack ? parts.NextPacked(step) : parts.NextPlain(step);
}

Result<std::vector<Sequence>> Planner::Remainder(uint64_t) {
  Parts& parts = *parts_;
  for (std::deque<Drawn>& source : parts.back) {
    std::move(source.begin(), source.end(), std::back_inserter(parts.buffer));
    source.clear();
  }
  std::vector<Sequence> sequences;
  if (!parts.recipe.pack) {
    for (Drawn& drawn : parts.buffer) {
      Sequence sequence;
      sequence.length = drawn.length;
      sequence.pieces.push_back({std::move(drawn.sample), 0, drawn.length, 0});
      for (Member& member : drawn.rest) {
        sequence.pieces.push_back({std::move(member.sample), 0, member.length, sequence.length});
        sequence.length += member.length;
      }
      sequences.push_back(std::move(sequence));
    }
    parts.buffer.clear();
    return sequences;
  }
  // Enough of them for everything, and then those that are not empty.
  uint64_t tokens = 0;
  for (const Drawn& drawn : parts.buffer) tokens += Aligned(Size(drawn, parts.align), parts.align);
  const auto most =
      static_cast<uint32_t>(std::min<uint64_t>(tokens / parts.longest * 2 + parts.buffer.size() + 1, UINT32_MAX / 2));
  Layout layout(parts.method, most, parts.longest, parts.align);
  if (parts.method == PackMethod::kBestFit) {
    HR_RETURN_IF_ERROR(parts.FillBest(layout, most));
  } else {
    for (uint32_t i = 0; i < parts.buffer.size(); ++i) HR_RETURN_IF_ERROR(parts.Place(layout, i, most).status());
  }
  sequences = parts.Build(layout);
  std::erase_if(sequences, [](const Sequence& sequence) { return sequence.pieces.empty(); });
  SetCosts(parts.recipe.cost, parts.cost, sequences);
  parts.Keep(layout);
  return sequences;
}

}  // namespace headrace
