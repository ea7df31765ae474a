// When a strand is offered to others: by what an observer has seen on its own clock, which may be wrong and is never believed.
#include "stream/strand_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "store/memory_store.h"
#include "stream/cell.h"
#include "stream/strand_writer.h"

namespace headrace {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

Manifest TwoStrands() {
  Manifest manifest;
  manifest.strands.resize(2);
  for (Strand& row : manifest.strands) {
    row.epoch = 1;
    row.owner = 7;
    row.idle_bumps = 0;
  }
  return manifest;
}

TEST(StrandWatch, OffersWhatHasStoodStillForTheTimeout) {
  Manifest manifest = TwoStrands();
  StrandWatch watch(seconds(10));
  Instant now{hours(1)};
  EXPECT_THAT(watch.Offered(manifest, 1, now), IsEmpty()) << "an observer that has just come has seen nothing";
  EXPECT_THAT(watch.Offered(manifest, 1, now + seconds(9)), IsEmpty());
  ++manifest.strands[0].next_seq;
  EXPECT_THAT(watch.Offered(manifest, 1, now + seconds(10)), ElementsAre(1));
  EXPECT_THAT(watch.Offered(manifest, 7, now + seconds(10)), IsEmpty()) << "its own";
  EXPECT_THAT(watch.Offered(manifest, 1, now + seconds(20)), ElementsAre(0, 1));
  manifest.strands[1].ended = true;
  EXPECT_THAT(watch.Offered(manifest, 1, now + seconds(20)), ElementsAre(0));
}

TEST(StrandWatch, WaitsTwiceAsLongAfterEachTakeOverThatBroughtNothing) {
  Manifest manifest = TwoStrands();
  manifest.strands[1].idle_bumps = 3;
  StrandWatch watch(seconds(10));
  Instant now{};
  EXPECT_THAT(watch.Offered(manifest, 1, now), IsEmpty());
  EXPECT_THAT(watch.Offered(manifest, 1, now + seconds(39)), ElementsAre(0));
  EXPECT_THAT(watch.Offered(manifest, 1, now + seconds(40)), ElementsAre(0, 1));
  manifest.strands[1].idle_bumps = 100;
  EXPECT_THAT(watch.Offered(manifest, 1, now + seconds(639)), ElementsAre(0));
  EXPECT_THAT(watch.Offered(manifest, 1, now + seconds(640)), ElementsAre(0, 1)) << "64 times the timeout is the most";
}

TEST(StrandWatch, AClockThatStandsStillOffersNothing) {
  Manifest manifest = TwoStrands();
  StrandWatch watch(seconds(10));
  for (int i = 0; i < 100; ++i) EXPECT_THAT(watch.Offered(manifest, 1, Instant{hours(5)}), IsEmpty());
}

// An observer whose clock leapt takes a strand from an owner that is well and at work.
TEST(StrandWatch, AWrongGuessFencesTheOwnerAndLosesNothing) {
  Simulation simulation{1};
  auto store = std::make_shared<MemoryStore>();
  simulation.Run([&] {
    StreamInfo info;
    info.uuid[0] = 7;
    info.columns = {{"x", Dtype::kU8}};
    auto append = [&](StrandWriter& writer) {
      ChunkBuilder chunk(info, {});
      Array array{Dtype::kU8, {4}, Bytes::FromString("1234")};
      for (uint32_t s = 0; s < writer.next().steps; ++s) (void)chunk.AddStep({*BuildCell({&array, 1}, info.columns)});
      return writer.Append(writer.next(), chunk, Bytes::FromString(std::to_string(writer.next().block)), {});
    };
    auto owner = StreamLog::Create(info, {store, &simulation, Random(1)}, {});
    auto writer = StrandWriter::Take(*owner, 0, {});
    ASSERT_TRUE(append(**writer).ok());
    auto other = StreamLog::Open({store, &simulation, Random(2)}, {});
    StrandWatch watch(seconds(30));
    ASSERT_THAT(watch.Offered((*other)->known()->manifest, (*other)->owner(), simulation.Now()), IsEmpty());
    ASSERT_THAT(watch.Offered((*other)->known()->manifest, (*other)->owner(), simulation.Now() + hours(24 * 3)), ElementsAre(0));
    auto taken = StrandWriter::Take(*other, 0, {});
    ASSERT_TRUE(taken.ok()) << taken.status().ToString();
    EXPECT_EQ((*taken)->state()->AsText(), "0");
    EXPECT_EQ(append(**writer).code(), Code::kFenced);
    EXPECT_TRUE(append(**taken).ok());
    EXPECT_EQ((*other)->known()->manifest.frontier_block, 2u);
  });
}

}  // namespace
}  // namespace headrace
