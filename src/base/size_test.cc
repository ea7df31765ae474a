#include "base/size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "base/text.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(ParseSize, UnderstandsWhatPeopleWrite) {
  struct Case {
    std::string_view text;
    uint64_t bytes;
  };
  for (Case c : std::initializer_list<Case>{
           {"0", 0},
           {"17", 17},
           {"312B", 312},
           {"312 B", 312},
           {" 2GB ", 2'000'000'000},
           {"2gb", 2'000'000'000},
           {"2G", 2'000'000'000},
           {"2GiB", 2ull << 30},
           {"2Gi", 2ull << 30},
           {"2 gib", 2ull << 30},
           {"64MiB", 64ull << 20},
           {"500KB", 500'000},
           {"1k", 1000},
           {"1.5GB", 1'500'000'000},
           {".5KiB", 512},
           {"0.001MB", 1000},
           {"1TiB", 1ull << 40},
           {"3PB", 3'000'000'000'000'000},
           {"15EiB", 15ull << 60},
           {"18EB", 18'000'000'000'000'000'000u},
           {"18446744073709551615", UINT64_MAX},
           {"1.3GiB", 1395864371},
           {"00012KB", 12'000},
           {"0.000000000000000000001EB", 0},
           {"0.00000000000000000055EB", 1},
       }) {
    Result<uint64_t> parsed = ParseSize(c.text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(*parsed, c.bytes) << c.text;
  }
}

TEST(ParseSize, RefusesTheRestAndSaysWhy) {
  struct Case {
    std::string_view text, why;
  };
  for (Case c : std::initializer_list<Case>{
           {"", "empty"},
           {"  ", "empty"},
           {"-1", "negative"},
           {"-2GB", "negative"},
           {"GB", "number"},
           {"+3", "number"},
           {"3.KB", "number"},
           {".", "number"},
           {"1.2.3KB", "no unit \".3KB\""},
           {"2GX", "no unit \"GX\""},
           {"1e9", "no unit \"e9\""},
           {"0x10", "no unit"},
           {"2 G B", "no unit"},
           {"1,5GB", "no unit"},
           {"1.5", "no fractions"},
           {"1.5B", "no fractions"},
           {"19EB", "larger than"},
           {"18446744073709551616", "larger than"},
           {"16EiB", "larger than"},
           {"295147905179352825856EiB", "larger than"},  // 2^128 bytes
           {"99999999999999999999999999", "24 digits"},
           {"inf", "number"},
           {"nan", "number"},
           {"2GB 3MB", "no unit"},
       }) {
    Result<uint64_t> parsed = ParseSize(c.text);
    ASSERT_FALSE(parsed.ok()) << c.text << " is " << *parsed;
    EXPECT_EQ(parsed.code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(), HasSubstr(c.why));
    EXPECT_THAT(parsed.status().message(), HasSubstr(Cat("\"", c.text, "\"")));
    EXPECT_THAT(parsed.status().message(), HasSubstr("64MiB")) << "says how to write it";
  }
}

TEST(FormatSize, ThreeDigitsAtMost) {
  EXPECT_EQ(FormatSize(0), "0 B");
  EXPECT_EQ(FormatSize(312), "312 B");
  EXPECT_EQ(FormatSize(999), "999 B");
  EXPECT_EQ(FormatSize(999.4), "999 B");
  EXPECT_EQ(FormatSize(999.6), "1KB");
  EXPECT_EQ(FormatSize(1000), "1KB");
  EXPECT_EQ(FormatSize(1234), "1.23KB");
  EXPECT_EQ(FormatSize(12345), "12.3KB");
  EXPECT_EQ(FormatSize(123456), "123KB");
  EXPECT_EQ(FormatSize(999'499), "999KB");
  EXPECT_EQ(FormatSize(999'500), "1MB");
  EXPECT_EQ(FormatSize(64e6), "64MB");
  EXPECT_EQ(FormatSize(1.5e9), "1.5GB");
  EXPECT_EQ(FormatSize(9.996e9), "10GB");
  EXPECT_EQ(FormatSize(1e12), "1TB");
  EXPECT_EQ(FormatSize(1e15), "1PB");
  EXPECT_EQ(FormatSize(18.4e18), "18.4EB");
  EXPECT_EQ(FormatSize(-1500), "-1.5KB");
  EXPECT_EQ(FormatSize(std::numeric_limits<double>::infinity()), "inf B");
}

RC_GTEST_PROP(FormatSize, CanBeReadAgainAndIsWithinHalfAPercent, ()) {
  uint64_t bytes = *rc::gen::arbitrary<uint64_t>() >> *rc::gen::inRange(1, 64);
  Result<uint64_t> again = ParseSize(FormatSize(static_cast<double>(bytes)));
  RC_ASSERT(again.ok());
  auto exact = static_cast<double>(bytes);
  RC_ASSERT(std::abs(static_cast<double>(*again) - exact) <= exact * 0.00501);
}

RC_GTEST_PROP(ParseSize, WholeNumbersOfAnyUnitAreExact, ()) {
  auto count = *rc::gen::inRange<uint64_t>(0, 16);
  auto power = *rc::gen::inRange(1, 7);
  uint64_t binary = count, decimal = count;
  for (int i = 0; i < power; ++i) {
    binary *= 1024;
    decimal *= 1000;
  }
  char prefix = " KMGTPE"[power];
  RC_ASSERT(*ParseSize(Cat(count, prefix, "iB")) == binary);
  RC_ASSERT(*ParseSize(Cat(count, prefix, "B")) == decimal);
}

TEST(ParseDuration, UnderstandsWhatPeopleWrite) {
  struct Case {
    std::string_view text;
    Duration time;
  };
  for (Case c : std::initializer_list<Case>{
           {"0", 0s},
           {"90", 90s},
           {"1.5", 1500ms},
           {"90s", 90s},
           {"1.5m", 90s},
           {"2min", 2min},
           {"200ms", 200ms},
           {"20us", 20us},
           {"20µs", 20us},
           {"7ns", 7ns},
           {"2h", 2h},
           {"3d", 72h},
           {"2 H", 2h},
           {" 5 s ", 5s},
           {"1h30m", 90min},
           {"1m 40s", 100s},
           {"1d2h3m4s5ms", 26h + 3min + 4s + 5ms},
           {"0.0000000004s", 0ns},
           {"0.0000000006s", 1ns},
           {"0s5ms", 5ms},
           {"9223372036854775807ns", Duration::max()},
       }) {
    Result<Duration> parsed = ParseDuration(c.text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(*parsed, c.time) << c.text;
  }
}

TEST(ParseDuration, RefusesTheRestAndSaysWhy) {
  struct Case {
    std::string_view text, why;
  };
  for (Case c : std::initializer_list<Case>{
           {"", "empty"},
           {"-1s", "negative"},
           {"s", "number"},
           {"1.s", "number"},
           {"5 parsecs", "no unit \"parsecs\""},
           {"1e3", "no unit"},
           {"1h30", "unit is missing"},
           {"30 1h", "unit is missing"},
           {"1m1h", "do not get smaller"},
           {"1s1s", "do not get smaller"},
           {"9223372036854775808ns", "292 years"},
           {"300000d", "292 years"},
           {"106751d24h", "292 years"},
           {"1h x", "a number is missing before \"x\""},
           {"0s x", "a number is missing"},
       }) {
    Result<Duration> parsed = ParseDuration(c.text);
    ASSERT_FALSE(parsed.ok()) << c.text;
    EXPECT_EQ(parsed.code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(), HasSubstr(c.why));
    EXPECT_THAT(parsed.status().message(), HasSubstr("1h30m")) << "says how to write it";
  }
}

TEST(FormatDuration, SaysWhatMatters) {
  EXPECT_EQ(FormatDuration(0s), "0s");
  EXPECT_EQ(FormatDuration(7ns), "7ns");
  EXPECT_EQ(FormatDuration(999ns), "999ns");
  EXPECT_EQ(FormatDuration(1500ns), "1.5us");
  EXPECT_EQ(FormatDuration(999'700ns), "1ms");
  EXPECT_EQ(FormatDuration(20ms), "20ms");
  EXPECT_EQ(FormatDuration(812'345us), "812ms");
  EXPECT_EQ(FormatDuration(999'600us), "1s");
  EXPECT_EQ(FormatDuration(1500ms), "1.5s");
  EXPECT_EQ(FormatDuration(59s), "59s");
  EXPECT_EQ(FormatDuration(59'980ms), "1m");
  EXPECT_EQ(FormatDuration(90s), "1m30s");
  EXPECT_EQ(FormatDuration(59min + 59s), "59m59s");
  EXPECT_EQ(FormatDuration(59min + 59s + 600ms), "1h");
  EXPECT_EQ(FormatDuration(2h + 5min), "2h5m");
  EXPECT_EQ(FormatDuration(23h + 59min + 40s), "1d");
  EXPECT_EQ(FormatDuration(76h), "3d4h");
  EXPECT_EQ(FormatDuration(-1500ms), "-1.5s");
  EXPECT_TRUE(ParseDuration(FormatDuration(Duration::max())).ok());
  EXPECT_FALSE(FormatDuration(Duration::min()).empty());
}

RC_GTEST_PROP(FormatDuration, CanBeReadAgainAndIsWithinAFewPercent, ()) {
  Duration time(static_cast<int64_t>(*rc::gen::arbitrary<uint64_t>() >> *rc::gen::inRange(1, 64)));
  Result<Duration> again = ParseDuration(FormatDuration(time));
  RC_ASSERT(again.ok());
  auto exact = static_cast<double>(time.count());
  RC_ASSERT(std::abs(static_cast<double>(again->count()) - exact) <= exact * 0.042);
}

}  // namespace
}  // namespace headrace
