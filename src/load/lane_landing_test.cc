// Lanes that are taken apart while they come are those that are read as a whole.
#include "load/lane_landing.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/text.h"
#include "load/arrange.h"

namespace headrace {
namespace {

struct Chunk {
  StreamInfo info;
  Entry entry;
  ChunkHeader header;
  Bytes bytes;
  // As they were built: [step][lane].
  std::vector<std::vector<std::vector<Array>>> cells;
};

Array Filled(Random& random, Dtype dtype, std::vector<uint64_t> shape) {
  Array array{dtype, std::move(shape), {}};
  std::string text(array.elements() * DtypeBytes(dtype), '\0');
  for (char& c : text) c = static_cast<char>(random.Below(6));  // so that it packs
  array.bytes = Bytes::FromString(std::move(text));
  return array;
}

// Tokens of one shape as a rule, rows of any length, and a single number.
Chunk MakeChunk(Random& random, Codec codec) {
  Chunk chunk;
  chunk.info.uuid = {1, 2, 3};
  chunk.info.lanes = 1 + static_cast<uint32_t>(random.Below(6));
  chunk.info.columns = {
      {"tokens", Dtype::kI32, Column::kArray}, {"rows", Dtype::kU8, Column::kRagged}, {"number", Dtype::kF64, Column::kArray}};
  const auto steps = 1 + static_cast<uint32_t>(random.Below(5));
  const uint64_t length = random.Below(3000);
  const bool odd_ones = random.Below(3) == 0;
  ChunkBuilder builder(chunk.info, {.codec = codec});
  for (uint32_t step = 0; step < steps; ++step) {
    std::vector<Body> bodies;
    for (uint32_t lane = 0; lane < chunk.info.lanes; ++lane) {
      const uint64_t rows = random.Below(4);
      std::vector<int64_t> offsets = {0};
      for (uint64_t i = 0; i < rows; ++i) offsets.push_back(offsets.back() + static_cast<int64_t>(random.Below(500)));
      std::vector<Array> arrays = {
          Filled(random, Dtype::kI32, {2, odd_ones && random.Below(4) == 0 ? random.Below(4000) : length}),
          Filled(random, Dtype::kU8, {static_cast<uint64_t>(offsets.back())}),
          Array{Dtype::kI64, {offsets.size()}, Bytes::Copy(std::as_bytes(std::span(offsets)))}, Filled(random, Dtype::kF64, {})};
      bodies.push_back(*BuildCell(arrays, chunk.info.columns));
      if (lane == 0) chunk.cells.emplace_back();
      chunk.cells.back().push_back(std::move(arrays));
    }
    EXPECT_TRUE(builder.AddStep(std::move(bodies)).ok());
  }
  ChunkEdit edit;
  edit.uuid = chunk.info.uuid;
  auto finished = builder.Finish(edit, Bytes::FromString("state"));
  chunk.bytes = finished.body.Join();
  chunk.entry.name = finished.edit.name;
  chunk.entry.steps = finished.edit.steps;
  chunk.entry.bytes = chunk.bytes.size();
  chunk.entry.header_bytes = finished.edit.header_bytes;
  chunk.entry.header_crc = finished.edit.header_crc;
  auto header = DecodeChunkHeader(chunk.bytes.Slice(0, chunk.entry.header_bytes).span(), chunk.entry, chunk.info, "here");
  EXPECT_TRUE(header.ok()) << header.status().ToString();
  chunk.header = *header;
  return chunk;
}

void Hand(Random& random, std::span<const std::byte> bytes, Landing& landing) {
  const uint64_t most = random.Below(2) == 0 ? 70 : 20'000;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = std::min<uint64_t>(bytes.size() - at, 1 + random.Below(most));
    const std::vector<std::byte> piece(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                       bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
    landing.Take(at, piece);
    at += size;
  }
}

std::string What(uint64_t step, uint32_t lane) { return Cat("step ", step, ", lane ", lane); }

class LaneLandings : public testing::TestWithParam<Codec> {};

TEST_P(LaneLandings, BringWhatWasBuilt) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Chunk chunk = MakeChunk(random, GetParam());
    LaneRange block_lanes{static_cast<uint32_t>(random.Below(chunk.info.lanes)), chunk.info.lanes};
    auto pool = BufferPool::Make();
    LoadedBlock block;
    block.entry = chunk.entry;
    block.lanes = block_lanes;
    block.cells.resize(chunk.entry.steps);
    for (auto& row : block.cells) row.resize(block_lanes.count());
    auto memory = std::make_shared<BlockMemory>(chunk.entry.steps, block_lanes.count(), chunk.bytes.size(), pool);
    // In two pieces where that is possible, the second one first; and the chunk as a whole, with header and footer.
    const uint32_t middle = block_lanes.first + block_lanes.count() / 2;
    std::vector<LaneRange> pieces = {{middle, block_lanes.end}};
    if (middle > block_lanes.first) pieces.push_back({block_lanes.first, middle});
    const bool whole = pieces.size() == 1 && block_lanes.count() == chunk.info.lanes;
    std::vector<std::unique_ptr<LaneLanding>> landings;
    for (LaneRange lanes : pieces) {
      const uint64_t begin = whole ? 0 : chunk.header.lane[lanes.first].offset;
      const uint64_t end = whole ? chunk.bytes.size() : chunk.header.lane[lanes.end].offset;
      const ChunkHeader* header = whole && random.Below(2) == 0 ? nullptr : &chunk.header;
      auto& landing = landings.emplace_back(
          std::make_unique<LaneLanding>(memory, chunk.entry, chunk.info, header, begin, lanes, block_lanes));
      const std::span<const std::byte> range = chunk.bytes.span().subspan(begin, end - begin);
      if (random.Below(3) == 0) Hand(random, range.first(random.Below(range.size() / 2)), *landing);  // an attempt that broke off
      EXPECT_FALSE(landing->whole());
      Hand(random, range, *landing);
      ASSERT_TRUE(landing->whole());
      Status status = landing->Check(What);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    for (auto& landing : landings) landing->Fill(block);
    for (bool together : {false, true}) {
      if (together) {
        ASSERT_TRUE(LayTogether(*pool, block).ok());
      }
      for (uint32_t step = 0; step < chunk.entry.steps; ++step) {
        for (size_t array = 0; array < 4; ++array) {
          std::optional<Bytes> joined;
          for (uint32_t lane = block_lanes.first; lane < block_lanes.end; ++lane) {
            const Array& got = block.cells[step][lane - block_lanes.first][array];
            const Array& built = chunk.cells[step][lane][array];
            ASSERT_EQ(got.dtype, built.dtype);
            ASSERT_EQ(got.shape, built.shape);
            ASSERT_TRUE(std::ranges::equal(got.bytes.span(), built.bytes.span())) << What(step, lane) << ", array " << array;
            joined = lane == block_lanes.first ? std::optional(got.bytes) : joined ? joined->JoinedWith(got.bytes) : joined;
          }
          EXPECT_TRUE(joined || !together) << "step " << step << ", array " << array;
        }
      }
    }
  }
}

TEST_P(LaneLandings, NoticeEveryFlippedByte) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const Chunk chunk = MakeChunk(random, GetParam());
    const LaneRange lanes{0, chunk.info.lanes};
    std::string bytes = chunk.bytes.ToString();
    const uint64_t footer = chunk.header.lane.back().offset;
    for (int i = 0; i < 60; ++i) {
      // A header that was told is not read again.
      const uint64_t first = i % 2 == 0 ? chunk.entry.header_bytes : 0;
      const uint64_t at = first + random.Below(footer - first);
      const char bit = static_cast<char>(1 << random.Below(8));
      bytes[at] ^= bit;
      auto memory = std::make_shared<BlockMemory>(chunk.entry.steps, lanes.count(), chunk.bytes.size(), BufferPool::Make());
      LaneLanding landing(memory, chunk.entry, chunk.info, i % 2 == 0 ? &chunk.header : nullptr, 0, lanes, lanes);
      Hand(random, std::as_bytes(std::span(bytes)), landing);
      if (landing.whole()) {
        // It lies between two cells, or they are all right.
        ASSERT_TRUE(landing.Check(What).ok());
        LoadedBlock block;
        block.cells.resize(chunk.entry.steps);
        for (auto& row : block.cells) row.resize(lanes.count());
        landing.Fill(block);
        for (uint32_t step = 0; step < chunk.entry.steps; ++step) {
          for (uint32_t lane = 0; lane < lanes.count(); ++lane) {
            for (size_t array = 0; array < 4; ++array) {
              ASSERT_TRUE(
                  std::ranges::equal(block.cells[step][lane][array].bytes.span(), chunk.cells[step][lane][array].bytes.span()))
                  << "seed " << seed << ", byte " << at;
            }
          }
        }
      }
      bytes[at] ^= bit;
    }
  }
}

TEST_P(LaneLandings, AreNotWholeBeforeTheLastByte) {
  Random random(7);
  const Chunk chunk = MakeChunk(random, GetParam());
  const LaneRange lanes{0, chunk.info.lanes};
  auto memory = std::make_shared<BlockMemory>(chunk.entry.steps, lanes.count(), chunk.bytes.size(), BufferPool::Make());
  LaneLanding landing(memory, chunk.entry, chunk.info, nullptr, 0, lanes, lanes);
  const uint64_t footer = chunk.header.lane.back().offset;
  landing.Take(0, chunk.bytes.span().first(footer - 64));
  EXPECT_FALSE(landing.whole());
  landing.Take(footer - 64, chunk.bytes.span().subspan(footer - 64));
  EXPECT_TRUE(landing.whole());
}

TEST(LaneLanding, GivesUpWhereArraysLieInOneAnother) {
  Random random(3);
  Chunk chunk = MakeChunk(random, Codec::kNone);
  while (chunk.cells[0][0][0].bytes.empty()) chunk = MakeChunk(random, Codec::kNone);
  const LaneRange lanes{0, chunk.info.lanes};
  for (bool overlap : {false, true}) {
    std::string bytes = chunk.bytes.ToString();
    const uint64_t lane = chunk.header.lane[0].offset;
    const CellPlace place = DecodeDirectory(chunk.bytes.span().subspan(lane), chunk.header, 0, "here")->front();
    if (overlap) {
      // The last array, a number, where the first one is; all checksums are right.
      const uint64_t first = place.offset + 8, last = first + (16 + 16) + (16 + 8) + (16 + 8);
      std::memcpy(bytes.data() + last, bytes.data() + first, 8);
      const uint32_t crc = Crc32c(std::as_bytes(std::span(bytes)).subspan(place.offset, place.stored));
      std::memcpy(bytes.data() + lane + 16, &crc, sizeof(crc));
      chunk.header.lane[0].directory_crc =
          Crc32c(std::as_bytes(std::span(bytes)).subspan(lane, DirectoryBytes(chunk.entry.steps)));
    }
    auto memory = std::make_shared<BlockMemory>(chunk.entry.steps, lanes.count(), chunk.bytes.size(), BufferPool::Make());
    LaneLanding landing(memory, chunk.entry, chunk.info, &chunk.header, 0, lanes, lanes);
    landing.Take(0, std::as_bytes(std::span(bytes)));
    EXPECT_EQ(landing.whole(), !overlap);
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, LaneLandings, testing::Values(Codec::kNone, Codec::kZstd),
                         [](const auto& codec) { return codec.param == Codec::kNone ? "Plain" : "Packed"; });

}  // namespace
}  // namespace headrace
