#include "plan/planner.h"

#include <algorithm>

#include "plan/cost.h"
#include "plan/planner_parts.h"

namespace headrace {
namespace {

// Documents that a step may leave behind: enough to choose from, few enough for a chunk's footer.
constexpr size_t kMostLeft = 256;
// Documents that wait for a step of greater length.
constexpr size_t kMostWaiting = 256;
// More documents are looked at as long as more than one token in this many is padding.
constexpr uint64_t kPaddingGoal = 400;
// So many documents in a row that `overflow: drop` refuses are a mistake, not a corpus.
constexpr uint64_t kMostDropped = 100'000;

}  // namespace

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

Status Planner::Parts::TooLong(const Drawn& drawn, uint32_t limit) const {
  return Status(Code::kInvalidArgument,
                "every one of the last " + std::to_string(kMostDropped) + " documents was longer than the pack's length of " +
                    std::to_string(limit) + " tokens and dropped (the last one, of source `" + sources[drawn.sample.ref.source] +
                    "`, has " + std::to_string(drawn.total()) + "): choose a greater `pack.length`, or `overflow: split`");
}

bool Planner::Parts::FitLong(Drawn& drawn, uint32_t limit) {
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

bool Planner::Parts::Draw() {
  for (uint64_t tries = 0; !stopped;) {
    const uint32_t picked = mixer.Pick();
    if (picked == Mixer::kNobody) {
      stopped = true;
      break;
    }
    const auto source = static_cast<uint16_t>(picked);
    // Where it will stay; taken away again if nothing comes of it.
    Drawn& drawn = buffer.Add();
    if (backs > 0 && !back[source].empty()) {
      drawn = std::move(back[source].front());
      back[source].pop_front();
      --backs;
      mixer.Charge(source, Amount(drawn));
      return true;
    }
    if (Result<bool> some = feed.Next(source, drawn.sample); !some.ok() || !*some) {
      buffer.RemoveLast();
      if (!Nothing(source, std::move(some))) return false;
      continue;
    }
    drawn.length = drawn.sample.length;
    if (group > 1 && !DrawRest(source, drawn)) {
      buffer.RemoveLast();
      return false;
    }
    if (!Fit(drawn, longest)) {
      buffer.RemoveLast();
      if (++tries < kMostDropped) continue;
      failure = TooLong(drawn, longest);
      return false;
    }
    mixer.Charge(source, Amount(drawn));
    return true;
  }
  return false;
}

bool Planner::Parts::Nothing(uint16_t source, Result<bool> some) {
  if (!some.ok()) {
    failure = std::move(some).status();
    return false;
  }
  if (at_end[source] == AtEnd::kStop)
    stopped = true;
  else
    mixer.End(source);
  return !stopped;
}

bool Planner::Parts::DrawRest(uint16_t source, Drawn& drawn) {
  while (drawn.rest.size() + 1 < group) {
    Member member;
    Result<bool> next = feed.Next(source, member.sample);
    if (!next.ok()) {
      failure = std::move(next).status();
      return false;
    }
    if (!*next) break;  // an incomplete group at the end of a source; that it has ended shows at the next draw
    member.length = member.sample.length;
    drawn.rest.push_back(std::move(member));
  }
  return true;
}

void Planner::Parts::PutBack() {
  if (stopped) return;
  std::vector<Drawn> begun;
  for (size_t i = buffer.size(); i-- > 0;) {
    Drawn& drawn = buffer[i];
    const uint16_t source = drawn.sample.ref.source;
    // A source that has ended is not asked again, and a document goes on where it was cut.
    if (mixer.ended(source) || drawn.start != 0) {
      begun.push_back(std::move(drawn));
      continue;
    }
    mixer.Refund(source, Amount(drawn));
    back[source].push_front(std::move(drawn));
    ++backs;
  }
  buffer.KeepFirst(0);
  while (!begun.empty()) {
    buffer.Add(std::move(begun.back()));
    begun.pop_back();
  }
  mixer.Forgive();
}

Result<std::optional<StepPlan>> Planner::Parts::NextPacked(uint64_t step) {
  const uint32_t length = LengthAt(*recipe.pack, step), count = recipe.StepSize(step);
  const uint32_t lanes = std::max<uint32_t>(recipe.lanes, 1), per_lane = (count + lanes - 1) / lanes;
  const uint64_t capacity = uint64_t{count} * length;
  const uint64_t goal = method == PackMethod::kConcat ? 0 : capacity / kPaddingGoal;

  size_t waiting = 0;
  for (const Drawn& drawn : buffer) waiting += Waits(drawn, length) ? 1 : 0;
  // Draws one more document; if it waits for a longer step and too many do already, it is made to fit into this one.
  const auto draw = [&]() {
    while (true) {
      if (!DrawPlain()) return false;
      if (!Waits(buffer.back(), length)) return true;
      if (waiting < kMostWaiting) {
        ++waiting;
        return true;
      }
      buffer.back().split_now = true;
      if (Fit(buffer.back(), length)) return true;
      buffer.RemoveLast();
    }
  };

  // In order of arrival, while drawing.
  online.Reset(method, count, length, align);
  const size_t most_unfit = method == PackMethod::kBestFit ? kMostLeft / 2 : method == PackMethod::kFirstFit ? kMostLeft / 4 : 1;
  uint64_t size = 0;
  for (uint32_t next = 0; method == PackMethod::kBestFit ? size < capacity : online.bins.room() > goal; ++next) {
    if (next == buffer.size()) {
      if (online.unfit >= most_unfit) break;
      if (!draw()) break;
    }
    if (Waits(buffer[next], length)) continue;
    size += Aligned(Size(buffer[next], align), align);
    HR_RETURN_IF_ERROR(Place(online, next, per_lane));
  }
  HR_RETURN_IF_ERROR(std::exchange(failure, Status::Ok()));
  if (stopped && (method == PackMethod::kConcat ? online.bins.room() > 0 : size < capacity)) return std::optional<StepPlan>();

  Layout* best = &online;
  if (method == PackMethod::kBestFit) {
    if (online.bins.room() > goal / 4) {
      sorted.Reset(method, count, length, align);
      HR_RETURN_IF_ERROR(FillBest(sorted, per_lane));
      if (sorted.bins.padding() <= online.bins.padding() && sorted.unfit <= kMostLeft) best = &sorted;
    }
    // More documents, for what is still empty.
    while (best->bins.room() > goal && best->unfit < kMostLeft) {
      if (!draw()) break;
      if (!Waits(buffer.back(), length)) HR_RETURN_IF_ERROR(Place(*best, static_cast<uint32_t>(buffer.size() - 1), per_lane));
    }
    HR_RETURN_IF_ERROR(std::exchange(failure, Status::Ok()));
  }
  StepMaker maker(recipe, sources.size(), length, cost);
  std::vector<Sequence> sequences = Build(*best, &maker);
  StepPlan plan = maker.Make(std::move(sequences));
  plan.truncated = std::exchange(truncated, 0);
  plan.dropped = std::exchange(dropped, 0);
  Keep(*best);
  return std::optional<StepPlan>(std::move(plan));
}

Result<std::optional<StepPlan>> Planner::Parts::NextPlain(uint64_t step) {
  const size_t wanted = std::max<uint32_t>(recipe.StepSize(step) / group, 1);
  while (buffer.size() < wanted) {
    if (DrawPlain()) continue;
    HR_RETURN_IF_ERROR(std::exchange(failure, Status::Ok()));
    return std::optional<StepPlan>();
  }
  std::vector<Sequence> sequences;
  sequences.reserve(wanted);
  for (size_t i = 0; i < wanted; ++i) sequences.push_back(buffer[i].Whole());
  buffer.RemoveFirst(wanted);
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
    for (Drawn& drawn : source) parts.buffer.Add(std::move(drawn));
    source.clear();
  }
  parts.backs = 0;
  std::vector<Sequence> sequences;
  if (!parts.recipe.pack) {
    for (Drawn& drawn : parts.buffer) sequences.push_back(drawn.Whole());
    parts.buffer.KeepFirst(0);
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
    for (uint32_t i = 0; i < parts.buffer.size(); ++i) HR_RETURN_IF_ERROR(parts.Place(layout, i, most));
  }
  sequences = parts.Build(layout, nullptr);
  std::erase_if(sequences, [](const Sequence& sequence) { return sequence.pieces.empty(); });
  SetCosts(parts.recipe.cost, parts.cost, sequences);
  parts.Keep(layout);
  return sequences;
}

}  // namespace headrace
