#include "produce/lineage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace {
namespace {

TEST(Lineage, IsReadAsItWasWritten) {
  std::vector<LineageRow> rows;
  for (uint32_t i = 0; i < 500; ++i)
    rows.push_back({i / 100, i % 4, i % 3, i * 7, static_cast<uint16_t>(i % 2), i % 5, int64_t{1} << (i % 40), i, i + 1});
  const std::vector<std::string> sources = {"web", "code"};
  std::vector<std::string> files = {"a", "b", "c", "d", "e"};
  Result<std::string> bytes =
      EncodeLineage(rows, sources, 9, [&](uint16_t, uint32_t file) -> const std::string& { return files[file]; });
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  Result<std::vector<LineageSample>> back = DecodeLineage(Bytes::FromString(*bytes), "it");
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  ASSERT_EQ(back->size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const LineageRow& row = rows[i];
    const LineageSample& sample = (*back)[i];
    EXPECT_EQ(std::tie(sample.step, sample.lane, sample.sequence, sample.position, sample.row, sample.start, sample.length),
              std::tie(row.step, row.lane, row.sequence, row.position, row.row, row.start, row.length));
    EXPECT_EQ(sample.source, sources[row.source]);
    EXPECT_EQ(sample.file, files[row.file]);
    EXPECT_EQ(sample.mixture, 9u);
  }
}

TEST(Lineage, OfNothingIsNothing) {
  const std::string none;
  Result<std::string> bytes = EncodeLineage({}, {}, 0, [&](uint16_t, uint32_t) -> const std::string& { return none; });
  ASSERT_TRUE(bytes.ok());
  Result<std::vector<LineageSample>> back = DecodeLineage(Bytes::FromString(*bytes), "it");
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_TRUE(back->empty());
}

TEST(Lineage, DamageIsNamed) {
  Result<std::vector<LineageSample>> back = DecodeLineage(Bytes::FromString("no parquet at all"), "lineage/3/x");
  EXPECT_EQ(back.code(), Code::kCorrupt);
  EXPECT_THAT(back.status().message(), ::testing::HasSubstr("lineage/3/x"));
}

TEST(Lineage, IsNamedLikeItsChunk) {
  ChunkName name;
  name.strand = 3;
  name.epoch = 2;
  name.seq = 17;
  name.nonce = 5;
  EXPECT_EQ("data/" + LineageKey(name).substr(8), name.Key());
  EXPECT_TRUE(LineageKey(name).starts_with("lineage/"));
}

}  // namespace
}  // namespace headrace
