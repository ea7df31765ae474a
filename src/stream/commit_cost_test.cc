// What commits and opens may cost, in requests and in simulated time.
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "base/text.h"
#include "store/counting_store.h"
#include "store/decorator.h"
#include "store/memory_store.h"
#include "store/slow_store.h"
#include "stream/cell.h"
#include "stream/strand_writer.h"
#include "stream/stream_reader.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CommitCostTest : public testing::Test {
 protected:
  void Create(uint32_t strands) {
    info_.uuid[0] = 1;
    info_.strands = strands;
    info_.window = strands;
    info_.order = Order::kArrival;
    info_.columns = {{"tokens", Dtype::kU8, Column::kArray}};
    simulation_.Run([&] { ASSERT_TRUE(StreamLog::Create(info_, {memory_, &simulation_, Random(1)}, {}).ok()); });
  }
  Status Append(StrandWriter& writer) {
    Array array{Dtype::kU8, {8}, Bytes::FromString("12345678")};
    ChunkBuilder chunk(info_, {});
    HR_RETURN_IF_ERROR(chunk.AddStep({*BuildCell({&array, 1}, info_.columns)}));
    return writer.Append(writer.next(), chunk, Bytes::FromString("s"), {});
  }

  // Without a chunk's own create, the hint and what is deleted: nobody waits for those.
  uint64_t Requests() const {
    return store_->count(StoreOp::kGet) + store_->count(StoreOp::kCreate) + store_->count(StoreOp::kList);
  }

  StreamInfo info_;
  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("memory", simulation_);
  std::shared_ptr<CountingStore> store_ = std::make_shared<CountingStore>(
      std::make_shared<SlowStore>(memory_, SlowOptions{}, simulation_, Random(2)), /*free=*/"data/");
};

TEST_F(CommitCostTest, ManyProducersNeedFewRequestsAndAllGoOnWhenTheStewardLeaves) {
  constexpr int kProducers = 24;
  constexpr int kEach = 20;
  Create(kProducers);
  uint64_t attempts = 0;
  Duration slowest{};
  for (int i = 0; i < kProducers; ++i) {
    simulation_.Start(Cat("producer", i), [&, i] {
      Random luck(static_cast<uint64_t>(i));
      auto log = StreamLog::Open({store_, &simulation_, Random(100 + static_cast<uint64_t>(i))}, {});
      auto writer = StrandWriter::Take(*log, static_cast<uint16_t>(i), {});
      ASSERT_TRUE(writer.ok()) << writer.status().ToString();
      simulation_.SleepFor(milliseconds(5000 + luck.Below(1000)));
      // Each leaves when it is done, the steward, too.
      for (int n = 0; n < kEach + i; ++n) {
        Instant began = simulation_.Now();
        ASSERT_EQ(Append(**writer).ToString(), "Ok");
        slowest = std::max(slowest, simulation_.Now() - began);
        simulation_.SleepFor(milliseconds(800 + luck.Below(400)));
      }
      attempts += (*log)->counts().commits + (*log)->counts().lost;
    });
  }
  simulation_.Run();
  EXPECT_EQ(simulation_.stuck(), 0u);
  constexpr uint64_t kChunks = kProducers * kEach + kProducers * (kProducers - 1) / 2;
  EXPECT_LE(Requests(), 6 * kChunks);  // with everything at the start and the end; 5 in between
  EXPECT_LE(attempts, kChunks / 2);
  EXPECT_LE(slowest, seconds(3));
  simulation_.Run([&] {
    EXPECT_TRUE(ListAll(*memory_, "pending/", {})->empty());  // stewards tidy up before they leave
    auto log = StreamLog::Open({memory_, &simulation_, Random(9)}, {});
    EXPECT_EQ((*log)->known()->manifest.frontier_step, kChunks);
  });
}

TEST_F(CommitCostTest, NobodyWaitsForSealingOrTheHint) {
  Create(1);
  simulation_.Run([&] {
    auto log = StreamLog::Open({store_, &simulation_, Random(3)}, {});
    auto writer = StrandWriter::Take(*log, 0, {});
    Duration slowest{};
    for (int n = 0; n < 1200; ++n) {  // a fold of level 1 included
      Instant began = simulation_.Now();
      ASSERT_EQ(Append(**writer).ToString(), "Ok");
      slowest = std::max(slowest, simulation_.Now() - began);
    }
    EXPECT_EQ((*log)->known()->manifest.index[1].size(), 1u);
    EXPECT_LT(slowest, milliseconds(500));  // chunk, create and marker; three times as long as usual
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(CommitCostTest, OpeningTakesFourRequestsAndNeighboursAreFoundWithoutAny) {
  Create(1);
  simulation_.Run([&] {
    auto log = StreamLog::Open({memory_, &simulation_, Random(3)}, {});
    auto writer = StrandWriter::Take(*log, 0, {});
    for (int n = 0; n < 3000; ++n) {
      ASSERT_EQ(Append(**writer).ToString(), "Ok");
      simulation_.SleepFor(milliseconds(1));
    }
  });
  simulation_.Run([&] {
    auto log = StreamLog::Open({store_, &simulation_, Random(4)}, {});
    ASSERT_TRUE(log.ok());
    EXPECT_EQ(Requests(), 4u);
    const Manifest manifest = (*log)->known()->manifest;
    ASSERT_FALSE(manifest.index[1].empty());
    uint64_t before = Requests();
    for (uint64_t step = 128; step < 256; ++step) {
      auto entry = (*log)->index().FindStep(manifest, step, {});
      ASSERT_TRUE(entry.ok() && *entry) << step;
      EXPECT_EQ((*entry)->first_step, step);
    }
    EXPECT_EQ(Requests(), before + 1);
  });
}

// Remembers what was asked for.
class RangesSeen final : public StoreDecorator {
 public:
  using ObjectStore::Get;
  using StoreDecorator::StoreDecorator;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
    if (key.starts_with("data/")) ranges.push_back(options.range);
    return inner().Get(key, options, deadline);
  }
  std::vector<ByteRange> ranges;
};

TEST_F(CommitCostTest, AllLanesAreOneGetOfTheWholeChunkHoweverOften) {
  info_.lanes = 4;
  Create(1);
  auto seen = std::make_shared<RangesSeen>(memory_);
  simulation_.Run([&] {
    auto log = StreamLog::Open({seen, &simulation_, Random(3)}, {});
    auto writer = StrandWriter::Take(*log, 0, {});
    Array array{Dtype::kU8, {100'000}, Bytes::FromString(std::string(100'000, 'x'))};
    ChunkBuilder chunk(info_, {});
    ASSERT_TRUE(chunk.AddStep(std::vector<Body>(4, *BuildCell({&array, 1}, info_.columns))).ok());
    ASSERT_TRUE((*writer)->Append((*writer)->next(), chunk, Bytes::FromString("s"), {}).ok());
    StreamReader reader(*log);
    Entry entry = *reader.Find(0, {});
    seen->ranges.clear();
    for (int i = 0; i < 3; ++i) {
      auto block = reader.ReadBlock(entry, 0, 4, {});
      ASSERT_TRUE(block.ok()) << block.status().ToString();
      EXPECT_EQ((*reader.CellOf(*block, 0, 3))[0].bytes, array.bytes);
    }
    EXPECT_EQ(seen->ranges, std::vector<ByteRange>(3, ByteRange::At(0, entry.bytes)));
    EXPECT_EQ((*memory_->Get(entry.name.Key(), {}))->size, entry.bytes);
    // Fewer lanes are fetched alone.
    ASSERT_TRUE(reader.ReadBlock(entry, 1, 3, {}).ok());
    EXPECT_GT(seen->ranges.back().offset, 100'000u);
    EXPECT_LT(seen->ranges.back().length, 201'000u);
  });
}

}  // namespace
}  // namespace headrace
