// A stream and the recipe that it is made from: what is refused before anything is written, and what after.
#include "produce/lake_stream.h"

#include "produce/strand_line.h"
#include "produce/test_lake.h"

namespace headrace {
namespace {

class LakeStreamTest : public LakeTest {
 protected:
  Recipe Words(const std::string& more) {
    const std::string text = Cat("seed: 3\nlanes: 2\nstrands: 3\nkeep: [id]\nshuffle: {window: 30}\n",
                                 "sources:\n  docs: {format: jsonl, files: \"*.jsonl\"}\n", more);
    Result<Recipe> recipe = Recipe::FromYaml(text, "test.yaml", folder_.string());
    EXPECT_TRUE(recipe.ok()) << recipe.status().ToString();
    return *std::move(recipe);
  }

  Result<std::unique_ptr<LakeStream>> OpenIt(const std::string& more, uint64_t try_below_bytes) {
    LakeOptions options;
    options.try_below_bytes = try_below_bytes;
    HR_ASSIGN_OR_RETURN(std::unique_ptr<LoadedRecipe> loaded, LoadedRecipe::Make(Words(more), options));
    return LakeStream::Open(std::move(loaded), {store_, &executor_, Random(++opened_)}, options, Deadline());
  }

  size_t Objects() { return ListAll(*store_, "", Deadline())->size(); }
};

constexpr const char* kTooLarge = "pack: {length: 16}\nstep: {sequences: 4000}\ndrop_last: true\n";

TEST_F(LakeStreamTest, ALakeOfLessThanOneStepLeavesNothingBehind) {
  for (const std::string more : {kTooLarge, "step: {samples: 100}\ndrop_last: true\n"}) {
    auto refused = OpenIt(more, 1'000'000);
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_NE(refused.status().message().find("less than one step"), std::string::npos) << refused.status().ToString();
    EXPECT_NE(refused.status().message().find("Nothing was written"), std::string::npos) << refused.status().ToString();
    EXPECT_EQ(Objects(), 0u);
  }
  // So the recipe may be mended, and the same stream be begun.
  EXPECT_TRUE(OpenIt("pack: {length: 16}\nstep: {sequences: 4}\n", 1'000'000).ok());
}

TEST_F(LakeStreamTest, ALakeOfOneStepInAllStrandsTogetherIsEnough) {
  EXPECT_TRUE(OpenIt(Cat("step: {samples: ", kDocuments, "}\ndrop_last: true\n"), 1'000'000).ok());
}

TEST_F(LakeStreamTest, ASmallLastStepIsOneToo) {
  EXPECT_TRUE(OpenIt("pack: {length: 16}\nstep: {sequences: 4000}\ndrop_last: false\n", 1'000'000).ok());
}

TEST_F(LakeStreamTest, WhatWasNotTriedBeforeIsRefusedAtTheEndWithWhatToDelete) {
  auto lake = OpenIt(kTooLarge, /*try_below_bytes=*/10);
  ASSERT_TRUE(lake.ok()) << lake.status().ToString();
  for (uint16_t strand = 0; strand < 3; ++strand) {
    auto line = StrandLine::Take(**lake, strand, Deadline());
    ASSERT_TRUE(line.ok()) << line.status().ToString();
    auto made = (*line)->MakeBlock(Deadline());
    ASSERT_TRUE(made.ok() && made->ended);
  }
  auto line = StrandLine::Take(**lake, 0, Deadline());
  ASSERT_TRUE(line.ok()) << line.status().ToString();
  auto finished = (*line)->Finish(Deadline());
  EXPECT_EQ(finished.code(), Code::kInvalidArgument);
  EXPECT_NE(finished.status().message().find("delete it"), std::string::npos) << finished.status().ToString();
}

TEST_F(LakeStreamTest, ComparingNeedsNothingOfTheLake) {
  const std::string more = "pack: {length: 16}\nstep: {sequences: 4}\n";
  auto lake = OpenIt(more, 0);
  ASSERT_TRUE(lake.ok()) << lake.status().ToString();
  std::filesystem::remove(folder_ / "a.jsonl");
  StreamLog& log = *(*lake)->log();
  EXPECT_TRUE(CompareRecipe(Words(more), false, log, Deadline()).ok());
  const Status other = CompareRecipe(Words("pack: {length: 16}\nstep: {sequences: 8}\n"), false, log, Deadline());
  EXPECT_EQ(other.code(), Code::kConflict);
  EXPECT_NE(other.message().find("step: 4 in the stream, 8 in the recipe"), std::string::npos) << other.ToString();
  EXPECT_EQ(CompareRecipe(Words(more), true, log, Deadline()).code(), Code::kConflict) << "the holdout is another stream";
  Recipe elsewhere = Words(more);
  elsewhere.sources.front().files = {"other.jsonl"};
  EXPECT_EQ(CompareRecipe(elsewhere, false, log, Deadline()).code(), Code::kConflict);
}

}  // namespace
}  // namespace headrace
