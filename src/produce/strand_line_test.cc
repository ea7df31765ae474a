#include "produce/strand_line.h"

#include <gmock/gmock.h>

#include <cstring>
#include <map>

#include "produce/lineage.h"
#include "produce/test_lake.h"
#include "stream/cell.h"
#include "stream/stream_reader.h"

namespace headrace {
namespace {

// Makes all blocks of all strands in their turn, each by a new line if `anew`, and seals.
void MakeAll(LakeStream& lake, bool anew) {
  std::map<uint16_t, std::unique_ptr<StrandLine>> lines;
  std::vector<bool> ended(3);
  while (std::ranges::find(ended, false) != ended.end()) {
    for (uint16_t strand = 0; strand < 3; ++strand) {
      if (ended[strand]) continue;
      if (anew || !lines[strand]) {
        Result<std::unique_ptr<StrandLine>> line = StrandLine::Take(lake, strand, Deadline());
        ASSERT_TRUE(line.ok()) << line.status().ToString();
        lines[strand] = *std::move(line);
      }
      Result<StrandLine::Made> made = lines[strand]->MakeBlock(Deadline());
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      ended[strand] = made->ended;
    }
  }
  Result<std::unique_ptr<StrandLine>> finisher = StrandLine::Take(lake, 0, Deadline());
  ASSERT_TRUE(finisher.ok()) << finisher.status().ToString();
  Result<StrandLine::Made> made = (*finisher)->Finish(Deadline());
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_TRUE(lake.log()->known()->manifest.finished);
}

using Cells = std::vector<std::vector<std::string>>;

Cells AllCells(LakeStream& lake) {
  StreamReader reader(lake.log());
  const StreamInfo& info = lake.log()->info();
  Cells all;
  while (all.size() < lake.log()->known()->manifest.frontier_step) {
    Result<StreamReader::Block> block = reader.ReadBlock(all.size(), 0, info.lanes, Deadline());
    EXPECT_TRUE(block.ok()) << block.status().ToString();
    if (!block.ok()) break;
    for (const std::vector<Bytes>& step : block->cells) {
      all.emplace_back();
      for (const Bytes& cell : step) all.back().emplace_back(cell.AsText());
    }
  }
  return all;
}

class StrandLineTest : public LakeTest {};

TEST_F(StrandLineTest, BlocksAreTheSameWhoeverMakesThem) {
  std::unique_ptr<LakeStream> calm = Open();
  MakeAll(*calm, false);
  const Cells expected = AllCells(*calm);
  ASSERT_GT(expected.size(), 3u);
  store_ = std::make_shared<MemoryStore>();
  std::unique_ptr<LakeStream> disturbed = Open();
  MakeAll(*disturbed, true);
  EXPECT_EQ(AllCells(*disturbed), expected);
}

TEST_F(StrandLineTest, AFileThatChangedIsNoLostRaceAndCostsNoEpochs) {
  const std::string more = "pack: {length: 8}\nstep: {sequences: 2}\n";
  std::unique_ptr<LakeStream> lake = Open(more), other = Open(more);
  {
    Result<std::unique_ptr<StrandLine>> line = StrandLine::Take(*lake, 1, Deadline());
    ASSERT_TRUE(line.ok());
    ASSERT_TRUE((*line)->MakeBlock(Deadline()).ok());
  }
  Result<std::unique_ptr<StrandLine>> line = StrandLine::Take(*other, 1, Deadline());
  ASSERT_TRUE(line.ok()) << line.status().ToString();
  const uint32_t epoch = other->log()->known()->manifest.strands[1].epoch;
  const std::filesystem::path file = folder_ / "a.jsonl", away = folder_ / "away";
  std::filesystem::rename(file, away);
  for (int i = 0; i < 3; ++i) {
    Result<StrandLine::Made> made = (*line)->MakeBlock(Deadline());
    EXPECT_EQ(made.code(), Code::kCorrupt) << made.status().ToString();
    EXPECT_THAT(made.status().message(), ::testing::HasSubstr("a.jsonl has changed"));
  }
  ASSERT_TRUE(other->log()->Refresh(Deadline()).ok());
  EXPECT_EQ(other->log()->known()->manifest.strands[1].epoch, epoch);
  std::filesystem::rename(away, file);
  Result<StrandLine::Made> made = (*line)->MakeBlock(Deadline());
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_GT(made->steps, 0u);
}

TEST_F(StrandLineTest, TheOldOwnerOfAStrandIsFenced) {
  std::unique_ptr<LakeStream> lake = Open(), other = Open();
  Result<std::unique_ptr<StrandLine>> old_line = StrandLine::Take(*lake, 1, Deadline());
  ASSERT_TRUE(old_line.ok());
  Result<std::unique_ptr<StrandLine>> new_line = StrandLine::Take(*other, 1, Deadline());
  ASSERT_TRUE(new_line.ok());
  EXPECT_EQ((*old_line)->MakeBlock(Deadline()).code(), Code::kFenced);
  Result<StrandLine::Made> made = (*new_line)->MakeBlock(Deadline());
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_GT(made->steps, 0u);
}

TEST_F(StrandLineTest, LineageLeadsFromEveryElementBackToItsRow) {
  std::unique_ptr<LakeStream> lake = Open();
  MakeAll(*lake, false);
  const StreamInfo& info = lake->log()->info();
  StreamReader reader(lake->log());
  std::map<int64_t, size_t> tokens_of_row;
  const uint64_t steps = lake->log()->known()->manifest.frontier_step;
  for (uint64_t step = 0; step < steps;) {
    Result<StreamReader::Block> block = reader.ReadBlock(step, 0, info.lanes, Deadline());
    ASSERT_TRUE(block.ok());
    Result<std::optional<Object>> object = store_->Get(LineageKey(block->entry.name), Deadline());
    ASSERT_TRUE(object.ok() && *object);
    Result<std::vector<LineageSample>> samples = DecodeLineage((*object)->bytes, "lineage");
    ASSERT_TRUE(samples.ok());
    for (const LineageSample& sample : *samples) {
      Result<std::vector<Array>> arrays = ReadCell(block->cells[sample.step][sample.lane], info.columns, "cell");
      ASSERT_TRUE(arrays.ok());
      ASSERT_EQ(info.columns[0].name, "tokens");
      const Array& tokens = (*arrays)[0];
      ASSERT_EQ(tokens.shape.back(), 16u);
      const std::vector<int64_t> document = Document(sample.row);
      for (uint32_t i = 0; i < sample.length; ++i) {
        int64_t value = 0;
        const size_t width = DtypeBytes(tokens.dtype);
        std::memcpy(&value, tokens.bytes.data() + (sample.sequence * 16 + sample.position + i) * width, width);
        ASSERT_EQ(value, document[sample.start + i]);
      }
      tokens_of_row[sample.row] += sample.length;
    }
    step = block->entry.end_step();
  }
  ASSERT_EQ(tokens_of_row.size(), kDocuments);
  for (const auto& [row, count] : tokens_of_row) EXPECT_EQ(count, Document(row).size()) << row;
}

TEST_F(StrandLineTest, WithoutPackingStrandsShareTheirLastSteps) {
  std::unique_ptr<LakeStream> lake = Open("step: {samples: 4}\n");
  MakeAll(*lake, false);
  EXPECT_EQ(lake->log()->known()->manifest.frontier_step, (kDocuments + 3) / 4);
}

}  // namespace
}  // namespace headrace
