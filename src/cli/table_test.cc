#include "cli/table.h"

#include <gtest/gtest.h>

namespace headrace::cli {
namespace {

TEST(Table, ColumnsStandUnderEachOther) {
  Table table;
  table.Add({"", "rate", "at once"});
  table.Add({"read objects", "1,234/s", "16"});
  table.Add({"größer", "7/s"});
  EXPECT_EQ(table.Lines(), (std::vector<std::string>{
                               "                 rate  at once",
                               "read objects  1,234/s       16",
                               "größer            7/s",
                           }));
}

TEST(Table, WidthCountsCharactersAndNotBytes) {
  EXPECT_EQ(Width("größer"), 6u);
  EXPECT_EQ(Width("✓"), 1u);
  EXPECT_EQ(PadLeft("✓", 3), "  ✓");
  EXPECT_EQ(PadRight("ü", 3), "ü  ");
  EXPECT_EQ(PadRight("long", 2), "long");
}

TEST(Table, LargeNumbersAreGrouped) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(1234567.4), "1,234,567");
  EXPECT_EQ(Grouped(-12345), "-12,345");
}

}  // namespace
}  // namespace headrace::cli
