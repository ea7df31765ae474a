#include "plan/planner.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "plan/balance.h"
#include "plan/synthetic_feed.h"

namespace headrace {
namespace {

std::vector<std::string> Names(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back("s" + std::to_string(i));
  return names;
}

Recipe MakeRecipe(size_t sources, uint32_t lanes, uint32_t sequences, uint32_t length) {
  Recipe recipe;
  recipe.lanes = lanes;
  recipe.step[0] = sequences;
  if (length > 0) {
    recipe.pack.emplace();
    recipe.pack->lengths = {{length, 1}};
  }
  for (const std::string& name : Names(sources)) {
    recipe.sources.emplace_back();
    recipe.sources.back().name = name;
    recipe.mix.weights[0][name] = 1.0 / static_cast<double>(sources);
  }
  return recipe;
}

using Where = std::map<SampleRef, std::vector<std::pair<uint32_t, uint32_t>>>;  // intervals of each sample

void Note(const Sequence& sequence, bool packed, uint32_t align, Where& where) {
  uint64_t end = 0;
  std::vector<Placed> pieces = sequence.pieces;
  std::sort(pieces.begin(), pieces.end(), [](const Placed& a, const Placed& b) { return a.position < b.position; });
  for (const Placed& piece : pieces) {
    where[piece.sample.ref].emplace_back(piece.start, piece.length);
    if (!packed) continue;
    ASSERT_GE(piece.position, end) << "documents overlap";
    ASSERT_EQ(piece.position % align, 0u);
    end = uint64_t{piece.position} + piece.length;
    ASSERT_LE(end, sequence.length);
  }
}

void Note(const StepPlan& plan, bool packed, uint32_t align, Where& where) {
  for (const auto& lane : plan.lanes)
    for (const Sequence& sequence : lane) Note(sequence, packed, align, where);
}

// A step as text, to compare plans with.
std::string Text(const StepPlan& plan) {
  std::string text = std::to_string(plan.length) + ":";
  for (const auto& lane : plan.lanes) {
    text += "[";
    for (const Sequence& sequence : lane) {
      text += "(";
      for (const Placed& piece : sequence.pieces)
        for (uint32_t number :
             {uint32_t{piece.sample.ref.source}, piece.sample.ref.position.index, piece.start, piece.length, piece.position})
          text += std::to_string(number) + ",";
      text += ")";
    }
    text += "]";
  }
  return text + std::to_string(plan.truncated) + "/" + std::to_string(plan.dropped);
}

struct Run {
  std::vector<std::string> steps;
  std::string remainder;
  Where where;
  uint64_t truncated = 0, dropped = 0, padding = 0, tokens = 0;
  size_t largest_state = 0;
};

Run RunAll(const Recipe& recipe, SyntheticFeed feed, bool restore_every_step) {
  const std::vector<std::string> names = Names(recipe.sources.size());
  auto planner = std::make_unique<Planner>(recipe, names, feed);
  Run run;
  const uint32_t align = recipe.pack ? recipe.pack->align : 1;
  for (uint64_t step = 0; step < 10000; ++step) {
    auto plan = planner->Next(step, recipe.mix);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    if (!plan.ok() || !*plan) break;
    run.steps.push_back(Text(**plan));
    Note(**plan, recipe.pack.has_value(), align, run.where);
    run.truncated += (*plan)->truncated;
    run.dropped += (*plan)->dropped;
    run.padding += (*plan)->padding;
    run.tokens += uint64_t{(*plan)->length} * recipe.StepSize(step);
    const std::string state = planner->State();
    run.largest_state = std::max(run.largest_state, state.size());
    if (restore_every_step) {
      planner = std::make_unique<Planner>(recipe, names, feed);
      const Status restored = planner->Restore(state);
      EXPECT_TRUE(restored.ok()) << restored.message();
      EXPECT_EQ(planner->State(), state);
    }
  }
  auto rest = planner->Remainder(run.steps.size());
  EXPECT_TRUE(rest.ok());
  StepPlan last;
  last.lanes.push_back(*rest);
  run.remainder = Text(last);
  Note(last, recipe.pack.has_value(), align, run.where);
  return run;
}

// Every token of every sample exactly once.
void ExpectOnce(const Run& run, const std::vector<uint32_t>& counts, const SyntheticFeed::Lengths& lengths) {
  for (uint16_t source = 0; source < counts.size(); ++source)
    for (uint32_t number = 0; number < counts[source]; ++number) {
      auto found = run.where.find({source, {0, 0, 0, number}});
      ASSERT_NE(found, run.where.end()) << "sample " << number << " of source " << source << " is nowhere";
      auto intervals = found->second;
      std::sort(intervals.begin(), intervals.end());
      uint32_t at = 0;
      for (const auto& [start, length] : intervals) {
        ASSERT_EQ(start, at);
        at += length;
      }
      ASSERT_EQ(at, lengths(source, number));
    }
}

RC_GTEST_PROP(Planner, PlacesEveryTokenOnceAndTheSameAfterEveryRestore, ()) {
  const auto sources = *rc::gen::inRange<size_t>(1, 5);
  const auto lanes = *rc::gen::element<uint32_t>(1, 2, 4);
  const auto per_lane = *rc::gen::inRange<uint32_t>(1, 5);
  const bool packed = *rc::gen::weightedElement<bool>({{4, true}, {1, false}});
  Recipe recipe = MakeRecipe(sources, lanes, lanes * per_lane, packed ? 64 : 0);
  recipe.group_size = *rc::gen::weightedElement<uint32_t>({{3, 1}, {1, 2}, {1, 3}});
  if (!packed) recipe.step[0] *= recipe.group_size;
  const auto longest = *rc::gen::element<uint32_t>(20, 70, 300);
  if (packed) {
    recipe.pack->method = *rc::gen::element(PackMethod::kBestFit, PackMethod::kFirstFit, PackMethod::kConcat);
    recipe.pack->align = *rc::gen::element<uint32_t>(1, 4, 16);
    if (*rc::gen::arbitrary<bool>()) recipe.pack->lengths = {{32, 0.7}, {128, 0.3}};
  }
  recipe.mix.by_tokens = *rc::gen::arbitrary<bool>();
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < sources; ++i) counts.push_back(*rc::gen::inRange<uint32_t>(0, 120));
  const auto seed = *rc::gen::inRange<uint64_t>(0, 1000);
  const SyntheticFeed::Lengths lengths = [=](uint16_t source, uint32_t number) {
    return static_cast<uint32_t>(SyntheticFeed::Mix(seed * 7919 + source * 100003u + number) % longest);
  };
  // A group that is longer than a lane is refused; the test is about the others.
  if (packed && recipe.group_size > 1) recipe.step[0] = lanes * 32;

  const Run straight = RunAll(recipe, SyntheticFeed(counts, lengths), false);
  const Run restored = RunAll(recipe, SyntheticFeed(counts, lengths), true);
  RC_ASSERT(straight.steps == restored.steps);
  RC_ASSERT(straight.remainder == restored.remainder);
  ExpectOnce(straight, counts, lengths);
  RC_ASSERT(!::testing::Test::HasFailure());
}

}  // namespace
}  // namespace headrace
