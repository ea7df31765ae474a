// Whose pins expire and when, by what the collector has watched, whatever clocks do; and what a collection takes away.
#include "stream/collector.h"

#include <gtest/gtest.h>

#include "base/simulation.h"
#include "base/text.h"
#include "store/memory_store.h"
#include "stream/cell.h"
#include "stream/strand_writer.h"
#include "stream/stream_reader.h"

namespace headrace {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr uint32_t kTerm = 60;

class CollectorTest : public testing::Test {
 protected:
  void Run(const std::function<void(const std::shared_ptr<StreamLog>&)>& body) {
    simulation_.Run([&] {
      StreamInfo info;
      info.uuid[0] = 7;
      info.columns = {{"x", Dtype::kU8}};
      auto log = StreamLog::Create(info, {store_, &simulation_, Random(1)}, {});
      ASSERT_TRUE(log.ok()) << log.status().ToString();
      auto writer = StrandWriter::Take(*log, 0, {});
      ASSERT_TRUE(writer.ok());
      for (int i = 0; i < 4; ++i) {
        ChunkBuilder chunk(info, {});
        Array array{Dtype::kU8, {4}, Bytes::FromString("1234")};
        for (uint32_t s = 0; s < (*writer)->next().steps; ++s)
          ASSERT_TRUE(chunk.AddStep({*BuildCell({&array, 1}, info.columns)}).ok());
        ASSERT_TRUE((*writer)->Append((*writer)->next(), chunk, {}, {}).ok());
      }
      ASSERT_TRUE((*log)->Commit(PinEdit{{"checkpoint", 3, 0, 0}, ""}, {}).ok());
      ASSERT_TRUE((*log)->Commit(PinEdit{{"session", 0, 0, kTerm}, ""}, {}).ok());
      body(*log);
    });
  }
  // After the collection: whether the session still holds the beginning.
  static bool Held(Collector& collector, StreamLog& log) {
    auto collected = collector.Collect({.grace = Duration::zero()}, {});
    EXPECT_TRUE(collected.ok()) << collected.status().ToString();
    bool pinned = log.known()->manifest.FindPin("session") != nullptr;
    EXPECT_EQ(log.known()->manifest.trim_step, pinned ? 0u : 3u);
    EXPECT_NE(log.known()->manifest.FindPin("checkpoint"), nullptr) << "a pin without a term never expires";
    return pinned;
  }

  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST_F(CollectorTest, APinExpiresWhenItWasWatchedStandingStillForItsTerm) {
  Run([&](const std::shared_ptr<StreamLog>& log) {
    Collector collector(log);
    for (int second = 0; second < static_cast<int>(kTerm); second += 10) {
      EXPECT_TRUE(Held(collector, *log)) << second;
      simulation_.SleepFor(seconds(10));
    }
    EXPECT_FALSE(Held(collector, *log));
  });
}

TEST_F(CollectorTest, ARenewedPinStays) {
  Run([&](const std::shared_ptr<StreamLog>& log) {
    Collector collector(log);
    for (int i = 0; i < 40; ++i) {
      EXPECT_TRUE(Held(collector, *log)) << i;
      simulation_.SleepFor(seconds(kTerm / 2));
      ASSERT_TRUE(log->Commit(RenewEdit{"session"}, {}).ok());
    }
  });
}

TEST_F(CollectorTest, ALeapOfTheClockIsNotHavingWatched) {
  Run([&](const std::shared_ptr<StreamLog>& log) {
    Collector collector(log);
    EXPECT_TRUE(Held(collector, *log));
    for (hours leap : {hours(1), hours(100), hours(24 * 365)}) {
      // As if the machines of the collector and of the holder had been suspended together.
      simulation_.SleepFor(leap);
      EXPECT_TRUE(Held(collector, *log)) << leap.count() << " hours";
      simulation_.SleepFor(seconds(kTerm / 4));
      EXPECT_TRUE(Held(collector, *log));
      ASSERT_TRUE(log->Commit(RenewEdit{"session"}, {}).ok());
      EXPECT_TRUE(Held(collector, *log));
    }
    for (int i = 0; i < 3; ++i) {
      simulation_.SleepFor(hours(1));
      EXPECT_TRUE(Held(collector, *log)) << i;
    }
    simulation_.SleepFor(hours(1));
    EXPECT_FALSE(Held(collector, *log)) << "somebody who looks rarely lets go at last";
  });
}

TEST_F(CollectorTest, TheCalendarDoesNotMatter) {
  Run([&](const std::shared_ptr<StreamLog>& log) {
    Collector collector(log);
    Duration by = hours(24 * 400);
    for (int second = 0; second < static_cast<int>(kTerm); second += 10) {
      EXPECT_TRUE(Held(collector, *log)) << second;
      simulation_.JumpWallClock(by);
      by = -2 * by;
      simulation_.SleepFor(seconds(10));
    }
    EXPECT_FALSE(Held(collector, *log));
  });
}

TEST_F(CollectorTest, ALookThatChangesNothingCountsAsOne) {
  Run([&](const std::shared_ptr<StreamLog>& log) {
    Collector collector(log);
    for (int i = 0; i <= 4; ++i) {
      auto dry = collector.Collect({.grace = Duration::zero(), .dry_run = true}, {});
      ASSERT_TRUE(dry.ok());
      EXPECT_EQ(dry->expired_pins, i == 4 ? 1u : 0u);
      EXPECT_NE(log->known()->manifest.FindPin("session"), nullptr);
      simulation_.SleepFor(seconds(kTerm / 4));
    }
  });
}

TEST_F(CollectorTest, NothingIsDeletedBeforeTheGracePeriodIsOver) {
  Run([&](const std::shared_ptr<StreamLog>& log) {
    ASSERT_TRUE(log->Commit(UnpinEdit{"session"}, {}).ok());
    const size_t before = ListAll(*store_, "data/", {})->size();
    simulation_.Spawn([&] {
      simulation_.SleepFor(seconds(59));
      EXPECT_EQ(ListAll(*store_, "data/", {})->size(), before);
      EXPECT_EQ((*StreamLog::Open({store_, &simulation_, Random(5)}, {}))->known()->manifest.trim_step, 3u);
    });
    Instant began = simulation_.Now();
    ASSERT_TRUE(Collector(log).Collect({.grace = seconds(60)}, {}).ok());
    EXPECT_GE(simulation_.Now() - began, seconds(60));
    EXPECT_LT(ListAll(*store_, "data/", {})->size(), before);
  });
}

TEST_F(CollectorTest, WhoStillHoldsAnOldManifestLearnsThatStepsWereTrimmed) {
  Run([&](const std::shared_ptr<StreamLog>& log) {
    auto old = StreamLog::Open({store_, &simulation_, Random(5)}, {});
    ASSERT_TRUE(old.ok());
    StreamReader reader(*old);
    Entry entry = *reader.Find(0, {});
    ASSERT_TRUE(log->Commit(UnpinEdit{"session"}, {}).ok());
    ASSERT_TRUE(Collector(log).Collect({.grace = Duration::zero()}, {}).ok());
    EXPECT_EQ(reader.ReadBlock(entry, 0, 1, {}).code(), Code::kTrimmed);
    // What is there by the manifest, and not in the store, is damage.
    Entry last = *reader.Find(3, {});
    ASSERT_TRUE(store_->Delete(std::vector<std::string>{last.name.Key()}, {}).ok());
    EXPECT_EQ(reader.ReadBlock(last, 0, 1, {}).code(), Code::kCorrupt);
  });
}

TEST_F(CollectorTest, APinBelowTheTrimPointIsRefused) {
  Run([&](const std::shared_ptr<StreamLog>& log) {
    ASSERT_TRUE(log->Commit(UnpinEdit{"session"}, {}).ok());
    ASSERT_TRUE(Collector(log).Collect({.grace = Duration::zero()}, {}).ok());
    EXPECT_EQ(log->Commit(PinEdit{{"late", 2, 0, 0}, ""}, {}).code(), Code::kTrimmed);
    EXPECT_EQ(log->known()->manifest.FindPin("late"), nullptr);
  });
}

}  // namespace
}  // namespace headrace
