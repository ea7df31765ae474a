#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

namespace headrace {
namespace {

using testing::ElementsAre;

TEST(Cat, PutsPiecesTogether) {
  std::string_view view = "view";
  EXPECT_EQ(Cat(), "");
  EXPECT_EQ(Cat("range ", 3, " of ", std::string("key"), '/', view, ": ", true, " ", -7, " ", 0.25),
            "range 3 of key/view: true -7 0.25");
  EXPECT_EQ(Cat(UINT64_MAX, " ", INT64_MIN), "18446744073709551615 -9223372036854775808");
  EXPECT_EQ(Cat("a literal is not a bool"), "a literal is not a bool");
  EXPECT_EQ(Cat(uint8_t{65}), "65") << "a small number is a number";
}

TEST(Fixed, HasExactlyThesePlaces) {
  EXPECT_EQ(Fixed(1.5, 2), "1.50");
  EXPECT_EQ(Fixed(2.0 / 3, 3), "0.667");
  EXPECT_EQ(Fixed(-0.04, 1), "-0.0");
  EXPECT_EQ(Fixed(1e6, 0), "1000000");
}

TEST(Fixed, HasRoomForEveryDouble) {
  EXPECT_EQ(Fixed(std::numeric_limits<double>::max(), 2).size(), 309u + 3);
  EXPECT_EQ(Fixed(std::numeric_limits<double>::denorm_min(), 1100).size(), 1102u);
  EXPECT_EQ(Fixed(std::numeric_limits<double>::infinity(), 2), "inf");
}

TEST(Split, KeepsEmptyPieces) {
  EXPECT_THAT(Split("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(Split("", ','), ElementsAre(""));
  EXPECT_THAT(Split(",", ','), ElementsAre("", ""));
}

TEST(Trim, TakesSpaceAwayAtBothEnds) {
  EXPECT_EQ(Trim("  a b\t\r\n"), "a b");
  EXPECT_EQ(Trim(" \n "), "");
  EXPECT_EQ(Trim(""), "");
}

TEST(Lower, TouchesAsciiLettersOnly) { EXPECT_EQ(Lower("ÄBCxyz-9"), "Äbcxyz-9"); }

TEST(ParseNumber, TakesTheWholeTextOrNothing) {
  uint64_t value = 0;
  EXPECT_TRUE(ParseNumber("0", value));
  EXPECT_EQ(value, 0u);
  EXPECT_TRUE(ParseNumber("18446744073709551615", value));
  EXPECT_EQ(value, UINT64_MAX);
  for (std::string_view bad : {"", " 1", "1 ", "+1", "-1", "1x", "0x1", "18446744073709551616", "1.0"}) {
    EXPECT_FALSE(ParseNumber(bad, value)) << bad;
  }
}

TEST(PercentEncode, FollowsRfc3986) {
  EXPECT_EQ(PercentEncode("AZaz09-._~"), "AZaz09-._~");
  EXPECT_EQ(PercentEncode("a b+c/d=e%f*ü"), "a%20b%2Bc%2Fd%3De%25f%2A%C3%BC");
  EXPECT_EQ(PercentEncode("a b/c", true), "a%20b/c");
  EXPECT_EQ(PercentEncode(std::string_view("\0\x7f", 2)), "%00%7F");
}

TEST(PercentDecode, RefusesBrokenEscapes) {
  std::string out;
  EXPECT_TRUE(PercentDecode("%41%2b%c3%BC+x", out));
  EXPECT_EQ(out, "A+ü+x");
  for (std::string_view bad : {"%", "%4", "a%4", "%4g", "%g4", "%-1", "%+1", "% 1", "%%41"})
    EXPECT_FALSE(PercentDecode(bad, out)) << bad;
}

TEST(PercentDecode, LooksNoFurtherThanTheEnd) {
  std::string out;
  EXPECT_FALSE(PercentDecode(std::string_view("%41").substr(0, 2), out));
  EXPECT_FALSE(PercentDecode(std::string_view("%41").substr(0, 1), out));
}

RC_GTEST_PROP(PercentDecode, UndoesEncoding, (const std::string& text, bool keep_slash)) {
  std::string out;
  RC_ASSERT(PercentDecode(PercentEncode(text, keep_slash), out));
  RC_ASSERT(out == text);
}

TEST(Hex, IsLowerCaseAndComplete) {
  EXPECT_EQ(Hex("\x00\x7f\xff", 3), "007fff");
  EXPECT_EQ(Hex(nullptr, 0), "");
}

TEST(IsUtf8, AcceptsEveryLengthAndItsLimits) {
  for (std::string_view good : {"", "ascii", "ü", "€", "😀", "\x7f", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                                "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsUtf8(good)) << Hex(good.data(), good.size());
  }
}

TEST(IsUtf8, RefusesOverlongSurrogatesBeyondTheEndAndCutShort) {
  for (std::string_view bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2x", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF0\x9F\x98", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xFE"}) {
    EXPECT_FALSE(IsUtf8(bad)) << Hex(bad.data(), bad.size());
  }
}

RC_GTEST_PROP(IsUtf8, AgreesWithEncodingEveryPoint, ()) {
  auto point = *rc::gen::inRange<uint32_t>(0, 0x110000);
  std::string text;
  if (point < 0x80) {
    text = {static_cast<char>(point)};
  } else if (point < 0x800) {
    text = {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
  } else if (point < 0x10000) {
    text = {static_cast<char>(0xE0 | point >> 12), static_cast<char>(0x80 | (point >> 6 & 0x3F)),
            static_cast<char>(0x80 | (point & 0x3F))};
  } else {
    text = {static_cast<char>(0xF0 | point >> 18), static_cast<char>(0x80 | (point >> 12 & 0x3F)),
            static_cast<char>(0x80 | (point >> 6 & 0x3F)), static_cast<char>(0x80 | (point & 0x3F))};
  }
  RC_ASSERT(IsUtf8(text) == (point < 0xD800 || point >= 0xE000));
}

}  // namespace
}  // namespace headrace
