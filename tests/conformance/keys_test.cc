// Keys: the odd ones that must work, and the bad ones that nobody may take.
#include <algorithm>

#include "base/text.h"
#include "conformance.h"

namespace headrace {
namespace {

const std::vector<std::string> kOddKeys = {"with space",
                                           "two  spaces",
                                           "lead/ space",
                                           "plus+plus",
                                           "per%cent",
                                           "per%20cent",
                                           "equal=sign/date=2026-01-02",
                                           "ü/ö/ß",
                                           "漢字/かな",
                                           "🦀",
                                           "star*",
                                           "tilde~",
                                           "single'quote",
                                           "double\"quote",
                                           "amp&ersand",
                                           "question?mark",
                                           "hash#tag",
                                           "semi;colon",
                                           "comma,dot.",
                                           "at@colon:",
                                           "dollar$",
                                           "bang!",
                                           "(round)",
                                           "[square]",
                                           "{curly}",
                                           "pipe|pipe",
                                           "caret^",
                                           "back`tick",
                                           "less<greater>",
                                           "back\\slash",
                                           "-dash",
                                           "_under",
                                           ".hidden",
                                           "...three",
                                           "trailing.",
                                           "a..b/c..",
                                           "UPPER/lower",
                                           "upper/LOWER",
                                           "cafe\u0301",
                                           "caf\u00e9",
                                           "%2F",
                                           "%2e%2e",
                                           "<xml>&amp;",
                                           "x-amz-meta",
                                           "null",
                                           "line\u2028separator",
                                           "\u00a0nbsp",
                                           "0",
                                           "~"};

TEST_P(StoreConformance, OddKeysHoldWhatWasPutThere) {
  PutEach(kOddKeys);
  for (const std::string& key : kOddKeys) EXPECT_EQ(Get(key), key) << key;
}

TEST_P(StoreConformance, OddKeysAreListedAsTheyWereWritten) {
  PutEach(kOddKeys);
  std::vector<std::string> sorted = kOddKeys;
  std::ranges::sort(sorted);
  EXPECT_EQ(List(), sorted);
  for (const std::string& key : kOddKeys) {
    std::vector<std::string> found = List(key);
    EXPECT_NE(std::ranges::find(found, key), found.end()) << "not found by the prefix " << key;
  }
}

TEST_P(StoreConformance, OddKeysAreCreatedOnceAndDeleted) {
  for (const std::string& key : kOddKeys) {
    EXPECT_EQ(Create(key, key), PutOutcome::kCreated) << key;
    EXPECT_EQ(Create(key, std::string("other")), PutOutcome::kExists) << key;
  }
  Delete(kOddKeys);
  EXPECT_EQ(List(), std::vector<std::string>());
}

TEST_P(StoreConformance, OddKeysCanBeStartedAfter) {
  PutEach(kOddKeys);
  std::vector<std::string> sorted = kOddKeys;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); i += 7) {
    EXPECT_EQ(List(ListOptions{.start_after = sorted[i]}), std::vector(sorted.begin() + i + 1, sorted.end()))
        << "after " << sorted[i];
  }
}

TEST_P(StoreConformance, DeepKeys) {
  std::string key;
  for (int depth = 0; depth < 60; ++depth) key += Cat("d", depth, "/");
  key += "leaf";
  Put(key, std::string("deep"));
  EXPECT_EQ(Get(key), "deep");
  EXPECT_EQ(List("d0/d1/d2/d3/"), std::vector<std::string>{key});
  Delete({key});
  EXPECT_EQ(List(), std::vector<std::string>());
}

TEST_P(StoreConformance, LongKeys) {
  // With the store's own prefix, S3 has 1024 bytes at the most.
  std::string key =
      Cat(std::string(255, 'a'), "/", std::string(255, 'b'), "/", std::string(255, 'c'), "/", std::string(132, 'd'));
  ASSERT_EQ(key.size(), 900u);
  EXPECT_EQ(Create(key, std::string("long")), PutOutcome::kCreated);
  EXPECT_EQ(Get(key), "long");
  EXPECT_EQ(List(), std::vector<std::string>{key});
}

TEST_P(StoreConformance, KeysThatDifferOnlyInCaseAreDifferent) {
  PutEach({"k/Name", "k/name", "k/NAME"});
  EXPECT_EQ(List(), (std::vector<std::string>{"k/NAME", "k/Name", "k/name"}));
  EXPECT_EQ(Get("k/Name"), "k/Name");
}

TEST_P(StoreConformance, BadKeysAreRefusedByEveryOperation) {
  const std::vector<std::string> bad = {"",
                                        "/",
                                        "/a",
                                        "a/",
                                        "a//b",
                                        "..",
                                        "../a",
                                        "a/..",
                                        "a/../b",
                                        ".",
                                        "./a",
                                        "a/./b",
                                        "a\nb",
                                        std::string("a\0b", 3),
                                        "tab\t",
                                        "\x7f",
                                        "\xff\xfe",
                                        std::string(256, 'a'),
                                        std::string(901, 'a')};
  for (const std::string& key : bad) {
    EXPECT_EQ(store().Get(key, Soon()).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store().Put(key, std::string("x"), Soon()).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store().PutIfAbsent(key, std::string("x"), Soon()).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store().DeleteOne(key, Soon()).code(), Code::kInvalidArgument) << key;
  }
  EXPECT_EQ(List(), std::vector<std::string>());
}

TEST_P(StoreConformance, OneBadKeyStopsAWholeDelete) {
  Put("a", std::string("a"));
  EXPECT_EQ(store().Delete(std::vector<std::string>{"a", "../b"}, Soon()).code(), Code::kInvalidArgument);
  EXPECT_EQ(Get("a"), "a");
}

}  // namespace
}  // namespace headrace
