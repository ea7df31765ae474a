// List: complete over any number of pages, whatever the prefix, and whatever others do meanwhile.
#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "base/text.h"
#include "conformance.h"

namespace headrace {
namespace {

using Keys = std::vector<std::string>;

TEST_P(StoreConformance, AnEmptyStoreHasAnEmptyList) {
  EXPECT_EQ(List(), Keys());
  EXPECT_EQ(List("any/prefix"), Keys());
  EXPECT_EQ(List(ListOptions{.start_after = "x"}), Keys());
}

TEST_P(StoreConformance, AListTellsSizes) {
  Put("a", std::string(123, 'x'));
  Put("b/c", Body());
  Put("b/d", Noise(70000));
  auto all = ListAll(store(), "", Soon());
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  EXPECT_EQ(*all, (std::vector<ListEntry>{{"a", 123}, {"b/c", 0}, {"b/d", 70000}}));
}

TEST_P(StoreConformance, AVersionIsTheSameInListsAndReadsAndChangesWithTheContent) {
  Put("a", std::string(100, 'x'));
  auto before = ListAll(store(), "", Soon());
  auto read = store().Get("a", {.range = ByteRange::At(5, 10)}, Soon());
  ASSERT_TRUE(before.ok() && before->size() == 1 && read.ok() && *read);
  EXPECT_EQ(before->front().version, (*read)->version);
  if (before->front().version.empty()) GTEST_SKIP() << "this store has no versions";
  // The clock of a file system has ticks of some milliseconds, or of seconds.
  auto after = before;
  const Deadline give_up = Soon();
  for (int i = 0; give_up.Check(RealClock(), "waiting").ok() && after->front().version == before->front().version; ++i) {
    Put("a", std::string(100, static_cast<char>('a' + i % 20)));
    after = ListAll(store(), "", Soon());
    ASSERT_TRUE(after.ok());
  }
  EXPECT_NE(before->front().version, after->front().version);
}

TEST_P(StoreConformance, SevenAPageOverFiftyKeys) {
  Keys keys = Numbered("p/k", 50);
  PutEach(keys);
  EXPECT_EQ(List(ListOptions{.prefix = "p/", .limit = 7}), keys);
}

TEST_P(StoreConformance, OneAPageAcrossFolders) {
  Keys keys = {"a", "b/1", "b/2/x", "b/2/y", "b/3", "c/d/e", "f"};
  PutEach(keys);
  EXPECT_EQ(List(ListOptions{.limit = 1}), keys);
}

TEST_P(StoreConformance, APageThatHoldsExactlyAll) {
  Keys keys = Numbered("k", 10);
  PutEach(keys);
  EXPECT_EQ(List(ListOptions{.limit = 10}), keys);
  EXPECT_EQ(List(ListOptions{.limit = 5}), keys);
}

TEST_P(StoreConformance, MoreKeysThanADefaultPage) {
  Keys keys = Numbered("k", 1100);
  PutEach(keys);
  EXPECT_EQ(List(), keys);
  EXPECT_EQ(store().List({}, Soon())->entries.size(), 1000u);
}

TEST_P(StoreConformance, APrefixNeedNotEndAtASlash) {
  PutEach({"log/0001", "log/0002", "log/0010", "log/hint", "lo", "logs/1", "data/log/0001"});
  EXPECT_EQ(List("log/00"), (Keys{"log/0001", "log/0002", "log/0010"}));
  EXPECT_EQ(List("log/000"), (Keys{"log/0001", "log/0002"}));
  EXPECT_EQ(List("log"), (Keys{"log/0001", "log/0002", "log/0010", "log/hint", "logs/1"}));
  EXPECT_EQ(List("log/"), (Keys{"log/0001", "log/0002", "log/0010", "log/hint"}));
  EXPECT_EQ(List("l"), (Keys{"lo", "log/0001", "log/0002", "log/0010", "log/hint", "logs/1"}));
  EXPECT_EQ(List("log/hint"), Keys{"log/hint"});
  EXPECT_EQ(List("log/hint/"), Keys());
  EXPECT_EQ(List("logx"), Keys());
}

TEST_P(StoreConformance, APrefixThatIsNoKeyFindsNothing) {
  PutEach({"a/b", "c"});
  EXPECT_EQ(List("/"), Keys());
  EXPECT_EQ(List("a//"), Keys());
  EXPECT_EQ(List("a/./"), Keys());
  EXPECT_EQ(List("a/../"), Keys());
  EXPECT_EQ(List("../"), Keys());
}

TEST_P(StoreConformance, StartAfterLeavesOutWhatComesBefore) {
  PutEach(Numbered("k", 20));
  EXPECT_EQ(List(ListOptions{.start_after = "k00017"}), (Keys{"k00018", "k00019"}));
  EXPECT_EQ(List(ListOptions{.start_after = "k000175"}), (Keys{"k00018", "k00019"}));
  EXPECT_EQ(List(ListOptions{.start_after = "k00019"}), Keys());
  EXPECT_EQ(List(ListOptions{.start_after = "a"}).size(), 20u);
  EXPECT_EQ(List(ListOptions{.start_after = "z"}), Keys());
}

TEST_P(StoreConformance, StartAfterAndPrefixAndPagesTogether) {
  Keys keys = Numbered("x/k", 50);
  PutEach(keys);
  PutEach({"a", "x/a", "x/z", "z"});
  EXPECT_EQ(List(ListOptions{.prefix = "x/k", .start_after = "x/k00009", .limit = 7}), Keys(keys.begin() + 10, keys.end()));
  EXPECT_EQ(List(ListOptions{.prefix = "x/k", .start_after = "b", .limit = 7}), keys);
  EXPECT_EQ(List(ListOptions{.prefix = "x/k", .start_after = "y", .limit = 7}), Keys());
}

// '/' stands in the middle of the alphabet: behind '.', '-' and '+', before digits and letters.
TEST_P(StoreConformance, PagesAroundSlashesAreInOneOrder) {
  Keys keys = {"a+", "a-b", "a.b", "a/+", "a/b", "a/b.c", "a0", "aa", "b!/x", "b.x/y", "b/x", "b0/x", "c"};
  PutEach(keys);
  for (size_t limit : {1, 2, 3, 5}) EXPECT_EQ(List(ListOptions{.limit = limit}), keys) << limit << " a page";
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(List(ListOptions{.start_after = keys[i], .limit = 2}), Keys(keys.begin() + i + 1, keys.end()))
        << "after " << keys[i];
  }
  EXPECT_EQ(List(ListOptions{.start_after = "a/"}), Keys(keys.begin() + 3, keys.end()));
  EXPECT_EQ(List(ListOptions{.prefix = "a", .start_after = "a."}), Keys(keys.begin() + 2, keys.begin() + 8));
}

TEST_P(StoreConformance, APageOfNoEntriesIsRefused) {
  EXPECT_EQ(store().List(ListOptions{.limit = 0}, Soon()).code(), Code::kInvalidArgument);
}

TEST_P(StoreConformance, DeletingEachPageBeforeTheNextMissesNothing) {
  Keys keys = Numbered("d/k", 60);
  PutEach(keys);
  Keys seen;
  ListOptions options{.prefix = "d/", .limit = 9};
  do {
    auto page = store().List(options, Soon());
    ASSERT_TRUE(page.ok()) << page.status().ToString();
    Keys listed;
    for (const ListEntry& entry : page->entries) listed.push_back(entry.key);
    Delete(listed);
    seen.insert(seen.end(), listed.begin(), listed.end());
    options.page = page->next;
  } while (!options.page.empty());
  std::ranges::sort(seen);
  EXPECT_EQ(seen, keys);
  EXPECT_EQ(List(), Keys());
}

TEST_P(StoreConformance, WhatWasThereBeforeIsListedWhileOthersWriteAndDelete) {
  Keys keys = Numbered("stays/k", 100);
  PutEach(keys);
  std::atomic<bool> done = false;
  std::jthread rival([&] {
    for (int i = 0; !done; ++i) {
      Keys mine = {Cat("stays/a", i % 10), Cat("stays/k", i % 10, "x"), Cat("stays/z/", i % 10)};
      for (const std::string& key : mine) Put(key, std::string("rival"));
      Delete(mine);
    }
  });
  for (int round = 0; round < 10; ++round) {
    Keys listed = List(ListOptions{.prefix = "stays/", .limit = 13});
    std::erase_if(listed, [&](const std::string& key) { return !std::ranges::binary_search(keys, key); });
    EXPECT_EQ(listed, keys);
  }
  done = true;
}

TEST_P(StoreConformance, EmptyFoldersAreNotThere) {
  PutEach({"a/b/c/d", "a/b/x"});
  Delete({"a/b/c/d"});
  EXPECT_EQ(List(), Keys{"a/b/x"});
  Delete({"a/b/x"});
  EXPECT_EQ(List(), Keys());
  EXPECT_EQ(Create("a/b", std::string("a file now")), PutOutcome::kCreated) << "a folder without objects must make room";
}

}  // namespace
}  // namespace headrace
