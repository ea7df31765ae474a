#include "produce/memory_need.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

// 1,000 rows of 1 kB in two row groups, cut for the strands.
Inventory MakeInventory(uint32_t granules, uint32_t rows_per_piece) {
  Inventory inventory;
  inventory.format = "parquet";
  inventory.rows = 1000;
  inventory.bytes = 1'000'000;
  inventory.rows_per_piece = rows_per_piece;
  for (uint32_t i = 0; i < granules; ++i)
    inventory.granules.push_back({.file = 0, .part = 2 * i / granules, .first = 0, .count = 1, .rows = 1000 / granules});
  return inventory;
}

Recipe MakeRecipe() {
  Recipe recipe;
  recipe.lanes = 8;
  recipe.strands = 10;
  recipe.lane_bytes = 1'000'000;
  recipe.step[0] = 64;
  recipe.pack.emplace();
  recipe.pack->lengths = {{8192, 1}};
  return recipe;
}

MemoryNeed Need(const Recipe& recipe, const std::vector<Inventory>& inventories, uint32_t strands = UINT32_MAX) {
  std::vector<const Inventory*> all;
  for (const Inventory& inventory : inventories) all.push_back(&inventory);
  return NeedOf(recipe, all, strands);
}

TEST(MemoryNeed, HasAWindowOfEachSourceForEachStrandThatReadsIt) {
  const MemoryNeed one = Need(MakeRecipe(), {MakeInventory(20, 50)});
  EXPECT_EQ(one.windows, 10u * 50 * 2000);
  EXPECT_EQ(one.row_group, 500u * 2000) << "decoded, and whole however it is cut";
  EXPECT_EQ(Need(MakeRecipe(), {MakeInventory(20, 50), MakeInventory(20, 50)}).windows, 2 * one.windows);
  EXPECT_EQ(Need(MakeRecipe(), {MakeInventory(20, 50)}, 4).windows, 4u * 50 * 2000) << "of the strands that it takes";
  EXPECT_EQ(Need(MakeRecipe(), {MakeInventory(4, 50)}).windows, 4u * 50 * 2000) << "others have nothing of it";
  EXPECT_EQ(Need(MakeRecipe(), {MakeInventory(20, 5000)}).windows, 10u * 100 * 2000) << "no more than there is";
}

TEST(MemoryNeed, CountsBlocksAndWorkers) {
  Recipe recipe = MakeRecipe();
  const MemoryNeed before = Need(recipe, {MakeInventory(20, 50)});
  EXPECT_GE(before.block, 12'000'000u);
  EXPECT_EQ(before.workers, 0u);
  recipe.lane_bytes *= 10;
  recipe.transforms.emplace_back();
  recipe.transforms.back().kind = TransformSpec::kPython;
  recipe.transforms.back().workers = 3;
  const MemoryNeed after = Need(recipe, {MakeInventory(20, 50)});
  EXPECT_GT(after.block, 8 * before.block);
  EXPECT_EQ(after.least() - before.least(), after.workers + after.block - before.block);
}

TEST(MemoryNeed, IsRefusedBelowTheLeastWithWhatToDo) {
  const MemoryNeed need = Need(MakeRecipe(), std::vector<Inventory>(30, MakeInventory(20, 50)));
  EXPECT_TRUE(need.Check(need.least(), "r.yaml").ok());
  const Status refused = need.Check(need.least() - 1, "r.yaml");
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  for (const char* part : {"r.yaml", "at least", "30 sources × 10 strands", "Give it --memory ", "--strands"})
    EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();
}

TEST(MemoryNeed, IsDividedWithoutRemainder) {
  const MemoryNeed need = Need(MakeRecipe(), std::vector<Inventory>(30, MakeInventory(20, 50)));
  for (uint64_t memory : {need.least(), 2 * need.least(), uint64_t{8'000'000'000}}) {
    const uint64_t blocks = need.ForBlocks(memory, 4), windows = need.ForWindows(memory, 4);
    EXPECT_GE(blocks, need.block);
    EXPECT_LE(blocks, 4 * need.block);
    EXPECT_GE(windows, need.windows);
    EXPECT_LE(need.process + need.workers + need.carried + blocks + windows, memory);
  }
}

}  // namespace
}  // namespace headrace
