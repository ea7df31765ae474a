#include "source/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace headrace {
namespace {

TEST(BlockPool, HoldsWhatIsAskedForAndKeepsItWhenItGrowsAndShrinks) {
  arrow::MemoryPool& pool = *BlockPool();
  for (int64_t size : {int64_t{1}, int64_t{65535}, int64_t{65536}, int64_t{65537}, int64_t{81920}, int64_t{1 << 20},
                       int64_t{(1 << 20) + 1}, int64_t{16 << 20}, int64_t{(16 << 20) + 1}}) {
    uint8_t* data = nullptr;
    ASSERT_TRUE(pool.Allocate(size, &data).ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    std::memset(data, 7, static_cast<size_t>(size));
    ASSERT_TRUE(pool.Reallocate(size, 3 * size, &data).ok());
    std::memset(data + size, 9, static_cast<size_t>(2 * size));
    EXPECT_TRUE(std::all_of(data, data + size, [](uint8_t byte) { return byte == 7; }));
    ASSERT_TRUE(pool.Reallocate(3 * size, size + 1, &data).ok());
    EXPECT_EQ(data[size - 1], 7);
    EXPECT_EQ(data[size], 9);
    pool.Free(data, size + 1);
  }
}

TEST(BlockPool, UsesABlockAgainAndKeepsNoMoreThanItMay) {
  arrow::MemoryPool& pool = *BlockPool();
  KeepIdleBlocks(4 << 20);
  pool.ReleaseUnused();
  std::vector<uint8_t*> blocks(16);
  for (uint8_t*& block : blocks) ASSERT_TRUE(pool.Allocate(1 << 20, &block).ok());
  uint8_t* other = nullptr;
  ASSERT_TRUE(pool.Allocate(300 << 10, &other).ok());
  for (uint8_t* block : blocks) pool.Free(block, 1 << 20);
  EXPECT_EQ(IdleBlockBytes(), uint64_t{4} << 20);
  // What is of another size gets room, though the limit is reached.
  pool.Free(other, 300 << 10);
  EXPECT_LE(IdleBlockBytes(), uint64_t{4} << 20);
  uint8_t* again = nullptr;
  ASSERT_TRUE(pool.Allocate(300 << 10, &again).ok());
  EXPECT_EQ(again, other);
  pool.Free(again, 300 << 10);
  pool.ReleaseUnused();
  EXPECT_EQ(IdleBlockBytes(), 0u);
}

}  // namespace
}  // namespace headrace
