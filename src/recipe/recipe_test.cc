#include "recipe/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

}  // namespace
}  // namespace headrace
