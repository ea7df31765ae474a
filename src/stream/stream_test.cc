// A stream from end to end, in simulated time: what is appended is what is read.
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "base/text.h"
#include "store/memory_store.h"
#include "stream/collector.h"
#include "stream/strand_writer.h"
#include "stream/stream_reader.h"

namespace headrace {
namespace {

StreamInfo SmallInfo(uint32_t lanes, uint32_t strands) {
  StreamInfo info;
  Random random(7);
  for (auto& byte : info.uuid) byte = static_cast<unsigned char>(random.Next());
  info.lanes = lanes;
  info.strands = strands;
  info.window = std::min(256u, 2 * strands);
  info.blocks = BlockSizes::Growing(strands, 4);
  info.columns = {{"tokens", Dtype::kI32, Column::kArray}};
  return info;
}

std::string CellText(uint64_t block, uint32_t step, uint32_t lane) {
  return Cat("block ", block, " step ", step, " lane ", lane, "....").substr(0, 24);
}

std::vector<Body> StepCells(const StreamInfo& info, uint64_t block, uint32_t step) {
  std::vector<Body> cells;
  for (uint32_t lane = 0; lane < info.lanes; ++lane) {
    std::string text = CellText(block, step, lane);
    text.resize(24, '.');
    Array array{Dtype::kI32, {6}, Bytes::FromString(text)};
    cells.push_back(*BuildCell({&array, 1}, info.columns));
  }
  return cells;
}

class StreamTest : public testing::Test {
 protected:
  StreamContext Context(uint64_t seed) { return {store_, &simulation_, Random(seed)}; }

  Status AppendBlocks(StrandWriter& writer, const StreamInfo& info, int blocks) {
    for (int i = 0; i < blocks; ++i) {
      StrandWriter::Turn turn = writer.next();
      ChunkBuilder chunk(info, {});
      for (uint32_t step = 0; step < turn.steps; ++step) HR_RETURN_IF_ERROR(chunk.AddStep(StepCells(info, turn.block, step)));
      HR_RETURN_IF_ERROR(writer.Append(turn, chunk, Bytes::FromString(Cat("after ", turn.block)), {}));
    }
    return {};
  }

  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST_F(StreamTest, WhatIsAppendedIsWhatIsRead) {
  simulation_.Run([&] {
    StreamInfo info = SmallInfo(4, 2);
    auto log = StreamLog::Create(info, Context(1), {});
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    auto first = StrandWriter::Take(*log, 0, {});
    auto second = StrandWriter::Take(*log, 1, {});
    ASSERT_TRUE(first.ok() && second.ok());
    for (int round = 0; round < 200; ++round) {
      ASSERT_EQ(AppendBlocks(**first, info, 1).ToString(), "Ok");
      ASSERT_EQ(AppendBlocks(**second, info, 1).ToString(), "Ok");
    }
    auto reader_log = StreamLog::Open(Context(2), {});
    ASSERT_TRUE(reader_log.ok()) << reader_log.status().ToString();
    EXPECT_LE((*reader_log)->known()->encoded.size(), Manifest::kMaxBytes);
    StreamReader reader(*reader_log);
    uint64_t step = 0;
    for (uint64_t block = 0; block < 400; ++block) {
      for (uint32_t i = 0; i < info.blocks.Steps(block); ++i, ++step) {
        for (uint32_t lane = 0; lane < 4; ++lane) {
          auto cell = reader.ReadCell(step, lane, {});
          ASSERT_TRUE(cell.ok()) << cell.status().ToString();
          EXPECT_TRUE((*cell)[0].bytes.AsText().starts_with(CellText(block, i, lane)));
        }
      }
    }
    EXPECT_EQ((*reader_log)->known()->manifest.frontier_step, step);
    EXPECT_EQ(reader.Find(step, {}).code(), Code::kNotFound);
  });
}

TEST_F(StreamTest, ATakenStrandFencesItsFormerWriterAndGoesOnFromItsFooter) {
  simulation_.Run([&] {
    StreamInfo info = SmallInfo(1, 1);
    auto log = StreamLog::Create(info, Context(1), {});
    auto old_writer = StrandWriter::Take(*log, 0, {});
    ASSERT_EQ(AppendBlocks(**old_writer, info, 3).ToString(), "Ok");
    auto other = StreamLog::Open(Context(2), {});
    auto new_writer = StrandWriter::Take(*other, 0, {});
    ASSERT_TRUE(new_writer.ok());
    EXPECT_EQ((*new_writer)->state()->ToString(), "after 2");
    EXPECT_EQ(AppendBlocks(**old_writer, info, 1).code(), Code::kFenced);
    EXPECT_EQ(AppendBlocks(**new_writer, info, 1).ToString(), "Ok");
  });
}

TEST_F(StreamTest, TheStreamIsSealedWhenEveryStrandHasEnded) {
  simulation_.Run([&] {
    StreamInfo info = SmallInfo(1, 3);
    auto log = StreamLog::Create(info, Context(1), {});
    std::vector<std::unique_ptr<StrandWriter>> writers;
    for (uint16_t v = 0; v < 3; ++v) writers.push_back(*StrandWriter::Take(*log, v, {}));
    // Strand 1 has one block, the others two: block 4 is void.
    for (auto& writer : writers) ASSERT_EQ(AppendBlocks(*writer, info, 1).ToString(), "Ok");
    ASSERT_EQ(writers[1]->End({}).ToString(), "Ok");
    ASSERT_EQ(AppendBlocks(*writers[0], info, 1).ToString(), "Ok");
    ASSERT_EQ(AppendBlocks(*writers[2], info, 1).ToString(), "Ok");
    ChunkBuilder none(info, {});
    EXPECT_EQ(writers[0]->Finish(none, {}).code(), Code::kConflict);
    ASSERT_EQ(writers[0]->End({}).ToString(), "Ok");
    ASSERT_EQ(writers[2]->End({}).ToString(), "Ok");
    ChunkBuilder last(info, {});
    ASSERT_TRUE(last.AddStep(StepCells(info, 99, 0)).ok());
    ASSERT_EQ(writers[2]->Finish(last, {}).ToString(), "Ok");
    const Manifest& manifest = (*log)->known()->manifest;
    EXPECT_TRUE(manifest.finished);
    EXPECT_EQ(manifest.frontier_step, 3u * 1 + 2u * 2 + 1);
    EXPECT_EQ(AppendBlocks(*writers[0], info, 1).code(), Code::kConflict);
    StreamReader reader(*log);
    EXPECT_FALSE(*reader.WaitFor(8, {}));
  });
}

TEST_F(StreamTest, CollectingKeepsWhatAPinHolds) {
  simulation_.Run([&] {
    StreamInfo info = SmallInfo(2, 2);
    info.slots_per_marker = 8;
    auto log = StreamLog::Create(info, Context(1), {});
    auto first = StrandWriter::Take(*log, 0, {});
    auto second = StrandWriter::Take(*log, 1, {});
    for (int round = 0; round < 300; ++round) {
      ASSERT_EQ(AppendBlocks(**first, info, 1).ToString(), "Ok");
      ASSERT_EQ(AppendBlocks(**second, info, 1).ToString(), "Ok");
    }
    Collector collector(*log);
    auto nothing = collector.Collect({}, {});
    ASSERT_TRUE(nothing.ok()) << nothing.status().ToString();
    EXPECT_EQ(nothing->chunks, 0u);
    ASSERT_TRUE((*log)->Commit(PinEdit{{"ckpt", 1000, 0, 0}, ""}, {}).ok());
    auto dry = collector.Collect({.dry_run = true}, {});
    ASSERT_TRUE(dry.ok()) << dry.status().ToString();
    auto collected = collector.Collect({}, {});
    ASSERT_TRUE(collected.ok()) << collected.status().ToString();
    EXPECT_GT(collected->chunks, 200u);
    EXPECT_EQ(dry->chunks, collected->chunks);
    EXPECT_EQ(collected->orphans, 0u);
    auto other = StreamLog::Open(Context(3), {});
    ASSERT_TRUE(other.ok()) << other.status().ToString();
    StreamReader reader(*other);
    EXPECT_EQ(reader.ReadCell(10, 0, {}).code(), Code::kTrimmed);
    for (uint64_t step = 1000; step < (*other)->known()->manifest.frontier_step; ++step) {
      auto cell = reader.ReadCell(step, 1, {});
      ASSERT_TRUE(cell.ok()) << cell.status().ToString();
    }
    EXPECT_EQ((*log)->Commit(PinEdit{{"old", 3, 0, 0}, ""}, {}).code(), Code::kTrimmed);
  });
}

TEST_F(StreamTest, ManyProducersCombineTheirCommits) {
  StreamInfo info = SmallInfo(1, 8);
  simulation_.Run([&] { ASSERT_TRUE(StreamLog::Create(info, Context(1), {}).ok()); });
  for (uint16_t v = 0; v < 8; ++v) {
    simulation_.Start(Cat("producer ", v), [&, v] {
      auto log = StreamLog::Open(Context(100 + v), {});
      auto writer = StrandWriter::Take(*log, v, {});
      ASSERT_TRUE(writer.ok()) << writer.status().ToString();
      ASSERT_EQ(AppendBlocks(**writer, info, 40).ToString(), "Ok");
      ASSERT_EQ((*writer)->End({}).ToString(), "Ok");
    });
  }
  simulation_.Run();
  EXPECT_EQ(simulation_.stuck(), 0u);
  simulation_.Run([&] {
    auto log = StreamLog::Open(Context(2), {});
    EXPECT_GE((*log)->known()->manifest.frontier_block, 320u);
    EXPECT_EQ((*log)->known()->manifest.parked.size(), 0u);
    ASSERT_TRUE(Collector(*log).Collect({}, {}).ok());
    EXPECT_TRUE(ListAll(*store_, "pending/", {})->empty());
  });
}

}  // namespace
}  // namespace headrace
