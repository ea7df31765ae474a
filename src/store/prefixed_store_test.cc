#include "store/prefixed_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/memory_store.h"

namespace headrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Deadline kNever;

class PrefixedStoreTest : public testing::Test {
 protected:
  std::vector<std::string> Keys(ObjectStore& store, const std::string& prefix = "") {
    std::vector<std::string> keys;
    auto all = ListAll(store, prefix, kNever);
    for (const ListEntry& entry : *all) keys.push_back(entry.key);
    return keys;
  }
  std::shared_ptr<MemoryStore> whole_ = std::make_shared<MemoryStore>("lake");
  PrefixedStore part_{whole_, "/runs/a/"};
};

TEST_F(PrefixedStoreTest, KeysLieUnderThePrefix) {
  ASSERT_TRUE(part_.Put("log/1", std::string("one"), kNever).ok());
  ASSERT_EQ(part_.PutIfAbsent("log/2", std::string("two"), kNever)->kind, PutOutcome::kCreated);
  EXPECT_THAT(Keys(*whole_), ElementsAre("runs/a/log/1", "runs/a/log/2"));
  EXPECT_EQ((**part_.Get("log/2", kNever)).bytes.AsText(), "two");
  ASSERT_TRUE(part_.DeleteOne("log/1", kNever).ok());
  EXPECT_THAT(Keys(*whole_), ElementsAre("runs/a/log/2"));
}

TEST_F(PrefixedStoreTest, ListsOnlyItsOwnWithoutThePrefix) {
  for (const char* key : {"runs/a/x", "runs/a/y/1", "runs/ab/x", "runs/b", "x"})
    ASSERT_TRUE(whole_->Put(key, std::string(), kNever).ok());
  EXPECT_THAT(Keys(part_), ElementsAre("x", "y/1"));
  EXPECT_THAT(Keys(part_, "y"), ElementsAre("y/1"));
  auto page = part_.List({.start_after = "x"}, kNever);
  ASSERT_EQ(page->entries.size(), 1u);
  EXPECT_EQ(page->entries[0].key, "y/1");
}

TEST_F(PrefixedStoreTest, PagesGoOnWhereTheyEnded) {
  for (const char* key : {"a", "b", "c", "d", "e"}) ASSERT_TRUE(part_.Put(key, std::string(), kNever).ok());
  std::vector<std::string> keys;
  ListOptions options{.limit = 2};
  do {
    auto page = part_.List(options, kNever);
    for (const ListEntry& entry : page->entries) keys.push_back(entry.key);
    options.page = page->next;
  } while (!options.page.empty());
  EXPECT_THAT(keys, ElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(PrefixedStoreTest, MessagesNameTheWholeKey) {
  EXPECT_EQ(part_.Describe("log/1"), "mem://lake/runs/a/log/1");
  EXPECT_EQ(part_.Describe(), "mem://lake/runs/a");
  EXPECT_EQ(PrefixedStore(whole_, "").Describe(), "mem://lake");
}

TEST_F(PrefixedStoreTest, AnEmptyPrefixIsTheStoreItself) {
  PrefixedStore same(whole_, "/");
  ASSERT_TRUE(same.Put("k", std::string("v"), kNever).ok());
  EXPECT_THAT(Keys(*whole_), ElementsAre("k"));
}

TEST_F(PrefixedStoreTest, NoKeyLeavesThePrefix) {
  EXPECT_EQ(part_.Put("../b/x", std::string(), kNever).code(), Code::kInvalidArgument);
  EXPECT_EQ(part_.Get("", kNever).code(), Code::kInvalidArgument);
}

// Stores that answer a list with what nobody asked for, or with the marker of a folder.
class OddLister final : public StoreDecorator {
 public:
  OddLister(std::shared_ptr<ObjectStore> inner, std::string extra) : StoreDecorator(std::move(inner)), extra_(std::move(extra)) {}
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override {
    auto page = StoreDecorator::List(options, deadline);
    page->entries.push_back({extra_, 0});
    return page;
  }

 private:
  std::string extra_;
};

TEST_F(PrefixedStoreTest, TheMarkerOfAFolderIsNoKey) {
  PrefixedStore part(std::make_shared<OddLister>(whole_, "runs/a/"), "runs/a");
  ASSERT_TRUE(part.Put("k", std::string(), kNever).ok());
  EXPECT_THAT(Keys(part), ElementsAre("k"));
}

TEST_F(PrefixedStoreTest, AForeignKeyInAListIsAnErrorThatNamesIt) {
  PrefixedStore part(std::make_shared<OddLister>(whole_, "runs/b/x"), "runs/a");
  auto page = part.List({}, kNever);
  EXPECT_EQ(page.code(), Code::kCorrupt);
  EXPECT_THAT(page.status().message(), HasSubstr("mem://lake/runs/b/x"));
}

}  // namespace
}  // namespace headrace
