// What a C++ program does with a stream, through include/headrace alone.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "headrace/stream.h"

namespace headrace {
namespace {

CellArrays Numbers(std::vector<int32_t> values) {
  Bytes bytes = Bytes::Copy(std::as_bytes(std::span(values)));
  return {Array{Dtype::kI32, {values.size()}, bytes}};
}

std::vector<int32_t> ValuesOf(const CellArrays& cell) {
  std::vector<int32_t> values(cell[0].bytes.size() / 4);
  std::memcpy(values.data(), cell[0].bytes.data(), cell[0].bytes.size());
  return values;
}

StreamOptions Small() {
  return {.lanes = 2, .strands = 2, .blocks = BlockSizes::Even(2), .columns = {{"tokens"}}, .probe = false};
}

// Blocks up to `blocks`, each lane of each step saying whose it is.
Status Fill(StrandWriter& writer, uint64_t blocks) {
  while (writer.next().block < blocks) {
    StrandWriter::Turn turn = writer.next();
    std::vector<std::vector<CellArrays>> steps;
    for (uint32_t i = 0; i < turn.steps; ++i) {
      auto step = static_cast<int32_t>(turn.block * 2 + i);
      steps.push_back({Numbers({step, 0}), Numbers({step, 1, 1})});
    }
    HR_RETURN_IF_ERROR(writer.Append(turn, steps, Bytes::FromString(std::to_string(turn.block)), {}));
  }
  return {};
}

TEST(StreamApi, StrandsOfTwoThreadsMakeOneSequence) {
  Result<Stream> stream = Stream::Create("mem://api-two-threads", Small(), {});
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  Status filled[2];
  {
    std::vector<std::jthread> threads;
    for (uint16_t strand = 0; strand < 2; ++strand) {
      threads.emplace_back([&, strand] {
        auto writer = stream->Take(strand, {});
        filled[strand] = writer.ok() ? Fill(**writer, 10) : writer.status();
      });
    }
  }
  ASSERT_EQ(filled[0].ToString(), "Ok");
  ASSERT_EQ(filled[1].ToString(), "Ok");

  Result<Stream> opened = Stream::Open("mem://api-two-threads", {});
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ(opened->info(), stream->info());
  Result<Stream::Extent> extent = opened->Refresh({});
  ASSERT_TRUE(extent.ok());
  EXPECT_EQ(extent->steps, 20u);
  EXPECT_FALSE(extent->sealed);
  std::unique_ptr<StreamReader> reader = opened->Reader();
  EXPECT_TRUE(*reader->WaitFor(19, {}));
  for (uint64_t step = 0; step < 20; ++step) {
    auto expected = static_cast<int32_t>(step);
    EXPECT_EQ(ValuesOf(*reader->ReadCell(step, 0, {})), (std::vector{expected, 0}));
    Result<StreamReader::Block> block = reader->ReadBlock(step, 1, 2, {});
    ASSERT_TRUE(block.ok());
    EXPECT_EQ(ValuesOf(*reader->CellOf(*block, step, 1)), (std::vector{expected, 1, 1}));
    EXPECT_EQ(reader->CellOf(*block, step, 0).code(), Code::kInvalidArgument);
    EXPECT_EQ(reader->CellOf(*block, step + 2, 1).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(reader->ReadCell(0, 2, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(reader->ReadCell(20, 0, {}).code(), Code::kNotFound);
}

TEST(StreamApi, BytesLandWhereTheReaderWantsThem) {
  Result<Stream> stream = Stream::Create("mem://api-into", Small(), {});
  ASSERT_TRUE(stream.ok());
  auto writer = stream->Take(0, {});
  ASSERT_TRUE(writer.ok());
  std::vector<std::vector<CellArrays>> steps;
  for (int32_t step = 0; step < 2; ++step)
    steps.push_back({Numbers(std::vector<int32_t>(50'000, step)), Numbers(std::vector<int32_t>(50'000, 10 + step))});
  ASSERT_EQ((*writer)->Append((*writer)->next(), steps, {}, {}).ToString(), "Ok");

  for (uint32_t first : {0u, 1u}) {  // both lanes, which is one request for the chunk; and one of them
    std::unique_ptr<StreamReader> reader = stream->Reader();
    Result<Entry> entry = reader->Find(0, {});
    ASSERT_TRUE(entry.ok());
    std::vector<std::byte> memory(entry->bytes);
    Result<StreamReader::Block> block = reader->ReadBlock(*entry, first, 2, {}, {.into = memory});
    ASSERT_TRUE(block.ok()) << block.status().ToString();
    for (uint64_t step = 0; step < 2; ++step) {
      for (uint32_t lane = first; lane < 2; ++lane) {
        Result<CellArrays> cell = reader->CellOf(*block, step, lane);
        ASSERT_TRUE(cell.ok());
        EXPECT_EQ(*cell, steps[step][lane]);
        EXPECT_GE((*cell)[0].bytes.data(), memory.data());
        EXPECT_LE((*cell)[0].bytes.data() + 200'000, memory.data() + memory.size());
      }
    }
    uint64_t lanes = *reader->LaneBytes(*entry, first, 2, {});
    EXPECT_EQ(reader->fetched_bytes(), first == 0 ? entry->bytes : entry->header_bytes + lanes);
    EXPECT_EQ(reader->ReadBlock(*entry, first, 2, {}, {.into = std::span(memory).first(lanes - 1)}).code(),
              Code::kInvalidArgument);
  }
}

TEST(StreamApi, AWriterGoesOnFromTheStateOfTheOneBefore) {
  Result<Stream> stream = Stream::Create("mem://api-state", Small(), {});
  ASSERT_TRUE(stream.ok());
  auto first = stream->Take(0, {});
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE((*first)->state().has_value());
  ASSERT_EQ(Fill(**first, 3).ToString(), "Ok");
  auto second = stream->Take(0, {});
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->state()->AsText(), "2");
  EXPECT_EQ((*second)->next().block, 4u);
  EXPECT_EQ(Fill(**first, 5).code(), Code::kFenced);
  EXPECT_EQ(Fill(**second, 5).ToString(), "Ok");
}

TEST(StreamApi, StepsThatDoNotFitAreRefusedAndLeaveNoTrace) {
  Result<Stream> stream = Stream::Create("mem://api-misfit", Small(), {});
  ASSERT_TRUE(stream.ok());
  auto writer = stream->Take(0, {});
  ASSERT_TRUE(writer.ok());
  StrandWriter::Turn turn = (*writer)->next();
  std::vector<CellArrays> step = {Numbers({1}), Numbers({2})};
  std::vector<std::vector<CellArrays>> too_few = {step};
  EXPECT_EQ((*writer)->Append(turn, too_few, {}, {}).code(), Code::kInvalidArgument);
  std::vector<std::vector<CellArrays>> lane_missing = {step, {Numbers({1})}};
  EXPECT_EQ((*writer)->Append(turn, lane_missing, {}, {}).code(), Code::kInvalidArgument);
  std::vector<std::vector<CellArrays>> wrong_type = {step, {Numbers({1}), {Array{Dtype::kF32, {1}, Numbers({1})[0].bytes}}}};
  Status refused = (*writer)->Append(turn, wrong_type, {}, {});
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("step 1 of the block, lane 1"), std::string::npos) << refused.message();
  EXPECT_EQ(Fill(**writer, 1).ToString(), "Ok");
}

TEST(StreamApi, AllReadersEndWhereTheStreamWasSealed) {
  Result<Stream> stream = Stream::Create("mem://api-sealed", Small(), {});
  ASSERT_TRUE(stream.ok());
  auto a = stream->Take(0, {});
  auto b = stream->Take(1, {});
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(Fill(**a, 1).ToString(), "Ok");
  ASSERT_EQ(Fill(**b, 2).ToString(), "Ok");
  EXPECT_FALSE((*a)->Finish({}).ok()) << "no strand has ended";
  ASSERT_EQ((*a)->End({}).ToString(), "Ok");
  ASSERT_EQ((*b)->End({}).ToString(), "Ok");
  ASSERT_EQ((*b)->Finish({}).ToString(), "Ok");
  EXPECT_TRUE(stream->Refresh({})->sealed);
  EXPECT_FALSE(*stream->Reader()->WaitFor(4, {}));
  EXPECT_EQ(stream->Take(0, {}).code(), Code::kConflict);
}

TEST(StreamApi, PinsHoldWhatCollectionWouldGiveBack) {
  Result<Stream> stream = Stream::Create("mem://api-pins", Small(), {});
  ASSERT_TRUE(stream.ok());
  auto a = stream->Take(0, {});
  auto b = stream->Take(1, {});
  ASSERT_TRUE(a.ok() && b.ok());
  for (uint64_t blocks = 1; blocks <= 12; ++blocks) {
    ASSERT_EQ(Fill(**a, blocks).ToString(), "Ok");
    ASSERT_EQ(Fill(**b, blocks).ToString(), "Ok");
  }
  CollectOptions at_once{.grace = Duration::zero()};
  EXPECT_EQ(stream->Collect(at_once, {})->trim_step, 0u) << "nothing goes without a pin";
  ASSERT_EQ(stream->Pin("ckpt-4", 4, {}).ToString(), "Ok");
  ASSERT_EQ(stream->Pin("ckpt-10", 10, {}).ToString(), "Ok");
  EXPECT_EQ(stream->Collect(at_once, {})->trim_step, 4u);
  EXPECT_EQ(stream->Reader()->ReadCell(3, 0, {}).code(), Code::kTrimmed);
  EXPECT_TRUE(stream->Reader()->ReadCell(4, 0, {}).ok());
  ASSERT_EQ(stream->Pin("ckpt-8", 8, {}, "ckpt-4").ToString(), "Ok");
  Result<std::vector<Pin>> pins = stream->Pins({});
  ASSERT_EQ(pins->size(), 2u);
  EXPECT_EQ((*pins)[1].name, "ckpt-8");
  ASSERT_EQ(stream->Unpin("ckpt-8", {}).ToString(), "Ok");
  EXPECT_EQ(stream->Unpin("ckpt-8", {}).code(), Code::kNotFound);
  EXPECT_EQ(stream->Collect(at_once, {})->trim_step, 10u);
}

TEST(StreamApi, CreatingAndOpeningSayWhatIsThere) {
  EXPECT_EQ(Stream::Open("mem://api-nothing", {}).code(), Code::kNotFound);
  ASSERT_TRUE(Stream::Create("mem://api-once", Small(), {}).ok());
  EXPECT_EQ(Stream::Create("mem://api-once", Small(), {}).code(), Code::kConflict);
  StreamOptions without_columns = Small();
  without_columns.columns.clear();
  EXPECT_EQ(Stream::Create("mem://api-columns", without_columns, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(Stream::Open("mem://api-columns", {}).code(), Code::kNotFound) << "nothing was written";
}

TEST(StreamApi, TheStoreIsProbedBeforeAStreamIsCreated) {
  StreamOptions options = Small();
  int told = 0;
  options.probe = true;
  options.on_probe = [&](std::string_view, int, int) { ++told; };
  EXPECT_TRUE(Stream::Create("mem://api-probed", options, {}).ok());
  EXPECT_GT(told, 0);
}

}  // namespace
}  // namespace headrace
