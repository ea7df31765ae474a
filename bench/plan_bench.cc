// What planning costs, and what it brings: time per step, padding, spread over lanes. No lake and no store: a feed that makes lengths up.
//
//   plan_bench [--steps N] [--only TEXT]   only the rows whose name has the text
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <numeric>

#include "plan/balance.h"
#include "plan/bins.h"
#include "plan/mixer.h"
#include "plan/planner.h"
#include "plan/summary.h"
#include "plan/synthetic_feed.h"

namespace headrace {
namespace {

// Of this thread's own time on a processor, so that whoever else works on the machine is not measured.
double Milliseconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

// Lengths that were made up before, so that making them up is not measured.
SyntheticFeed::Lengths Table(const SyntheticFeed::Lengths& lengths) {
  std::vector<uint32_t> table(1 << 20);
  for (uint32_t i = 0; i < table.size(); ++i) table[i] = lengths(0, i);
  return [table = std::move(table)](uint16_t source, uint32_t number) {
    return table[(uint64_t{source} * 7919 + number) & (table.size() - 1)];
  };
}

// A part of the names of the rows that are wanted.
const char* only = "";

void Steps(const char* what, const Recipe& recipe, const SyntheticFeed::Lengths& lengths, uint64_t steps) {
  if (std::strstr(what, only) == nullptr) return;
  std::vector<std::string> names;
  for (const SourceSpec& source : recipe.sources) names.push_back(source.name);
  SyntheticFeed feed(std::vector<uint32_t>(names.size(), UINT32_MAX), lengths);
  Planner planner(recipe, names, feed);
  PlanSummary summary;
  std::vector<double> times;
  double excess = 0, documents = 0;
  size_t state = 0;
  for (uint64_t step = 0; step < steps; ++step) {
    const double start = Milliseconds();
    Result<std::optional<StepPlan>> plan = planner.Next(step, recipe.mix);
    times.push_back(Milliseconds() - start);
    if (!plan.ok() || !*plan) {
      std::printf("%s: no step %llu\n", what, static_cast<unsigned long long>(step));
      return;
    }
    double sum = 0, largest_lane = 0, largest_item = 0;
    for (uint64_t samples : (*plan)->samples) documents += static_cast<double>(samples);
    for (const auto& lane : (*plan)->lanes) {
      double here = 0;
      for (const Sequence& sequence : lane) {
        here += sequence.cost;
        largest_item = std::max(largest_item, sequence.cost);
      }
      sum += here;
      largest_lane = std::max(largest_lane, here);
    }
    excess = std::max(excess, largest_lane / std::max(sum / recipe.lanes, largest_item));
    summary.Add(**plan);
    state = std::max(state, planner.State().size());
  }
  std::sort(times.begin(), times.end());
  documents /= static_cast<double>(steps);
  std::printf("| %s | %.2f | %.2f | %.0f | %.0f | %.2f %% | %.3f | %.3f | %.4f | %.1f |\n", what, times[times.size() / 2],
              times.back(), documents, times[times.size() / 2] * 1e6 / documents, 100 * summary.PaddingShare(),
              summary.MeanBefore(), summary.MeanAfter(), excess, static_cast<double>(state) / 1000);
}

// What no plan of this kind can do without: the next source depends on the length of the document before, and its place on the places before.
void Alone(size_t sources, uint32_t length, const SyntheticFeed::Lengths& lengths) {
  constexpr uint32_t kDocuments = 190'000;
  std::vector<double> weights;
  for (size_t i = 0; i < sources; ++i) weights.push_back(1.0 / static_cast<double>(i + 1));
  Mixer mixer(sources);
  mixer.SetWeights(weights);
  SyntheticFeed feed(std::vector<uint32_t>(sources, UINT32_MAX), lengths);
  std::vector<uint32_t> drawn(kDocuments);
  Bins bins;
  std::vector<double> drawing, placing;
  for (int round = 0; round < 9; ++round) {
    double start = Milliseconds();
    uint64_t tokens = 0;
    for (uint32_t& document : drawn) {
      const auto source = static_cast<uint16_t>(mixer.Pick());
      SampleInfo sample;
      if (!feed.Next(source, sample).ok()) return;
      mixer.Charge(source, sample.length);
      tokens += document = std::min(sample.length, length);
    }
    drawing.push_back(Milliseconds() - start);
    bins.Reset(PackMethod::kBestFit, static_cast<uint32_t>(tokens / length + 1), length, 1);
    start = Milliseconds();
    for (uint32_t document : drawn) (void)bins.Put(document);
    placing.push_back(Milliseconds() - start);
  }
  std::sort(drawing.begin(), drawing.end());
  std::sort(placing.begin(), placing.end());
  std::printf("| %zu | %u | %.1f | %.1f |\n", sources, length, drawing[4] * 1e6 / kDocuments, placing[4] * 1e6 / kDocuments);
}

Recipe MakeRecipe(size_t sources, uint32_t lanes, uint32_t sequences, uint32_t length) {
  Recipe recipe;
  recipe.lanes = lanes;
  recipe.step[0] = sequences;
  recipe.cost.kind = CostSpec::kAttention;
  recipe.cost.hidden = 4096;
  recipe.cost.layers = 32;
  if (length > 0) {
    recipe.pack.emplace();
    recipe.pack->lengths = {{length, 1}};
  }
  for (size_t i = 0; i < sources; ++i) {
    recipe.sources.emplace_back();
    recipe.sources.back().name = "source" + std::to_string(i);
    recipe.mix.weights[0][recipe.sources.back().name] = 1.0 / static_cast<double>(i + 1);
  }
  return recipe;
}

void Run(uint64_t steps) {
  const SyntheticFeed::Lengths lengths = Table(SyntheticFeed::Lognormal(6.5, 1.2, 65536));
  std::printf(
      "| step | ms, median | ms, most | documents | ns for each | padding | spread before | after | of max(mean, largest), worst | state kB |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  Recipe recipe = MakeRecipe(4, 64, 4096, 8192);
  Steps("4,096 sequences of 8k, 64 lanes", recipe, lengths, steps);
  recipe.pack->method = PackMethod::kFirstFit;
  Steps("the same, first fit", recipe, lengths, steps);
  recipe.pack->method = PackMethod::kConcat;
  Steps("the same, concat", recipe, lengths, steps);
  recipe.pack->method = PackMethod::kBestFit;
  recipe.balance.method = BalanceMethod::kGreedy;
  Steps("the same, best fit, greedy", recipe, lengths, steps);
  Steps("4,096 sequences of 64k, 64 lanes", MakeRecipe(4, 64, 4096, 65536), lengths, std::max<uint64_t>(steps / 4, 3));
  recipe = MakeRecipe(4, 64, 4096, 65536);
  recipe.pack->method = PackMethod::kConcat;
  Steps("4,096 sequences of 64k, concat", recipe, lengths, std::max<uint64_t>(steps / 4, 3));
  Steps("512 sequences of 8k, 64 lanes", MakeRecipe(4, 64, 512, 8192), lengths, steps);
  Steps("64 sequences of 8k, 64 lanes", MakeRecipe(4, 64, 64, 8192), lengths, steps);
  Steps("8 sequences of 8k, 8 lanes", MakeRecipe(4, 8, 8, 8192), lengths, steps);
  Steps("300 sources, 512 sequences of 8k", MakeRecipe(300, 64, 512, 8192), lengths, steps);
  Steps("300 sources, 4,096 sequences of 8k", MakeRecipe(300, 64, 4096, 8192), lengths, steps);
  Steps("300 sources, 4,096 sequences of 64k", MakeRecipe(300, 64, 4096, 65536), lengths, std::max<uint64_t>(steps / 4, 3));
  Steps("4,096 documents as they are, 64 lanes", MakeRecipe(4, 64, 4096, 0), lengths, steps);
  recipe = MakeRecipe(4, 64, 4096, 0);
  recipe.cost.kind = CostSpec::kTokens;
  Steps("the same, by tokens", recipe, lengths, steps);
  recipe = MakeRecipe(4, 256, 4096, 0);
  Steps("4,096 documents, 256 lanes", recipe, lengths, steps);

  if (*only != 0) return;
  std::printf("\n| sources | length | drawing a document alone, ns | placing it alone, ns |\n| --- | --- | --- | --- |\n");
  for (size_t sources : {4, 300})
    for (uint32_t length : {8192, 65536}) Alone(sources, length, lengths);
  std::printf(
      "\n| ranks (4,096 documents, 64 lanes, attention) | spread before | after | of max(mean, largest) |\n| --- | --- | --- | --- |\n");
  std::vector<double> costs;
  for (uint32_t i = 0; i < 4096; ++i) {
    const double length = lengths(0, i);
    costs.push_back(72.0 * 4096 * length + 6 * length * length);
  }
  const double start = Milliseconds();
  const Lanes balanced = Balance(costs, 64, {BalanceMethod::kKarmarkarKarp, false, {}});
  const double time = Milliseconds() - start;
  const double sum = std::accumulate(costs.begin(), costs.end(), 0.0), dearest = *std::max_element(costs.begin(), costs.end());
  for (uint32_t group = 32; group >= 1; group /= 2) {
    const double mean = sum / 64 * group, after = Spread(costs, balanced, group);
    std::printf("| %u | %.3f | %.3f | %.4f |\n", 64 / group, Spread(costs, InOrder(costs.size(), 64), group), after,
                after * mean / std::max(mean, dearest));
  }
  std::printf("\nbalancing alone: %.2f ms\n", time);
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  uint64_t steps = 20;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--steps") == 0) steps = std::max<uint64_t>(std::strtoull(argv[i + 1], nullptr, 10), 1);
    if (std::strcmp(argv[i], "--only") == 0) headrace::only = argv[i + 1];
  }
  headrace::Run(steps);
}
