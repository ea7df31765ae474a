#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wrestrict"  // gcc 12 warns about its own string
#endif

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

struct Outcome {
  std::vector<std::string> steps;
  std::string remainder;
  Where where;
  uint64_t truncated = 0, dropped = 0, padding = 0, tokens = 0;
  size_t largest_state = 0;
};

Outcome RunAll(const Recipe& recipe, SyntheticFeed feed, bool restore_every_step) {
  const std::vector<std::string> names = Names(recipe.sources.size());
  auto planner = std::make_unique<Planner>(recipe, names, feed);
  Outcome run;
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
void ExpectOnce(const Outcome& run, const std::vector<uint32_t>& counts, const SyntheticFeed::Lengths& lengths) {
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
  for (uint64_t step : *rc::gen::container<std::vector<uint64_t>>(rc::gen::inRange<uint64_t>(1, 12)))
    for (const SourceSpec& source : recipe.sources) recipe.mix.weights[step][source.name] = *rc::gen::inRange(1, 20);
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < sources; ++i) counts.push_back(*rc::gen::inRange<uint32_t>(0, 120));
  const auto seed = *rc::gen::inRange<uint64_t>(0, 1000);
  const SyntheticFeed::Lengths lengths = [=](uint16_t source, uint32_t number) {
    return static_cast<uint32_t>(SyntheticFeed::Mix(seed * 7919 + source * 100003u + number) % longest);
  };
  // A group that is longer than a lane is refused; the test is about the others.
  if (packed && recipe.group_size > 1) recipe.step[0] = lanes * 32;

  const Outcome straight = RunAll(recipe, SyntheticFeed(counts, lengths), false);
  const Outcome restored = RunAll(recipe, SyntheticFeed(counts, lengths), true);
  RC_ASSERT(straight.steps == restored.steps);
  RC_ASSERT(straight.remainder == restored.remainder);
  ExpectOnce(straight, counts, lengths);
  RC_ASSERT(!::testing::Test::HasFailure());
}

// The first `steps` steps of an endless feed.
Outcome RunSome(const Recipe& recipe, const SyntheticFeed::Lengths& lengths, uint64_t steps,
                std::vector<StepPlan>* plans = nullptr) {
  SyntheticFeed feed(std::vector<uint32_t>(recipe.sources.size(), UINT32_MAX), lengths);
  Planner planner(recipe, Names(recipe.sources.size()), feed);
  Outcome run;
  for (uint64_t step = 0; step < steps; ++step) {
    auto plan = planner.Next(step, recipe.mix);
    EXPECT_TRUE(plan.ok() && plan->has_value());
    if (!plan.ok() || !*plan) break;
    run.padding += (*plan)->padding;
    run.tokens += uint64_t{(*plan)->length} * recipe.StepSize(step);
    run.truncated += (*plan)->truncated;
    run.dropped += (*plan)->dropped;
    run.largest_state = std::max(run.largest_state, planner.State().size());
    Note(**plan, recipe.pack.has_value(), recipe.pack ? recipe.pack->align : 1, run.where);
    if (plans) plans->push_back(**std::move(plan));
  }
  return run;
}

double Padding(const Outcome& run) { return static_cast<double>(run.padding) / static_cast<double>(run.tokens); }

TEST(Planner, LeavesLessThanOnePercentOfALongTailEmpty) {
  for (const uint32_t sequences : {1u, 8u, 64u, 256u})
    for (const double deviation : {0.7, 1.2, 1.8}) {
      Recipe recipe = MakeRecipe(2, 1, sequences, 8192);
      const Outcome run = RunSome(recipe, SyntheticFeed::Lognormal(6.5, deviation, 65536), sequences > 64 ? 5 : 25);
      EXPECT_LT(Padding(run), 0.01) << sequences << " sequences, deviation " << deviation;
      EXPECT_LT(run.largest_state, 24'000u);
    }
  Recipe recipe = MakeRecipe(2, 1, 64, 8192);
  recipe.pack->method = PackMethod::kFirstFit;
  EXPECT_LT(Padding(RunSome(recipe, SyntheticFeed::Lognormal(6.5, 1.2, 65536), 20)), 0.01);
  recipe.pack->method = PackMethod::kConcat;
  EXPECT_EQ(RunSome(recipe, SyntheticFeed::Lognormal(6.5, 1.2, 65536), 20).padding, 0u);
}

TEST(Planner, CarriesSomeHundredsOfReferencesWhateverTheLengthsAre) {
  for (const uint32_t only : {1u, 300u, 500u, 513u, 700u, 1023u, 1024u, 1025u, 5000u}) {
    Recipe recipe = MakeRecipe(1, 4, 512, 1024);
    if (only < 300) recipe.step[0] = 4;
    EXPECT_LT(RunSome(recipe, [=](uint16_t, uint32_t) { return only; }, 3).largest_state, 24'000u) << only;
    recipe.pack->lengths = {{1024, 0.9}, {4096, 0.1}};
    recipe.step[0] = only < 300 ? 4 : 64;
    EXPECT_LT(RunSome(recipe, [=](uint16_t, uint32_t) { return only; }, 12).largest_state, 40'000u) << only;
  }
}

// As many tokens as can be had in `bins` of `length`, by looking at every choice.
uint64_t MostTokens(const std::vector<uint32_t>& documents, std::vector<uint32_t> room, size_t from = 0) {
  if (from == documents.size()) return 0;
  uint64_t best = MostTokens(documents, room, from + 1);
  for (size_t bin = 0; bin < room.size(); ++bin) {
    if (room[bin] < documents[from] || std::find(room.begin(), room.begin() + static_cast<ptrdiff_t>(bin), room[bin]) !=
                                           room.begin() + static_cast<ptrdiff_t>(bin))
      continue;
    room[bin] -= documents[from];
    best = std::max(best, documents[from] + MostTokens(documents, room, from + 1));
    room[bin] += documents[from];
  }
  return best;
}

TEST(Planner, PacksTinyStepsNearlyAsWellAsCanBe) {
  double sum = 0, worst = 0;
  int cases = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto lengths = [=](uint16_t, uint32_t number) {
      return static_cast<uint32_t>(1 + SyntheticFeed::Mix(seed * 131 + number) % 60);
    };
    std::vector<uint32_t> documents;
    uint64_t total = 0;
    for (uint32_t i = 0; i < 9; ++i) {
      documents.push_back(lengths(0, i));
      total += documents.back();
    }
    if (total < 200) continue;
    Recipe recipe = MakeRecipe(1, 1, 2, 100);
    SyntheticFeed feed({9}, lengths);
    Planner planner(recipe, Names(1), feed);
    auto plan = planner.Next(0, recipe.mix);
    ASSERT_TRUE(plan.ok() && plan->has_value());
    const double lost = static_cast<double>(MostTokens(documents, {100, 100}) - (200 - (*plan)->padding)) / 200;
    sum += lost;
    worst = std::max(worst, lost);
    ++cases;
  }
  EXPECT_GT(cases, 100);
  EXPECT_LT(sum / cases, 0.04);
  EXPECT_LT(worst, 0.25);
}

TEST(Planner, ChangesTheMixtureAtTheVeryStep) {
  Recipe recipe = MakeRecipe(2, 2, 100, 0);
  recipe.mix.by_tokens = false;
  recipe.mix.weights = {{0, {{"s0", 1}}}, {5, {{"s0", 0.25}, {"s1", 0.75}}}, {7, {{"s1", 1}}}};
  std::vector<StepPlan> plans;
  RunSome(recipe, [](uint16_t, uint32_t) { return 10u; }, 9, &plans);
  const std::vector<uint64_t> want = {100, 100, 100, 100, 100, 25, 25, 0, 0};
  for (size_t i = 0; i < 9; ++i)
    EXPECT_NEAR(static_cast<double>(plans[i].samples[0]), static_cast<double>(want[i]), want[i] == 25 ? 1 : 0) << i;

  recipe.mix.ramp = true;
  recipe.mix.weights = {{0, {{"s0", 1}, {"s1", 0}}}, {10, {{"s0", 0}, {"s1", 1}}}};
  plans.clear();
  RunSome(recipe, [](uint16_t, uint32_t) { return 10u; }, 12, &plans);
  for (size_t i = 0; i < 12; ++i)
    EXPECT_NEAR(static_cast<double>(plans[i].samples[0]), 100.0 - 10.0 * static_cast<double>(std::min<size_t>(i, 10)), 1) << i;
}

TEST(Planner, ChangesTheMixtureAtTheVeryStepWhenPacked) {
  constexpr uint32_t kLongest = 4000;
  for (const PackMethod method : {PackMethod::kBestFit, PackMethod::kFirstFit, PackMethod::kConcat}) {
    Recipe recipe = MakeRecipe(3, 4, 64, 2048);
    recipe.pack->method = method;
    recipe.mix.weights = {{0, {{"s0", 0.8}, {"s1", 0.1}, {"s2", 0.1}}},
                          {10, {{"s0", 0.1}, {"s1", 0.8}, {"s2", 0.1}}},
                          {11, {{"s0", 0.5}, {"s1", 0}, {"s2", 0.5}}},
                          {14, {{"s0", 0.1}, {"s1", 0.8}, {"s2", 0.1}}}};
    std::vector<StepPlan> plans;
    RunSome(recipe, SyntheticFeed::Lognormal(6, 1.2, kLongest), 20, &plans);
    for (uint64_t step : {9, 10, 11, 13, 14, 15}) {
      const std::map<std::string, double> weights = recipe.mix.At(step);
      for (size_t source = 0; source < 3; ++source) {
        const auto wanted = weights.find("s" + std::to_string(source));
        const double share = static_cast<double>(plans[step].tokens[source]) / (64 * 2048);
        // A longest document for the mixer; another for those that the step before had begun, or that this one leaves behind.
        EXPECT_NEAR(share, wanted == weights.end() ? 0 : wanted->second, 2.0 * kLongest / (64 * 2048))
            << "step " << step << ", source " << source << ", method " << static_cast<int>(method);
      }
    }
  }
}

TEST(Planner, FollowsWeightsByTokensWhenPacked) {
  Recipe recipe = MakeRecipe(3, 4, 64, 2048);
  recipe.mix.weights[0] = {{"s0", 0.6}, {"s1", 0.3}, {"s2", 0.1}};
  const auto lengths = [inner = SyntheticFeed::Lognormal(5.5, 1.0, 8000)](uint16_t source, uint32_t number) {
    return inner(source, number) * (source + 1);
  };
  std::vector<StepPlan> plans;
  RunSome(recipe, lengths, 20, &plans);
  double tokens[3] = {}, all = 0;
  for (const StepPlan& plan : plans)
    for (size_t i = 0; i < 3; ++i) {
      tokens[i] += static_cast<double>(plan.tokens[i]);
      all += static_cast<double>(plan.tokens[i]);
    }
  EXPECT_NEAR(tokens[0] / all, 0.6, 0.01);
  EXPECT_NEAR(tokens[1] / all, 0.3, 0.01);
  EXPECT_NEAR(tokens[2] / all, 0.1, 0.01);
}

TEST(Planner, AtTheEndOfASourceOthersGoOnOrTheStrandEnds) {
  Recipe recipe = MakeRecipe(2, 1, 10, 0);
  const auto ten = [](uint16_t, uint32_t) { return 10u; };
  EXPECT_EQ(RunAll(recipe, SyntheticFeed({20, 80}, ten), false).steps.size(), 10u);
  recipe.sources[0].at_end = AtEnd::kStop;
  const Outcome stopped = RunAll(recipe, SyntheticFeed({20, 80}, ten), true);
  EXPECT_EQ(stopped.steps.size(), 4u);
  EXPECT_EQ(stopped.where.size(), 40u + 0u);  // the forty-first would have been the first source's
}

TEST(Planner, TruncatesOrDropsWhatIsTooLongAndCountsIt) {
  Recipe recipe = MakeRecipe(1, 1, 4, 100);
  const auto lengths = [](uint16_t, uint32_t number) { return number % 10 == 0 ? 250u : 25u; };
  recipe.pack->overflow = Overflow::kTruncate;
  Outcome run = RunSome(recipe, lengths, 10);
  EXPECT_GT(run.truncated, 0u);
  EXPECT_EQ(run.truncated % 150, 0u);
  for (const auto& [ref, intervals] : run.where)
    ASSERT_EQ(intervals, (std::vector<std::pair<uint32_t, uint32_t>>{{0, ref.position.index % 10 == 0 ? 100u : 25u}}));
  recipe.pack->overflow = Overflow::kDrop;
  run = RunSome(recipe, lengths, 10);
  EXPECT_GT(run.dropped, 10u);
  for (const auto& [ref, intervals] : run.where) ASSERT_NE(ref.position.index % 10, 0u);

  SyntheticFeed feed({UINT32_MAX}, [](uint16_t, uint32_t) { return 101u; });
  Planner planner(recipe, Names(1), feed);
  const auto plan = planner.Next(0, recipe.mix);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.status().message().find("longer than the pack's length of 100"), std::string::npos);
}

TEST(Planner, KeepsGroupsInOneLane) {
  for (const uint32_t length : {0u, 64u, 256u})
    for (const auto overflow : {Overflow::kSplit, Overflow::kTruncate}) {
      Recipe recipe = MakeRecipe(2, 4, 96, length);
      recipe.group_size = 3;
      if (length > 0) recipe.pack->overflow = overflow;
      std::vector<StepPlan> plans;
      RunSome(
          recipe,
          [](uint16_t source, uint32_t number) {
            return static_cast<uint32_t>(SyntheticFeed::Mix(source * 1000u + number) % 90);
          },
          10, &plans);
      ASSERT_EQ(plans.size(), 10u);
      for (const StepPlan& plan : plans) {
        std::map<std::pair<uint16_t, uint32_t>, std::set<size_t>> lanes;
        std::map<std::pair<uint16_t, uint32_t>, std::set<uint32_t>> members;
        for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
          if (length > 0) {
            ASSERT_EQ(plan.lanes[lane].size(), 24u);
          }

          for (const Sequence& sequence : plan.lanes[lane])
            for (const Placed& piece : sequence.pieces) {
              const auto group = std::make_pair(piece.sample.ref.source, piece.sample.ref.position.index / 3);
              lanes[group].insert(lane);
              members[group].insert(piece.sample.ref.position.index);
            }
        }
        for (const auto& [group, in] : lanes) ASSERT_EQ(in.size(), 1u);
        for (const auto& [group, all] : members) ASSERT_EQ(all.size(), 3u);
      }
    }
}

TEST(Planner, StepsOfSeveralLengthsHaveTheirSharesAndTheirDocuments) {
  Recipe recipe = MakeRecipe(1, 2, 16, 0);
  recipe.pack.emplace();
  recipe.pack->lengths = {{1024, 0.8}, {8192, 0.2}};
  for (const uint64_t every : {1u, 7u, 16u}) {  // also of a strand that makes every n-th step only
    int longer = 0;
    for (uint64_t i = 0; i < 1000; ++i) longer += LengthAt(*recipe.pack, i * every) == 8192 ? 1 : 0;
    EXPECT_NEAR(longer, 200, 6) << every;
  }
  std::vector<StepPlan> plans;
  const Outcome run = RunSome(recipe, SyntheticFeed::Lognormal(5.5, 1.3, 8000), 100, &plans);
  EXPECT_LT(Padding(run), 0.01);
  for (const auto& [ref, intervals] : run.where)
    ASSERT_EQ(intervals.size(), 1u) << "a document that a longer step has room for was cut";
}

TEST(Planner, NoDocumentWaitsForEver) {
  // Long ones that go well together, and a few of a size that never does.
  Recipe recipe = MakeRecipe(1, 1, 2, 100);
  std::vector<StepPlan> plans;
  RunSome(recipe, [](uint16_t, uint32_t number) { return number % 8 == 3 ? 1u + number % 3 : 50u; }, 200, &plans);
  uint32_t newest = 0;
  std::set<uint32_t> placed;
  for (const StepPlan& plan : plans)
    for (const Sequence& sequence : plan.lanes[0])
      for (const Placed& piece : sequence.pieces) {
        placed.insert(piece.sample.ref.position.index);
        newest = std::max(newest, piece.sample.ref.position.index);
      }
  uint32_t oldest_missing = 0;
  while (placed.contains(oldest_missing)) ++oldest_missing;
  EXPECT_LT(newest - oldest_missing, 600u);
}

TEST(Planner, SourcesCanBeAddedBetweenSteps) {
  Recipe recipe = MakeRecipe(1, 1, 10, 0);
  SyntheticFeed feed({UINT32_MAX, UINT32_MAX}, [](uint16_t, uint32_t) { return 10u; });
  Planner planner(recipe, Names(1), feed);
  ASSERT_TRUE(planner.Next(0, recipe.mix).ok());
  const std::string state = planner.State();
  Planner other(recipe, Names(2), feed);
  ASSERT_TRUE(other.Restore(state).ok());
  planner.SetSources(Names(2));
  MixSchedule mix = recipe.mix;
  mix.weights[0] = {{"s0", 0.5}, {"s1", 0.5}};
  const auto positions = feed.positions();
  const auto one = planner.Next(1, mix);
  feed.Seek(positions);
  const auto two = other.Next(1, mix);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ((*one)->samples, (std::vector<uint64_t>{5, 5}));
  EXPECT_EQ(Text(**one), Text(**two));
}

TEST(Planner, RefusesAStateThatIsNotOne) {
  Recipe recipe = MakeRecipe(1, 1, 10, 100);
  SyntheticFeed feed({100}, [](uint16_t, uint32_t) { return 10u; });
  Planner planner(recipe, Names(1), feed);
  const std::string good =
      R"({"back":[[0,0,0,4,0,0,10,0]],"drawn":[[0,0,0,3,0,0,10,0]],"dropped":0,"ended":[],"longest":1,"owed":[0],)"
      R"("stopped":false,"truncated":0,"weights":[0.5]})";
  EXPECT_TRUE(planner.Restore(good).ok());
  EXPECT_EQ(planner.State(), good);
  for (const char* bad : {"", "[]", "{}", R"({"drawn":[[1]],"ended":[],"longest":1,"owed":[0],"stopped":false})",
                          R"({"drawn":[[0,0,0,3,9,0,10,0]],"ended":[],"longest":1,"owed":[0],"stopped":false})",
                          R"({"drawn":[[0,0,0,3,0,0,10,0,[1,2]]],"ended":[],"longest":1,"owed":[0],"stopped":false})",
                          R"({"drawn":[],"ended":[],"longest":1,"owed":[0,0],"stopped":false})",
                          R"({"back":[[0,0,0,3,9,0,10,0]],"drawn":[],"ended":[],"longest":1,"owed":[0],"stopped":false})",
                          R"({"weights":["x"],"drawn":[],"ended":[],"longest":1,"owed":[0],"stopped":false})",
                          R"({"weights":[1,2],"drawn":[],"ended":[],"longest":1,"owed":[0],"stopped":false})"})
    EXPECT_EQ(planner.Restore(bad).code(), Code::kCorrupt) << bad;
  const Status changed = planner.Restore(R"({"drawn":[[0,0,0,3,0,0,11,0]],"ended":[],"longest":1,"owed":[0],"stopped":false})");
  EXPECT_NE(changed.message().find("does not do the same every time"), std::string::npos);
}

}  // namespace
}  // namespace headrace
