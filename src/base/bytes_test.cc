#include "headrace/bytes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <new>

namespace headrace {
namespace {

TEST(Bytes, EmptyIsEmpty) {
  Bytes bytes;
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(bytes.size(), 0u);
  EXPECT_EQ(bytes.AsText(), "");
  EXPECT_EQ(bytes, Bytes::FromString(""));
  EXPECT_TRUE(bytes.Slice(3, 4).empty());
}

TEST(Bytes, FromStringTakesTheMemory) {
  std::string text(1000, 'x');
  const char* memory = text.data();
  Bytes bytes = Bytes::FromString(std::move(text));
  EXPECT_EQ(reinterpret_cast<const char*>(bytes.data()), memory);
  EXPECT_EQ(bytes.ToString(), std::string(1000, 'x'));
}

TEST(Bytes, ShortStringsSurviveTheirSource) {
  Bytes bytes;
  {
    std::string text = "ab";  // short enough to live inside the string object itself
    bytes = Bytes::FromString(text);
  }
  EXPECT_EQ(bytes.AsText(), "ab");
}

TEST(Bytes, CopyIsIndependentOfItsSource) {
  std::string source = "abc";
  Bytes bytes = Bytes::Copy(std::as_bytes(std::span(source)));
  source[0] = 'X';
  EXPECT_EQ(bytes.AsText(), "abc");
}

TEST(Bytes, BorrowSeesItsSource) {
  std::string source = "abc";
  Bytes bytes = Bytes::Borrow(std::as_bytes(std::span(source)));
  EXPECT_EQ(reinterpret_cast<const char*>(bytes.data()), source.data());
}

TEST(Bytes, SliceKeepsTheOwnerAlive) {
  auto owner = std::make_shared<std::string>("hello world");
  std::weak_ptr<std::string> watch = owner;
  Bytes slice;
  {
    Bytes whole(std::as_bytes(std::span(*owner)), owner);
    owner.reset();
    slice = whole.Slice(6);
  }
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(slice.AsText(), "world");
  slice = Bytes();
  EXPECT_TRUE(watch.expired());
}

RC_GTEST_PROP(Bytes, SliceIsClippedToWhatIsThere, (const std::string& text, size_t offset, size_t length)) {
  if (*rc::gen::arbitrary<bool>()) offset %= text.size() + 2;
  Bytes slice = Bytes::FromString(text).Slice(offset, length);
  RC_ASSERT(slice.ToString() == (offset <= text.size() ? text.substr(offset, length) : ""));
}

TEST(Buffer, IsAlignedAndFreezesToWhatWasFilled) {
  for (size_t size : {0, 1, 63, 64, 65, 4096}) {
    Buffer buffer(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.span().data()) % Buffer::kAlignment, 0u);
    std::ranges::fill(buffer.span(), std::byte{'z'});
    const std::byte* memory = buffer.span().data();
    Bytes bytes = std::move(buffer).Freeze(size / 2);
    EXPECT_EQ(bytes.ToString(), std::string(size / 2, 'z'));
    EXPECT_EQ(bytes.data(), memory) << "freezing must not copy";
  }
}

TEST(Buffer, FreezesNoMoreThanItHas) {
  Buffer buffer(3);
  EXPECT_EQ(std::move(buffer).Freeze(100).size(), 3u);
}

TEST(Buffer, ImpossibleSizesAreRefusedAndNotRoundedToSmallOnes) {
  EXPECT_THROW(Buffer(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(Buffer(SIZE_MAX - 62), std::bad_alloc);
}

TEST(Bytes, AreOneWithTheirNeighboursInTheSameMemory) {
  Bytes whole = Bytes::FromString("headrace");
  Bytes head = whole.Slice(0, 4);
  Bytes race = whole.Slice(4, 4);
  ASSERT_TRUE(head.JoinedWith(race));
  EXPECT_EQ(head.JoinedWith(race)->AsText(), "headrace");
  EXPECT_EQ(head.JoinedWith(race)->data(), whole.data());
  EXPECT_FALSE(race.JoinedWith(head));
  EXPECT_FALSE(head.JoinedWith(whole.Slice(5, 3)));
  EXPECT_EQ(head.JoinedWith(Bytes())->AsText(), "head");
  EXPECT_EQ(Bytes().JoinedWith(race)->AsText(), "race");
  // Neighbours by chance: nobody says that both live equally long.
  EXPECT_FALSE(head.JoinedWith(Bytes::Borrow(race.span())));
  EXPECT_FALSE(Bytes::Borrow(head.span()).JoinedWith(Bytes::Borrow(race.span())));
}

}  // namespace
}  // namespace headrace
