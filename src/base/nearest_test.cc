#include "base/nearest.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

constexpr std::string_view kWords[] = {"probe", "bench", "produce", "endpoint", "region", "gc"};

TEST(Nearest, FindsTheWordBehindASlip) {
  EXPECT_EQ(Nearest("prboe", kWords), "probe");      // swapped
  EXPECT_EQ(Nearest("benhc", kWords), "bench");
  EXPECT_EQ(Nearest("prob", kWords), "probe");       // one missing
  EXPECT_EQ(Nearest("produces", kWords), "produce"); // one too many
  EXPECT_EQ(Nearest("end_point", kWords), "endpoint");
  EXPECT_EQ(Nearest("REGION", kWords), "region");
}

TEST(Nearest, SaysNothingRatherThanGuess) {
  EXPECT_EQ(Nearest("xyzzy", kWords), "");
  EXPECT_EQ(Nearest("q", kWords), "");
  EXPECT_EQ(Nearest("", kWords), "");
  EXPECT_EQ(Nearest("probe", {}), "");
}

TEST(Nearest, PrefersTheNearer) {
  constexpr std::string_view kPair[] = {"timeout", "connect_timeout"};
  EXPECT_EQ(Nearest("timeouts", kPair), "timeout");
  EXPECT_EQ(Nearest("conect_timeout", kPair), "connect_timeout");
}

}  // namespace
}  // namespace headrace
