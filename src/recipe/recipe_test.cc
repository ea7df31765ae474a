#include "recipe/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every word of the contract with users, but for those that come later (delta, policy).
constexpr const char* kAll = R"(
stream: s3://bucket/runs/a
seed: 17
lanes: 64
strands: 16
order: planned
step: {sequences: 512}
chunk: {lane_bytes: 1MB}
lead: auto
retain: pins
until: {epochs: 1}
drop_last: true
sources:
  web:    {format: parquet, files: "s3://lake/web/*.parquet", weight: 0.5}
  code:   {format: jsonl, files: "/lake/code/*.jsonl.zst", weight: 0.3, at_end: repeat}
  old:    {format: megatron, files: "/lake/old/part*.bin", weight: 0.1}
  raw:    {format: tokens, files: [a.bin, b.bin], dtype: uint16, eos: 0, weight: 0.1, limit: 5k, bad_samples: {skip: 10}}
holdout: {fraction: 0.001, by: id}
shuffle: {window: 100000}
bad_samples: skip
transform:
  - tokenize: {tokenizer: tokenizer.json, from: text, add_eos: true}
  - filter: "length(tokens) >= 32"
  - rename: {uuid: id}
  - cast: {score: float32}
  - python: {call: "mypackage.clean:fix", workers: 2, timeout: 5m, on_error: skip}
pack: {length: 8192, method: best_fit, overflow: split, align: 1}
cost: {attention: {hidden: 4096, layers: 32}}
balance: {method: karmarkar_karp, over: [lane]}
group: {size: 2}
distribute: {axis: dp, group_size: 2}
broadcast_at: [tp]
mix:
  unit: tokens
  ramp: linear
  schedule:
    0:    {web: 0.5, code: 0.3, old: 0.1, raw: 0.1}
    1000: {web: 0.3, code: 0.4, old: 0.1, raw: 0.2}
keep: [id]
)";

Result<Recipe> Read(const std::string& text) { return Recipe::FromYaml(text, "recipe.yaml", "/work"); }

TEST(Recipe, UnderstandsEveryWord) {
  Result<Recipe> read = Read(kAll);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  const Recipe& recipe = *read;
  EXPECT_EQ(recipe.stream, "s3://bucket/runs/a");
  EXPECT_EQ(recipe.seed, 17u);
  EXPECT_EQ(recipe.lanes, 64u);
  EXPECT_EQ(recipe.strands, 16u);
  EXPECT_EQ(recipe.StepSize(0), 512u);
  EXPECT_EQ(recipe.StepSize(1'000'000), 512u);
  EXPECT_EQ(recipe.lane_bytes, 1'000'000u);
  EXPECT_EQ(recipe.lead.kind, Lead::kAuto);
  EXPECT_EQ(recipe.until.epochs, 1);
  ASSERT_EQ(recipe.sources.size(), 4u);
  EXPECT_EQ(recipe.sources[0].name, "web");
  EXPECT_EQ(recipe.sources[0].line, 14);
  EXPECT_THAT(recipe.sources[0].files, ElementsAre("s3://lake/web/*.parquet"));
  EXPECT_EQ(recipe.Epochs(recipe.sources[0]), 1);
  EXPECT_EQ(recipe.sources[1].at_end, AtEnd::kRepeat);
  EXPECT_TRUE(std::isinf(recipe.Epochs(recipe.sources[1])));
  EXPECT_THAT(recipe.sources[3].files, ElementsAre("a.bin", "b.bin"));
  EXPECT_EQ(recipe.sources[3].dtype, Dtype::kU16);
  EXPECT_EQ(recipe.sources[3].eos, 0);
  EXPECT_EQ(recipe.sources[3].limit, 5000u);
  EXPECT_EQ(recipe.sources[3].bad_samples, (BadSamples{true, 10}));
  EXPECT_EQ(recipe.bad_samples, (BadSamples{true, UINT64_MAX}));
  EXPECT_EQ(recipe.holdout_fraction, 0.001);
  EXPECT_EQ(recipe.holdout_by, "id");
  ASSERT_EQ(recipe.transforms.size(), 5u);
  EXPECT_EQ(recipe.Tokenizer(), &recipe.transforms[0]);
  EXPECT_TRUE(recipe.transforms[0].add_eos);
  EXPECT_FALSE(recipe.transforms[0].add_bos);
  EXPECT_EQ(recipe.transforms[1].expression, "length(tokens) >= 32");
  EXPECT_EQ(recipe.transforms[2].names.at("uuid"), "id");
  EXPECT_EQ(recipe.transforms[3].names.at("score"), "float32");
  EXPECT_EQ(recipe.transforms[4].call, "mypackage.clean:fix");
  EXPECT_EQ(recipe.transforms[4].workers, 2u);
  EXPECT_EQ(recipe.transforms[4].timeout_seconds, 300);
  EXPECT_EQ(recipe.transforms[4].on_error, "skip");
  EXPECT_EQ(recipe.pack->lengths[0].length, 8192u);
  EXPECT_EQ(recipe.cost.kind, CostSpec::kAttention);
  EXPECT_EQ(recipe.cost.hidden, 4096u);
  EXPECT_EQ(recipe.group_size, 2u);
  EXPECT_THAT(recipe.broadcast_at, ElementsAre("tp"));
  EXPECT_TRUE(recipe.mix.ramp);
  EXPECT_NEAR(recipe.mix.At(500).at("web"), 0.4, 1e-9);
  EXPECT_THAT(recipe.keep, ElementsAre("id"));
  EXPECT_TRUE(nlohmann::json::accept(recipe.Canonical()));
}

constexpr const char* kSmall = "step: {samples: 4096}\nsources: {web: {files: web.parquet}}\n";

Recipe Good(const std::string& text) {
  Result<Recipe> recipe = Read(text);
  EXPECT_TRUE(recipe.ok()) << text << recipe.status().ToString();
  return recipe.ok() ? *recipe : Recipe{};
}

TEST(Recipe, TheSmallestOneHasTheDefaultsOfTheGuide) {
  const Recipe recipe = Good(kSmall);
  EXPECT_EQ(recipe.stream, "");
  EXPECT_EQ(recipe.seed, 0u);
  EXPECT_EQ(recipe.lanes, 64u);
  EXPECT_EQ(recipe.strands, 16u);
  EXPECT_EQ(recipe.order, Order::kPlanned);
  EXPECT_EQ(recipe.lane_bytes, 1'000'000u);
  EXPECT_EQ(recipe.retain, "pins");
  EXPECT_EQ(recipe.until.kind, Until::kEpochs);
  EXPECT_TRUE(recipe.drop_last);
  EXPECT_EQ(recipe.shuffle_window, 100000u);
  EXPECT_FALSE(recipe.bad_samples.skip);
  EXPECT_FALSE(recipe.pack);
  EXPECT_EQ(recipe.cost.kind, CostSpec::kTokens);
  EXPECT_EQ(recipe.balance.method, BalanceMethod::kKarmarkarKarp);
  EXPECT_EQ(recipe.group_size, 1u);
  EXPECT_FALSE(recipe.mix.by_tokens);
  EXPECT_EQ(recipe.mix.At(0).at("web"), 1);
  EXPECT_EQ(recipe.sources[0].format, "parquet");
  EXPECT_TRUE(recipe.notes.empty());
}

TEST(Recipe, LanesAreSixtyFourOrTheStepsSequencesOrWhatDividesThem) {
  const auto lanes = [](const std::string& step, const char* more = "") {
    return Good("sources: {web: {files: web.parquet}}\npack: {length: 8}\nstep: {sequences: " + step + "}\n" + more).lanes;
  };
  EXPECT_EQ(lanes("512"), 64u);
  EXPECT_EQ(lanes("512", "lanes: auto"), 64u);
  EXPECT_EQ(lanes("48"), 48u);
  EXPECT_EQ(lanes("{0: 32, 10: 512}"), 32u);
  EXPECT_EQ(lanes("96"), 48u);
  EXPECT_EQ(lanes("{0: 96, 5: 100}"), 4u);
  EXPECT_EQ(lanes("96", "lanes: 32"), 32u);
  EXPECT_EQ(Good("sources: {web: {files: web.parquet}}\nstep: {samples: 100}\n").lanes, 64u);
  EXPECT_EQ(Good("sources: {web: {files: web.parquet}}\nstep: {samples: 100}\ngroup: {size: 4}\n").lanes, 25u);
}

TEST(Recipe, AStepMayGrow) {
  for (const char* step : {"step: {sequences: {0: 256, 5000: 512}}", "step: {0: 256, 5k: 512}"}) {
    const Recipe recipe = Good(std::string("sources: {web: {files: web.parquet}}\npack: {length: 8}\n") + step);
    EXPECT_EQ(recipe.StepSize(0), 256u);
    EXPECT_EQ(recipe.StepSize(4999), 256u);
    EXPECT_EQ(recipe.StepSize(5000), 512u);
  }
}

TEST(Recipe, WeightsAreNormalisedAndSaidSo) {
  const Recipe recipe =
      Good("step: {samples: 8}\nsources:\n  a: {files: a.parquet, weight: 3}\n  b: {files: b.parquet, weight: 1}\n");
  EXPECT_EQ(recipe.mix.weights.at(0).at("a"), 0.75);
  EXPECT_EQ(recipe.mix.weights.at(0).at("b"), 0.25);
  EXPECT_THAT(recipe.notes, ElementsAre("sources: the weights sum to 4; they were normalised"));
  const Recipe equal = Good("step: {samples: 8}\nsources:\n  a: {files: a.parquet}\n  b: {files: b.parquet}\n");
  EXPECT_EQ(equal.mix.weights.at(0).at("a"), 0.5);
  EXPECT_TRUE(equal.notes.empty());
  // 0.1 ten times is 1 for a person, and not quite for a computer.
  std::string ten = "step: {samples: 8}\nsources:\n";
  for (char c = 'a'; c <= 'j'; ++c) ten += std::string("  ") + c + ": {files: x.parquet, weight: 0.1}\n";
  EXPECT_TRUE(Good(ten).notes.empty());
}

TEST(Recipe, OtherWaysToSayTheSame) {
  EXPECT_EQ(Good(std::string(kSmall) + "balance: none").balance.method, BalanceMethod::kNone);
  EXPECT_EQ(Good(std::string(kSmall) + "shuffle: false").shuffle_window, 0u);
  EXPECT_EQ(Good(std::string(kSmall) + "lead: {bytes: 50GB}").lead.amount, 50'000'000'000u);
  EXPECT_EQ(Good(std::string(kSmall) + "lead: unlimited").lead.kind, Lead::kUnlimited);
  EXPECT_EQ(Good(std::string(kSmall) + "until: {tokens: 1.5B}").until.amount, 1'500'000'000u);
  EXPECT_EQ(Good(std::string(kSmall) + "until: {steps: 1_000}").until.amount, 1000u);
  EXPECT_EQ(Good(std::string(kSmall) + "retain: {steps: 5000}").retain_steps, 5000u);
  EXPECT_EQ(Good(std::string(kSmall) + "cost: length ** 2").cost.expression, "length ** 2");
  EXPECT_EQ(Good(std::string(kSmall) + "keep: score\ncost: {expression: score * 2}").cost.kind, CostSpec::kExpression);
  EXPECT_EQ(Good(std::string(kSmall) + "cost: {python: {call: \"a.b:c\"}}").cost.call, "a.b:c");
  EXPECT_EQ(Good(std::string(kSmall) + "distribute: {axis: dp, group_size: 2}").group_size, 2u);
  EXPECT_EQ(Good(std::string(kSmall) + "transform: [{tokenize: t.json}, {python: \"a:b\"}]").transforms[0].from, "text");
  EXPECT_EQ(Good(std::string(kSmall) + "transform: [{cast: {a: list<int32>}}]").transforms[0].names.at("a"), "list<int32>");
  const Recipe packs = Good(
      "sources: {web: {files: w.parquet}}\nstep: {sequences: 64}\npack: [{length: 8Ki, share: 9}, {length: 131072, share: 1}]\n");
  ASSERT_EQ(packs.pack->lengths.size(), 2u);
  EXPECT_EQ(packs.pack->lengths[0].length, 8192u);
  EXPECT_EQ(packs.pack->lengths[0].share, 0.9);
}

TEST(Recipe, FormatsFollowFromTheNamesOfFiles) {
  const auto format = [](const std::string& file) {
    return Good("step: {samples: 8}\nsources: {web: {files: \"" + file + "\"}}\n").sources[0].format;
  };
  EXPECT_EQ(format("s3://lake/*.parquet"), "parquet");
  EXPECT_EQ(format("/lake/{00..12}.jsonl.zst"), "jsonl");
  EXPECT_EQ(format("a.jsonl.gz"), "jsonl");
  EXPECT_EQ(format("shard-{0..9}.tar"), "webdataset");
  EXPECT_EQ(format("a.arrow"), "arrow");
}

TEST(Recipe, ForeverRepeatsWhatSaysNothingElse) {
  const Recipe recipe =
      Good("step: {samples: 8}\nuntil: forever\nsources:\n  a: {files: a.parquet}\n  b: {files: b.parquet, at_end: drop}\n");
  EXPECT_EQ(recipe.sources[0].at_end, AtEnd::kRepeat);
  EXPECT_EQ(recipe.sources[1].at_end, AtEnd::kDrop);
  EXPECT_THAT(recipe.notes, ElementsAre(HasSubstr("at_end: repeat: a")));
}

TEST(Recipe, AnchorsAndMergeKeysWork) {
  const Recipe recipe = Good(
      "step: {samples: 8}\nsources:\n  a: &base {files: a.parquet, weight: 0.5, limit: 7}\n  b: {<<: *base, files: b.parquet}\n");
  EXPECT_EQ(recipe.sources[1].limit, 7u);
  EXPECT_THAT(recipe.sources[1].files, ElementsAre("b.parquet"));
}

TEST(Recipe, AThousandAliasesOfAThousandAliasesAreRefused) {
  std::string text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    text += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) text += std::string(i == 0 ? "" : ", ") + "*" + static_cast<char>(c - 1);
    text += "]\n";
  }
  EXPECT_THAT(Read(text).status().message(), HasSubstr("its aliases counted as often as they are used"));
}

// What may change on a living stream is not in it; all else is.
TEST(Recipe, TheCanonicalFormHoldsWhatMayNotChange) {
  const std::string before = Good(kSmall).Canonical();
  EXPECT_EQ(
      before,
      Good(std::string("# the same\n") + kSmall + "lanes: 64\nuntil: {epochs: 1.0}\nchunk: {lane_bytes: 1MB}\n").Canonical());
  for (const char* same : {"stream: /tmp/x", "lead: unlimited", "retain: all", "broadcast_at: tp", "bad_samples: skip",
                           "bad_samples: {skip: 3}", "mix: {schedule: {0: {web: 1}}}"}) {
    EXPECT_EQ(before, Good(std::string(kSmall) + same).Canonical()) << same;
  }
  for (const char* other : {"seed: 1",
                            "lanes: 32",
                            "strands: 4",
                            "order: arrival",
                            "chunk: {lane_bytes: 2MB}",
                            "until: {steps: 5}",
                            "until: forever",
                            "drop_last: false",
                            "holdout: {fraction: 0.1}",
                            "shuffle: false",
                            "transform: [{filter: a > 1}]",
                            "transform: [{filter: a > 2}]",
                            "transform: [{tokenize: t}]",
                            "transform: [{tokenize: {tokenizer: t, add_eos: true}}]",
                            "transform: [{chat: t}]",
                            "transform: [{select: [a]}]",
                            "transform: [{rename: {a: b}}]",
                            "transform: [{cast: {a: int8}}]",
                            "transform: [{python: \"a:b\"}]",
                            "cost: length ** 2",
                            "cost: {attention: {hidden: 1, layers: 2}}",
                            "cost: {python: \"a:b\"}",
                            "balance: greedy",
                            "group: {size: 2}",
                            "keep: [id]"}) {
    EXPECT_NE(before, Good(std::string(kSmall) + other).Canonical()) << other;
  }
  const auto packed = [](const std::string& pack) {
    return Good("sources: {web: {files: w.parquet}}\nstep: {sequences: 64}\npack: " + pack).Canonical();
  };
  for (const char* other : {"{length: 16}", "{length: 8, pad: 1}", "{length: 8, align: 2}", "{length: 8, method: concat}",
                            "{length: 8, overflow: drop}", "[{length: 8}, {length: 16}]"}) {
    EXPECT_NE(packed("{length: 8}"), packed(other)) << other;
  }
  const std::string python = "transform: [{python: {call: \"a:b\", workers: ";
  EXPECT_EQ(Good(kSmall + python + "1}}]").Canonical(), Good(kSmall + python + "8, timeout: 5m, on_error: skip}}]").Canonical());
}

TEST(Recipe, ASourcesFingerprintIsAboutItsSamples) {
  const auto fingerprint = [](const std::string& source) {
    return Good("step: {samples: 8}\nsources: {web: " + source + "}\n").sources[0].Fingerprint();
  };
  const std::string before = fingerprint("{files: a.parquet}");
  for (const char* same : {"{files: [a.parquet]}", "{files: a.parquet, weight: 3}", "{files: a.parquet, at_end: stop}",
                           "{files: a.parquet, storage_options: {region: x}}", "{files: a.parquet, bad_samples: skip}"}) {
    EXPECT_EQ(before, fingerprint(same)) << same;
  }
  for (const char* other : {"{files: b.parquet}", "{files: a.parquet, format: arrow}", "{files: a.parquet, limit: 3}",
                            "{files: a.parquet, epochs: 2}", "{files: a, format: tokens, eos: 0}"}) {
    EXPECT_NE(before, fingerprint(other)) << other;
  }
  EXPECT_NE(fingerprint("{files: a, format: tokens, eos: 0}"), fingerprint("{files: a, format: tokens, eos: 1}"));
  EXPECT_NE(fingerprint("{files: a, format: tokens, eos: 0}"), fingerprint("{files: a, format: tokens, eos: 0, dtype: int32}"));
  EXPECT_NE(fingerprint("{files: a, format: tokens, document_length: 8}"),
            fingerprint("{files: a, format: tokens, document_length: 9}"));
}

TEST(Recipe, FilesAreReadAndTheirFolderKept) {
  const std::string folder = ::testing::TempDir();
  const std::string path = folder + "/recipe_of_recipe_test.yaml";
  std::ofstream(path) << kSmall;
  Result<Recipe> recipe = Recipe::FromFile(path);
  ASSERT_TRUE(recipe.ok()) << recipe.status().ToString();
  EXPECT_EQ(recipe->name, path);
  EXPECT_EQ(recipe->text, kSmall);
  EXPECT_TRUE(std::filesystem::equivalent(recipe->folder, folder));
  std::filesystem::remove(path);
  EXPECT_EQ(Recipe::FromFile(path).code(), Code::kNotFound);
  EXPECT_THAT(Recipe::FromFile(folder).status().message(), HasSubstr("it is a folder"));
}

// Whatever becomes of a recipe by damage, it is read or refused; and every line of a refusal begins with the place.
RC_GTEST_PROP(RecipeProperty, DamageIsReadOrRefused, ()) {
  static const std::vector<std::string> kPieces = {"{",  "}",    "[",  "]",     ":", ": ",  "\n",      "\n  ", ",",
                                                   "-",  "- ",   "\"", "'",     "#", "&a ", "*a",      "<<: ", "!",
                                                   "|",  ">",    "~",  "null",  "0", "-1",  "1e999",   "nan",  "true",
                                                   "\t", "\xff", "é",  "---\n", "%", "@",   "sources", "web",  "? "};
  std::string text = kAll;
  const int changes = *rc::gen::inRange(1, 12);
  for (int i = 0; i < changes; ++i) {
    const size_t at = *rc::gen::inRange<size_t>(0, text.size());
    switch (*rc::gen::inRange(0, 4)) {
      case 0: text.erase(at, *rc::gen::inRange<size_t>(1, 20)); break;
      case 1: text.insert(at, *rc::gen::elementOf(kPieces)); break;
      case 2: text.insert(at, text.substr(*rc::gen::inRange<size_t>(0, text.size()), *rc::gen::inRange<size_t>(1, 40))); break;
      default: text[at] = *rc::gen::arbitrary<char>(); break;
    }
  }
  Result<Recipe> recipe = Read(text);
  if (recipe.ok()) {
    RC_ASSERT(recipe->lanes > 0u);
    RC_ASSERT(recipe->StepSize(0) > 0u);
    RC_ASSERT(nlohmann::json::accept(recipe->Canonical()));
    RC_ASSERT(std::abs(recipe->mix.At(500).begin()->second) <= 1);
  } else {
    RC_ASSERT(recipe.status().message().starts_with("recipe.yaml"));
  }
}

}  // namespace
}  // namespace headrace
