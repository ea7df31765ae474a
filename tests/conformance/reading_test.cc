// Get: whole objects, ranges, and where the bytes land.
#include <algorithm>

#include "conformance.h"

namespace headrace {
namespace {

constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz";

TEST_P(StoreConformance, AnAbsentKeyIsAnAnswerAndNoError) {
  EXPECT_EQ(Get("nothing"), std::nullopt);
  EXPECT_EQ(Get("no/such/folder"), std::nullopt);
  EXPECT_EQ(Get("nothing", ByteRange::At(0, 10)), std::nullopt);
}

TEST_P(StoreConformance, BytesComeBackAsTheyWereWritten) {
  std::string all;
  for (int i = 0; i < 1024; ++i) all += static_cast<char>(i % 256);
  Put("all bytes", all);
  EXPECT_EQ(Get("all bytes"), all);
}

TEST_P(StoreConformance, ARangeInTheMiddle) {
  Put("a", std::string(kAlphabet));
  EXPECT_EQ(Get("a", ByteRange::At(5, 3)), "fgh");
}

TEST_P(StoreConformance, TheFirstAndTheLastByte) {
  Put("a", std::string(kAlphabet));
  EXPECT_EQ(Get("a", ByteRange::At(0, 1)), "a");
  EXPECT_EQ(Get("a", ByteRange::At(25, 1)), "z");
  EXPECT_EQ(Get("a", ByteRange::Last(1)), "z");
}

TEST_P(StoreConformance, ARangeToTheEnd) {
  Put("a", std::string(kAlphabet));
  EXPECT_EQ(Get("a", ByteRange::From(23)), "xyz");
  EXPECT_EQ(Get("a", ByteRange::At(0, 26)), kAlphabet);
}

TEST_P(StoreConformance, WhatLiesBehindTheEndIsLeftOut) {
  Put("a", std::string(kAlphabet));
  EXPECT_EQ(Get("a", ByteRange::At(24, 100)), "yz");
  EXPECT_EQ(Get("a", ByteRange::At(26, 1)), "");
  EXPECT_EQ(Get("a", ByteRange::At(1000, 10)), "");
  EXPECT_EQ(Get("a", ByteRange::From(26)), "");
}

TEST_P(StoreConformance, TheLastBytesOfAnObject) {
  Put("a", std::string(kAlphabet));
  EXPECT_EQ(Get("a", ByteRange::Last(3)), "xyz");
  EXPECT_EQ(Get("a", ByteRange::Last(26)), kAlphabet);
}

TEST_P(StoreConformance, MoreLastBytesThanThereAre) {
  Put("a", std::string(kAlphabet));
  EXPECT_EQ(Get("a", ByteRange::Last(1000)), kAlphabet);
}

TEST_P(StoreConformance, ARangeOfNoBytesIsRefused) {
  Put("a", std::string(kAlphabet));
  EXPECT_EQ(store().Get("a", GetOptions{.range = ByteRange::At(3, 0)}, Soon()).code(), Code::kInvalidArgument);
  EXPECT_EQ(store().Get("a", GetOptions{.range = ByteRange::Last(0)}, Soon()).code(), Code::kInvalidArgument);
}

TEST_P(StoreConformance, EveryAnswerTellsTheSizeOfTheWholeObject) {
  Put("a", std::string(kAlphabet));
  for (ByteRange range :
       {ByteRange::All(), ByteRange::At(3, 4), ByteRange::From(20), ByteRange::Last(2), ByteRange::At(500, 5)}) {
    auto object = store().Get("a", GetOptions{.range = range}, Soon());
    ASSERT_TRUE(object.ok()) << object.status().ToString();
    EXPECT_EQ((*object)->size, 26u) << range.ToString();
  }
}

TEST_P(StoreConformance, AnEmptyObject) {
  Put("empty", Body());
  EXPECT_EQ(Get("empty"), "");
  EXPECT_EQ(Get("empty", ByteRange::At(0, 10)), "");
  EXPECT_EQ(Get("empty", ByteRange::Last(10)), "");
  EXPECT_EQ((**store().Get("empty", Soon())).size, 0u);
  EXPECT_EQ(Create("empty", std::string("other")), PutOutcome::kExists);
}

TEST_P(StoreConformance, BytesLandInTheMemoryOfTheCaller) {
  Put("a", std::string(kAlphabet));
  std::string memory(10, '.');
  auto object =
      store().Get("a", GetOptions{.range = ByteRange::At(2, 5), .into = std::as_writable_bytes(std::span(memory))}, Soon());
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  EXPECT_EQ((*object)->bytes.AsText(), "cdefg");
  EXPECT_EQ(static_cast<const void*>((*object)->bytes.data()), memory.data());
  EXPECT_EQ(memory, "cdefg.....") << "what was not asked for must stay as it was";
}

TEST_P(StoreConformance, BytesLandPieceByPieceOrComeAsAWhole) {
  struct Gathering : Landing {
    void Take(uint64_t offset, std::span<const std::byte> piece) override {
      bytes.resize(offset);
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    }
    std::vector<std::byte> bytes;
  };
  Bytes noise = Noise(5 << 20, 11);
  Put("large", noise);
  for (uint64_t offset : {0, 1'000'001}) {
    Gathering landing;
    auto object = store().Get("large", GetOptions{.range = ByteRange::At(offset, 3 << 20), .landing = &landing}, Soon());
    ASSERT_TRUE(object.ok()) << object.status().ToString();
    EXPECT_EQ((*object)->size, noise.size());
    EXPECT_EQ((*object)->landed, landing.bytes.size());
    std::span<const std::byte> got = landing.bytes.empty() ? (*object)->bytes.span() : std::span<const std::byte>(landing.bytes);
    EXPECT_EQ(WhereDifferent(got, noise.Slice(offset, 3 << 20).span()), "");
    EXPECT_TRUE(landing.bytes.empty() || (*object)->bytes.empty());
  }
  Gathering landing;
  EXPECT_FALSE(store().Get("absent", GetOptions{.range = ByteRange::At(0, 5), .landing = &landing}, Soon())->has_value());
  EXPECT_TRUE(landing.bytes.empty());
}

TEST_P(StoreConformance, MemoryThatFitsExactly) {
  Put("a", std::string(kAlphabet));
  std::string memory(26, '.');
  auto object = store().Get("a", GetOptions{.into = std::as_writable_bytes(std::span(memory))}, Soon());
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  EXPECT_EQ(memory, kAlphabet);
}

TEST_P(StoreConformance, ALongerAnswerThanFitsIsAnError) {
  Put("a", std::string(kAlphabet));
  std::string memory(30, '.');
  auto small = std::as_writable_bytes(std::span(memory)).first(25);
  auto object = store().Get("a", GetOptions{.into = small}, Soon());
  EXPECT_EQ(object.code(), Code::kInvalidArgument) << object.status().ToString();
  EXPECT_EQ(memory.substr(25), ".....") << "written behind the memory that was given";
}

TEST_P(StoreConformance, AnEmptyAnswerIntoMemory) {
  Put("empty", Body());
  std::string memory(4, '.');
  auto object = store().Get("empty", GetOptions{.into = std::as_writable_bytes(std::span(memory))}, Soon());
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  ASSERT_TRUE(object->has_value());
  EXPECT_TRUE((*object)->bytes.empty());
  EXPECT_EQ(memory, "....");
  EXPECT_FALSE(store().Get("absent", GetOptions{.into = std::as_writable_bytes(std::span(memory))}, Soon())->has_value());
}

TEST_P(StoreConformance, SixtyFourMebibytes) {
  Bytes noise = Noise(64 << 20);
  ASSERT_EQ(Create("large", noise), PutOutcome::kCreated);
  auto object = store().Get("large", Soon());
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  EXPECT_EQ(WhereDifferent((*object)->bytes.span(), noise.span()), "");
  // Across the bounds of pages and of the parts of an upload.
  for (uint64_t offset : {uint64_t{4095}, uint64_t{(5 << 20) - 1}, uint64_t{(8 << 20) - 3}, uint64_t{(32 << 20) + 17}}) {
    auto piece = store().Get("large", GetOptions{.range = ByteRange::At(offset, 1 << 20)}, Soon());
    ASSERT_TRUE(piece.ok()) << piece.status().ToString();
    EXPECT_EQ(WhereDifferent((*piece)->bytes.span(), noise.Slice(offset, 1 << 20).span()), "") << "from byte " << offset;
  }
  EXPECT_EQ(Create("large", std::string("small")), PutOutcome::kExists);
}

TEST_P(StoreConformance, ALargeObjectIntoMemory) {
  Bytes noise = Noise(20 << 20, 7);
  Put("large", noise);
  Buffer memory(20 << 20);
  std::ranges::fill(memory.span(), std::byte{0});
  auto object = store().Get("large", GetOptions{.into = memory.span()}, Soon());
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  EXPECT_EQ(WhereDifferent(memory.span(), noise.span()), "");
}

TEST_P(StoreConformance, ReadBytesStayAsTheyWereWhateverHappensToTheKey) {
  Bytes before = Noise(300000, 1), after = Noise(300000, 2);
  Put("a", before);
  Bytes held = (**store().Get("a", Soon())).bytes;
  Put("a", after);
  EXPECT_EQ(WhereDifferent(held.span(), before.span()), "");
  Bytes replaced = (**store().Get("a", Soon())).bytes;
  Delete({"a"});
  EXPECT_EQ(WhereDifferent(replaced.span(), after.span()), "");
}

TEST_P(StoreConformance, ManyReadersAtOnce) {
  Bytes noise = Noise(1 << 20, 3);
  Put("a", noise);
  AtOnce(16, [&](int reader) {
    for (int i = 0; i < 10; ++i) {
      uint64_t offset = (reader * 65521 + i * 4099) % (1 << 20);
      auto object = store().Get("a", GetOptions{.range = ByteRange::At(offset, 100000)}, Soon());
      ASSERT_TRUE(object.ok()) << object.status().ToString();
      EXPECT_EQ(WhereDifferent((*object)->bytes.span(), noise.Slice(offset, 100000).span()), "");
    }
  });
}

}  // namespace
}  // namespace headrace
