#include "stream/edit.h"

#include <gtest/gtest.h>

#include "headrace/store.h"

namespace headrace {
namespace {

ChunkEdit SomeChunk() {
  ChunkEdit edit;
  edit.uuid[3] = 7;
  edit.name = {3, 2, 5, 0x123456789abcdef0};
  edit.prev[0] = 9;
  edit.block = 23;
  edit.steps = 4;
  edit.bytes = 1 << 20;
  edit.header_bytes = 192;
  edit.header_crc = 0xdeadbeef;
  edit.footer_bytes = 60;
  edit.mixture = 2;
  return edit;
}

TEST(Intent, ItsKeyBringsTheWholeEdit) {
  for (const Edit& edit : {Edit(SomeChunk()), Edit(EndEdit{{1}, 3, 2, {4}, 27}), Edit(BumpEdit{{1}, 3, 2, 99})}) {
    std::string key = IntentKey(edit, 5);
    EXPECT_TRUE(CheckKey(key).ok());
    std::optional<Intent> intent = ParseIntentKey(key);
    ASSERT_TRUE(intent) << key;
    EXPECT_TRUE(intent->edit == edit);
    EXPECT_EQ(intent->strand, 3);
    EXPECT_EQ(intent->epoch, 2u);
    EXPECT_EQ(intent->seq, 5u);
  }
}

TEST(Intent, ADamagedKeyIsNoIntent) {
  std::string key = IntentKey(SomeChunk(), 5);
  for (size_t i = 0; i < key.size(); ++i) {
    std::string damaged = key;
    damaged[i] = damaged[i] == '1' ? '2' : '1';
    EXPECT_FALSE(ParseIntentKey(damaged)) << "byte " << i;
    EXPECT_FALSE(ParseIntentKey(key.substr(0, i))) << "cut at " << i;
  }
}

}  // namespace
}  // namespace headrace
