// What earlier versions planned, this one plans: a stream that is half made goes on with a newer producer, and a replay compares bytes.
//
// A digest that changes here is a stream in the field that breaks. Not a reason to write down the new one.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wrestrict"  // gcc 12 warns about its own string
#endif

#include <gtest/gtest.h>

#include <cstdio>

#include "plan/planner.h"
#include "plan/synthetic_feed.h"

namespace headrace {
namespace {

class Digest {
 public:
  void Add(uint64_t number) {
    for (int i = 0; i < 8; ++i, number >>= 8) value_ = (value_ ^ (number & 0xFF)) * 1099511628211u;
  }
  void Add(const std::string& text) {
    Add(text.size());
    for (char letter : text) value_ = (value_ ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  }
  void Add(const Sequence& sequence) {
    Add(sequence.length);
    Add(sequence.bond);
    Add(sequence.pieces.size());
    for (const Placed& piece : sequence.pieces)
      for (uint32_t number : {uint32_t{piece.sample.ref.source}, piece.sample.ref.position.index, piece.sample.length,
                              piece.sample.label_tokens, piece.start, piece.length, piece.position})
        Add(number);
  }
  void Add(const StepPlan& plan) {
    for (uint64_t number : {uint64_t{plan.length}, plan.label_tokens, plan.padding, plan.truncated, plan.dropped}) Add(number);
    for (uint64_t number : plan.samples) Add(number);
    for (uint64_t number : plan.tokens) Add(number);
    for (const std::vector<Sequence>& lane : plan.lanes) {
      Add(lane.size());
      for (const Sequence& sequence : lane) Add(sequence);
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037u;
};

// Long-tailed, and from integers alone: a logarithm may differ from one library to the next.
SyntheticFeed::Lengths LongTailed(uint32_t longest) {
  return [longest](uint16_t source, uint32_t number) {
    const uint64_t mixed = SyntheticFeed::Mix((uint64_t{source} << 32) + number + 1);
    if (mixed % 97 == 0) return uint32_t{0};
    const uint32_t bits = 5 + static_cast<uint32_t>(mixed >> 8) % 4 + static_cast<uint32_t>(mixed >> 16) % 5 +
                          (mixed >> 24 & 15 ? 0 : static_cast<uint32_t>(mixed >> 28) % 5);
    return std::min(longest, static_cast<uint32_t>((uint64_t{1} << bits) + (mixed >> 32) % (uint64_t{1} << bits)));
  };
}

struct Case {
  const char* name;
  uint64_t expected;
  uint32_t sources, lanes, sequences, length;
  uint64_t steps;
  void (*change)(Recipe& recipe) = [](Recipe&) {};
  uint32_t samples = UINT32_MAX;  // of each source
};

uint64_t DigestOf(const Case& one) {
  Recipe recipe;
  recipe.lanes = one.lanes;
  recipe.step[0] = one.sequences;
  recipe.cost.kind = CostSpec::kAttention;
  recipe.cost.hidden = 4096;
  recipe.cost.layers = 32;
  if (one.length > 0) {
    recipe.pack.emplace();
    recipe.pack->lengths = {{one.length, 1}};
  }
  std::vector<std::string> names;
  for (uint32_t i = 0; i < one.sources; ++i) {
    names.push_back("s" + std::to_string(i));
    recipe.sources.emplace_back();
    recipe.sources.back().name = names.back();
    recipe.mix.weights[0][names.back()] = 1.0 / (i + 1);
  }
  one.change(recipe);
  SyntheticFeed feed(std::vector<uint32_t>(one.sources, one.samples), LongTailed(65536));
  auto planner = std::make_unique<Planner>(recipe, names, feed);
  Digest digest;
  for (uint64_t step = 0; step < one.steps; ++step) {
    Result<std::optional<StepPlan>> plan = planner->Next(step, recipe.mix);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    if (!plan.ok()) return 0;
    if (!*plan) {
      Result<std::vector<Sequence>> rest = planner->Remainder(step);
      EXPECT_TRUE(rest.ok()) << rest.status().message();
      if (!rest.ok()) return 0;
      for (const Sequence& sequence : *rest) digest.Add(sequence);
      digest.Add(uint64_t{step});
      break;
    }
    digest.Add(**plan);
    const std::string state = planner->State();
    digest.Add(state);
    if (step % 3 == 2) {  // taken over
      planner = std::make_unique<Planner>(recipe, names, feed);
      EXPECT_TRUE(planner->Restore(state).ok());
    }
  }
  return digest.value();
}

constexpr auto kFirstFit = [](Recipe& recipe) { recipe.pack->method = PackMethod::kFirstFit; };
constexpr auto kConcat = [](Recipe& recipe) { recipe.pack->method = PackMethod::kConcat; };
constexpr auto kAlign = [](Recipe& recipe) { recipe.pack->align = 16; };
constexpr auto kGreedy = [](Recipe& recipe) { recipe.balance.method = BalanceMethod::kGreedy; };
constexpr auto kNoBalance = [](Recipe& recipe) { recipe.balance.method = BalanceMethod::kNone; };
constexpr auto kByTokens = [](Recipe& recipe) { recipe.cost.kind = CostSpec::kTokens; };
constexpr auto kPairs = [](Recipe& recipe) { recipe.group_size = 2; };
constexpr auto kTruncate = [](Recipe& recipe) { recipe.pack->overflow = Overflow::kTruncate; };
constexpr auto kDrop = [](Recipe& recipe) { recipe.pack->overflow = Overflow::kDrop; };
constexpr auto kTriplesTruncated = [](Recipe& recipe) {
  recipe.group_size = 3;
  recipe.pack->overflow = Overflow::kTruncate;
};
constexpr auto kTwoLengths = [](Recipe& recipe) { recipe.pack->lengths = {{2048, 0.7}, {16384, 0.3}}; };
constexpr auto kJump = [](Recipe& recipe) { recipe.mix.weights[4] = {{"s0", 0.1}, {"s1", 0.9}}; };
constexpr auto kRamp = [](Recipe& recipe) {
  recipe.mix.ramp = true;
  recipe.mix.weights[6] = {{"s0", 0.1}, {"s1", 0.9}};
};
constexpr auto kEqualBySamples = [](Recipe& recipe) {
  recipe.mix.by_tokens = false;
  for (auto& [name, weight] : recipe.mix.weights[0]) weight = 1;
};
constexpr auto kBySamples = [](Recipe& recipe) { recipe.mix.by_tokens = false; };

const Case kCases[] = {
    {"best fit", 0xD05DDA3A8F76AAE0, 4, 64, 512, 8192, 8},
    {"first fit", 0xE0CEC92E5A4462D8, 4, 64, 512, 8192, 8, kFirstFit},
    {"concat", 0xB2CE951BC1224F6E, 4, 64, 512, 8192, 8, kConcat},
    {"short sequences", 0xDEF5F1AB5FDF652A, 4, 8, 64, 512, 20},
    {"long sequences", 0xC70BE2233CE1E0F5, 4, 64, 128, 65536, 4},
    {"aligned", 0xDCD5A927262FC986, 4, 16, 128, 4096, 10, kAlign},
    {"greedy", 0x0E2116DE8E2CD764, 4, 64, 512, 8192, 6, kGreedy},
    {"as it came", 0x94F0B09200D12438, 4, 64, 512, 8192, 6, kNoBalance},
    {"few sequences", 0x8AC2792AE5661D04, 2, 8, 16, 8192, 30},
    {"one sequence a lane", 0x3F228D1CAFB5B72A, 2, 64, 64, 8192, 10},
    {"lanes that do not divide", 0xF99BB56DE54B41D5, 2, 7, 100, 4096, 10},
    {"tokens", 0x50509FE922D9C3F5, 3, 24, 240, 4096, 8, kByTokens},
    {"many sources", 0x0F31CB41FAF4B6C5, 50, 16, 128, 4096, 6},
    {"hundreds of sources", 0xB9DA962F8B9FD704, 300, 16, 512, 8192, 4},
    {"hundreds of sources to the end", 0xB2F72615C55DCF14, 200, 8, 64, 4096, 1000, kBySamples, 20},
    {"sources of the same weight", 0xBE970E29CCB67406, 100, 16, 128, 4096, 5, kEqualBySamples},
    {"sixteen sources", 0x6E6B5A6F140BDABF, 16, 16, 128, 4096, 6},
    {"thirty-two sources", 0xB036A0239942E1E6, 32, 16, 128, 4096, 6},
    {"very long sequences", 0xD88FFBA1A4A7E1A8, 4, 8, 16, 300000, 4},
    {"pairs", 0xE4B79240933ABAB4, 2, 8, 64, 32768, 8, kPairs},
    {"triples, truncated", 0xE49E14ECA3F95696, 2, 8, 64, 4096, 8, kTriplesTruncated},
    {"truncated", 0x31524BEB5C90B755, 4, 8, 64, 2048, 10, kTruncate},
    {"dropped", 0x891938F97F659896, 4, 8, 64, 2048, 10, kDrop},
    {"two lengths", 0xBA96CE91F445499D, 4, 8, 64, 2048, 20, kTwoLengths},
    {"weights that jump", 0xCA366BD243909051, 2, 8, 64, 8192, 8, kJump},
    {"weights that move", 0x3EDED7BA1CF4BCC9, 2, 8, 64, 8192, 8, kRamp},
    {"weights by samples", 0x825B8A171962A327, 4, 8, 64, 8192, 8, kBySamples},
    {"to the end", 0x6E67F8256D0420FC, 3, 8, 32, 4096, 1000, kAlign, 700},
    {"to the end, concat", 0x4A350D2B25330284, 3, 8, 32, 4096, 1000, kConcat, 700},
    {"to the end, first fit", 0x1FE66516B724630A, 3, 8, 32, 4096, 1000, kFirstFit, 700},
    {"documents", 0x7528B18B46FD2495, 4, 64, 4096, 0, 3},
    {"documents on many lanes", 0xB580511F2FDA3ED5, 4, 256, 4096, 0, 3},
    {"documents by tokens", 0xAC91D4B7FE09D8E0, 4, 64, 1024, 0, 4, kByTokens},
    {"documents, greedy", 0x0EE2FEA72F83A0D6, 4, 48, 1024, 0, 4, kGreedy},
    {"few documents", 0x933354E3082BAB96, 4, 8, 16, 0, 30},
    {"pairs of documents", 0xE4CEC020C1F91CF5, 2, 12, 200, 0, 6, kPairs},
    {"documents to the end", 0x250259C772660769, 3, 8, 64, 0, 1000, kByTokens, 500},
};

TEST(PlannerGolden, PlansWhatEarlierVersionsPlanned) {
  for (const Case& one : kCases) {
    char text[32];
    std::snprintf(text, sizeof(text), "0x%016llX", static_cast<unsigned long long>(DigestOf(one)));
    char expected[32];
    std::snprintf(expected, sizeof(expected), "0x%016llX", static_cast<unsigned long long>(one.expected));
    EXPECT_STREQ(text, expected) << one.name;
  }
}

}  // namespace
}  // namespace headrace
