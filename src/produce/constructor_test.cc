#include "produce/constructor.h"

#include <gmock/gmock.h>

#include <cstring>

#include "produce/test_lake.h"
#include "stream/cell.h"

namespace headrace {
namespace {

std::vector<int64_t> Integers(const Array& array) {
  std::vector<int64_t> values;
  const size_t width = DtypeBytes(array.dtype);
  for (uint64_t i = 0; i < array.elements(); ++i) {
    int64_t value = 0;
    std::memcpy(&value, array.bytes.data() + i * width, width);
    if (width < 8 && (value >> (8 * width - 1)) != 0 && array.dtype == Dtype::kI16) value -= int64_t{1} << (8 * width);
    values.push_back(value);
  }
  return values;
}

class ConstructorTest : public LakeTest {
 protected:
  // The first step of strand 0, as cells of its lanes.
  std::vector<std::vector<Array>> FirstStep(LakeStream& lake, StepPlan& plan, std::vector<LineageRow>& lineage) {
    StrandFeed feed(lake.recipe(), lake.sources(), lake.layout().kept, 0, Deadline());
    Planner planner(lake.recipe(), lake.kept().first.Names(), feed, lake.Cost());
    Result<std::optional<StepPlan>> next = planner.Next(0, lake.kept().first.mix);
    EXPECT_TRUE(next.ok() && *next);
    plan = **std::move(next);
    const auto find = [&](const Sequence&, const SampleRef& ref) -> const HeldSample& { return feed.Find(ref); };
    Result<std::vector<Body>> cells = Constructor(lake.recipe(), lake.layout()).Build(plan, find, 7, lineage);
    EXPECT_TRUE(cells.ok()) << cells.status().ToString();
    std::vector<std::vector<Array>> lanes;
    for (const Body& body : *cells) {
      std::string bytes;
      for (const Bytes& part : body.parts()) bytes += part.AsText();
      Result<std::vector<Array>> arrays = ReadCell(Bytes::FromString(bytes), lake.layout().columns, "cell");
      EXPECT_TRUE(arrays.ok()) << arrays.status().ToString();
      lanes.push_back(*std::move(arrays));
    }
    return lanes;
  }
};

TEST_F(ConstructorTest, APackedCellHasDocumentsAndTheirBoundaries) {
  std::unique_ptr<LakeStream> lake = Open();
  StepPlan plan;
  std::vector<LineageRow> lineage;
  std::vector<std::vector<Array>> lanes = FirstStep(*lake, plan, lineage);
  ASSERT_EQ(lanes.size(), 2u);
  ASSERT_EQ(lake->layout().columns[1].name, "cu_seqlens");
  ASSERT_EQ(lake->layout().columns[2].name, "source");
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    EXPECT_EQ(lanes[lane][0].shape, (std::vector<uint64_t>{2, 16}));
    const std::vector<int64_t> tokens = Integers(lanes[lane][0]), ends = Integers(lanes[lane][1]),
                               source = Integers(lanes[lane][2]);
    ASSERT_EQ(ends.size(), source.size() + 1);
    EXPECT_EQ(ends.front(), 0);
    EXPECT_EQ(ends.back(), 32);
    size_t documents = 0;
    for (size_t i = 0; i < source.size(); ++i) {
      ASSERT_LT(ends[i], ends[i + 1]);
      if (source[i] < 0) {
        for (int64_t k = ends[i]; k < ends[i + 1]; ++k) EXPECT_EQ(tokens[static_cast<size_t>(k)], 0) << "padding";
        continue;
      }
      EXPECT_EQ(source[i], 0);
      ++documents;
      // Whoever begins here is in the lineage, at this place.
      const bool named = std::ranges::any_of(lineage, [&](const LineageRow& row) {
        return row.lane == lane && int64_t{row.sequence} * 16 + row.position == ends[i] && row.length == ends[i + 1] - ends[i] &&
               row.step == 7 && Document(row.row)[row.start] == tokens[static_cast<size_t>(ends[i])];
      });
      EXPECT_TRUE(named) << "lane " << lane << ", segment " << i;
    }
    EXPECT_GT(documents, 2u);
  }
}

TEST_F(ConstructorTest, EveryCellHasTheNumbersOfTheWholeStep) {
  std::unique_ptr<LakeStream> lake = Open();
  StepPlan plan;
  std::vector<LineageRow> lineage;
  std::vector<std::vector<Array>> lanes = FirstStep(*lake, plan, lineage);
  const std::vector<int64_t> stats = Integers(lanes[0].back());
  EXPECT_EQ(Integers(lanes[1].back()), stats);
  ASSERT_EQ(stats.size(), 4u);
  EXPECT_EQ(stats[1], 4) << "sequences";
  EXPECT_EQ(static_cast<uint64_t>(stats[2]), plan.samples[0]);
  EXPECT_EQ(static_cast<uint64_t>(stats[3]), plan.tokens[0]);
  uint64_t tokens = 0;
  for (const LineageRow& row : lineage) tokens += row.length;
  EXPECT_EQ(tokens, plan.tokens[0]);
}

TEST_F(ConstructorTest, WithoutPackingDocumentsStayWhole) {
  std::unique_ptr<LakeStream> lake = Open("step: {samples: 6}\n");
  StepPlan plan;
  std::vector<LineageRow> lineage;
  std::vector<std::vector<Array>> lanes = FirstStep(*lake, plan, lineage);
  size_t rows = 0;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    const std::vector<int64_t> tokens = Integers(lanes[lane][0]), offsets = Integers(lanes[lane][1]);
    for (const LineageRow& row : lineage) {
      if (row.lane != lane) continue;
      const auto begin = tokens.begin() + offsets[row.sequence], end = tokens.begin() + offsets[row.sequence + 1];
      EXPECT_EQ(std::vector<int64_t>(begin, end), Document(row.row));
      ++rows;
    }
  }
  EXPECT_EQ(rows, 6u);
}

}  // namespace
}  // namespace headrace
