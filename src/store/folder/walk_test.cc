#include "store/folder/walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/random.h"
#include "base/text.h"
#include "store/folder_store.h"
#include "store/memory_store.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

const Deadline kNever;

class WalkTest : public testing::Test {
 protected:
  ~WalkTest() override { fs::remove_all(root_); }

  // All pages, one behind the other. They must come in order, and not go on for ever.
  static std::vector<std::string> Pages(ObjectStore& store, ListOptions options, const std::function<void()>& between = [] {}) {
    std::vector<std::string> keys;
    for (int pages = 0; pages < 10000; ++pages) {
      auto page = store.List(options, kNever);
      if (!page.ok()) return {page.status().ToString()};
      for (const ListEntry& entry : page->entries) keys.push_back(entry.key);
      options.page = page->next;
      if (options.page.empty()) return keys;
      between();
    }
    return {"a list without end"};
  }

  const fs::path root_ = fs::temp_directory_path() / Cat("walk_test-", Random::FromEntropy().Hex(16));
  FolderStore folder_{root_.string(), {.sync = false}};
};

// Few letters around '/', so that prefixes and folders of each other are common.
std::string RandomKey(Random& random) {
  std::string key;
  for (uint64_t left = 1 + random.Below(6); left > 0; --left) key += "a.-0b/"[random.Below(6)];
  return key;
}

TEST_F(WalkTest, ListsAsTheStoreInMemoryDoes) {
  const uint64_t seed = Random::FromEntropy().Below(1000000);
  SCOPED_TRACE(Cat("seed ", seed));
  Random random(seed);
  MemoryStore memory;
  for (int round = 0; round < 400; ++round) {
    for (int i = 0; i < 5; ++i) {
      std::string key = RandomKey(random);
      if (random.Chance(0.6)) {
        EXPECT_EQ(folder_.Put(key, key, kNever).code(), memory.Put(key, key, kNever).code()) << key;
      } else {
        EXPECT_EQ(folder_.DeleteOne(key, kNever).code(), memory.DeleteOne(key, kNever).code()) << key;
      }
    }
    ListOptions options{.limit = 1 + random.Below(8)};
    if (random.Chance(0.5)) options.prefix = RandomKey(random).substr(0, 1 + random.Below(3));
    if (random.Chance(0.5)) options.start_after = RandomKey(random);
    ASSERT_EQ(Pages(folder_, options), Pages(memory, options))
        << "prefix " << options.prefix << ", after " << options.start_after << ", limit " << options.limit;
  }
}

TEST_F(WalkTest, WhatStaysIsListedOnceWhileTheRestVanishes) {
  // Everything of a page but one may be gone when it is looked at, and whole folders too.
  Random random(7);
  std::vector<std::string> stay;
  for (int i = 0; i < 60; ++i) {
    std::string key = Cat("d", i % 6, "/k", i);
    ASSERT_TRUE(folder_.Put(key, key, kNever).ok());
    if (i % 6 == 5 || i % 7 == 0) stay.push_back(key);
  }
  std::ranges::sort(stay);
  auto vanish = [&] {
    for (int i = 0; i < 4; ++i) {
      int victim = static_cast<int>(random.Below(60));
      std::string key = Cat("d", victim % 6, "/k", victim);
      ASSERT_TRUE(std::ranges::binary_search(stay, key) || folder_.DeleteOne(key, kNever).ok());
    }
  };
  std::vector<std::string> seen = Pages(folder_, {.limit = 3}, vanish);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end()) << "a key came twice";
  EXPECT_TRUE(std::ranges::includes(seen, stay));
}

TEST_F(WalkTest, EmptyFoldersDoNotEndAList) {
  for (int i = 0; i < 20; ++i) fs::create_directories(root_ / Cat("empty", i) / "deeper");
  ASSERT_TRUE(folder_.Put("last", std::string(), kNever).ok());
  ASSERT_TRUE(folder_.Put("empty7/deeper/first", std::string(), kNever).ok());
  EXPECT_EQ(Pages(folder_, {.limit = 1}), (std::vector<std::string>{"empty7/deeper/first", "last"}));
  EXPECT_EQ(Pages(folder_, {.limit = 3}), (std::vector<std::string>{"empty7/deeper/first", "last"}));
}

TEST_F(WalkTest, OutOfTimeIsSaidSo) {
  fs::create_directories(root_ / "a" / "b");
  int looks = 0;
  auto page = WalkFolder(FolderSyscalls::Real(), root_.string(), {},
                         [&] { return ++looks < 2 ? Status::Ok() : Status(Code::kTimeout, "late"); });
  EXPECT_EQ(page.code(), Code::kTimeout);
}

}  // namespace
}  // namespace headrace
