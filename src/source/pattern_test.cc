#include <gmock/gmock.h>

#include "source/lake.h"

namespace headrace {
namespace {

using testing::ElementsAre;

TEST(ExpandBraces, KnowsRangesAndAlternatives) {
  EXPECT_THAT(*ExpandBraces("a{0..2}b"), ElementsAre("a0b", "a1b", "a2b"));
  EXPECT_THAT(*ExpandBraces("{08..11}"), ElementsAre("08", "09", "10", "11"));
  EXPECT_THAT(*ExpandBraces("{0..9..4}"), ElementsAre("0", "4", "8"));
  EXPECT_THAT(*ExpandBraces("{3..1}"), ElementsAre("3", "2", "1"));
  EXPECT_THAT(*ExpandBraces("{a..c}{x,y/z}"), ElementsAre("ax", "ay/z", "bx", "by/z", "cx", "cy/z"));
  EXPECT_THAT(*ExpandBraces("{a,b{1..2}}"), ElementsAre("a", "b1", "b2"));
  EXPECT_THAT(*ExpandBraces("{single}"), ElementsAre("{single}"));
  EXPECT_THAT(*ExpandBraces("open{1..2"), ElementsAre("open{1..2"));
  EXPECT_EQ(ExpandBraces("{000000..099999}.tar")->size(), 100000u);
  EXPECT_EQ(ExpandBraces("{1..9999}{1..9999}").code(), Code::kInvalidArgument);
}

TEST(MatchGlob, StaysInsideNamesExceptForTwoStars) {
  EXPECT_TRUE(MatchGlob("a/*.parquet", "a/x.parquet"));
  EXPECT_FALSE(MatchGlob("a/*.parquet", "a/b/x.parquet"));
  EXPECT_FALSE(MatchGlob("a/*", "a/.hidden"));
  EXPECT_TRUE(MatchGlob("a/.*", "a/.hidden"));
  EXPECT_TRUE(MatchGlob("**/*.parquet", "x.parquet"));
  EXPECT_TRUE(MatchGlob("**/*.parquet", "a/b/c/x.parquet"));
  EXPECT_FALSE(MatchGlob("**/*.parquet", "a/.b/x.parquet"));
  EXPECT_TRUE(MatchGlob("a/**", "a/b/c"));
  EXPECT_FALSE(MatchGlob("a/**", "b/c"));
  EXPECT_TRUE(MatchGlob("part-?[0-4].bin", "part-73.bin"));
  EXPECT_FALSE(MatchGlob("part-?[!0-4].bin", "part-73.bin"));
  EXPECT_TRUE(MatchGlob("*a*b*c", "xxaxxbxxbxc"));
  EXPECT_FALSE(MatchGlob("*a*b*c", "xxaxxbxxbx"));
  EXPECT_TRUE(MatchGlob("odd[name", "odd[name"));
  EXPECT_TRUE(MatchGlob("*", "x"));
}

TEST(ParsePattern, FindsTheStoreAndTheOptions) {
  auto s3 = ParsePattern("s3://lake/web/part-?.parquet?endpoint=http://127.0.0.1:9000&region=eu", "/recipes");
  ASSERT_TRUE(s3.ok()) << s3.status().ToString();
  EXPECT_EQ(s3->root, "s3://lake");
  EXPECT_THAT(s3->globs, ElementsAre("web/part-?.parquet"));
  EXPECT_EQ(s3->query.at("endpoint"), "http://127.0.0.1:9000");
  auto relative = ParsePattern("../lake/{a,b}/*.jsonl", "/data/recipes");
  ASSERT_TRUE(relative.ok());
  EXPECT_EQ(relative->root, "/data/lake");
  EXPECT_THAT(relative->globs, ElementsAre("a/*.jsonl", "b/*.jsonl"));
  auto folder = ParsePattern("/lake/web/", "");
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ(folder->root, "/lake");
  EXPECT_THAT(folder->globs, ElementsAre("web"));
  EXPECT_EQ(ParsePattern("s3://lake", "").code(), Code::kInvalidArgument);
  EXPECT_EQ(ParsePattern("file:///data/a%20b/*.jsonl", "")->root, "/data/a b");
}

}  // namespace
}  // namespace headrace
