#include "store/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "base/text.h"
#include "store/decorator.h"
#include "store/measure_data.h"
#include "store/memory_store.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A store of which the truth is known: every request takes `latency`, and at most `width` of them run at once.
class SteadyStore final : public StoreDecorator {
 public:
  SteadyStore(std::shared_ptr<ObjectStore> inner, Simulation& simulation, Duration latency, int width)
      : StoreDecorator(std::move(inner)),
        simulation_(simulation),
        latency_(latency),
        free_(width),
        signal_(simulation.MakeSignal()) {}

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
    if (!unreadable_in.empty() && key.find(unreadable_in) != std::string::npos)
      return Status(Code::kDenied, "not allowed to read");
    HR_RETURN_IF_ERROR(Take(deadline));
    Result<std::optional<Object>> found = inner().Get(key, options, deadline);
    if (!flip_in.empty() && key.find(flip_in) != std::string::npos && found.ok() && *found) {
      std::string bytes = (*found)->bytes.ToString();
      bytes[bytes.size() / 2] ^= 1;
      if (!options.into.empty()) std::memcpy(options.into.data(), bytes.data(), bytes.size());
      (*found)->bytes = Bytes::FromString(bytes);
    }
    return found;
  }
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override {
    if (!refuse_in.empty() && key.find(refuse_in) != std::string::npos) return Status(Code::kFull, "no space left");
    HR_RETURN_IF_ERROR(Take(deadline));
    written += body.size();
    return inner().PutIfAbsent(key, body, deadline);
  }
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override {
    HR_RETURN_IF_ERROR(Take(deadline));
    written += body.size();
    return inner().Put(key, body, deadline);
  }
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override {
    HR_RETURN_IF_ERROR(Take(deadline));
    return inner().List(options, deadline);
  }
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override {
    if (keep_all) return Status(Code::kDenied, "not allowed to delete");
    return inner().Delete(keys, deadline);
  }

  std::string flip_in;    // keys of which a bit comes back wrong
  std::string refuse_in;  // keys that cannot be created
  std::string unreadable_in;
  bool keep_all = false;
  uint64_t written = 0;

 private:
  Status Take(const Deadline& deadline) {
    std::unique_lock lock(mutex_);
    while (free_ == 0) signal_->Wait(lock);
    --free_;
    lock.unlock();
    Status slept = deadline.Sleep(simulation_, latency_, "a request");
    if (slept.code() == Code::kTimeout) simulation_.SleepUntil(deadline.at());
    lock.lock();
    ++free_;
    signal_->NotifyOne();
    return slept;
  }

  Simulation& simulation_;
  const Duration latency_;
  int free_;
  std::mutex mutex_;
  std::unique_ptr<Signal> signal_;
};

struct Measured : ::testing::Test {
  Simulation simulation{1};
  std::shared_ptr<MemoryStore> memory = std::make_shared<MemoryStore>("truth", simulation);
  std::stop_source stop;
  MeasureReport report;
  Duration took{};

  std::shared_ptr<SteadyStore> Steady(Duration latency, int width) {
    return std::make_shared<SteadyStore>(memory, simulation, latency, width);
  }
  // Small objects: time is virtual here, and bytes are not.
  static MeasureOptions Small() {
    MeasureOptions options;
    options.time = 4s;
    options.size = 4'000'000;
    options.range_bytes = 16 << 10;
    options.small_bytes = 1 << 10;
    return options;
  }
  void Run(ObjectStore& store, MeasureOptions options = Small()) {
    simulation.Run([&] {
      Instant begin = simulation.Now();
      report = Measure(store, options, simulation, Random(7), stop.get_token(), nullptr);
      took = simulation.Now() - begin;
    });
  }
  size_t Left() {
    size_t count = 0;
    simulation.Run([&] { count = ListAll(*memory, "", Deadline())->size(); });
    return count;
  }
};

TEST_F(Measured, FindsTheRatesOfAStoreWhoseTruthIsKnown) {
  auto store = Steady(10ms, 4);
  Run(*store);
  ASSERT_TRUE(report.failure.ok()) << report.failure.ToString();
  const MeasurePhase& commits = report.phase(MeasureKind::kCommits);
  EXPECT_EQ(commits.end, MeasurePhase::End::kSerial);
  EXPECT_NEAR(commits.single().requests_per_second(), 100, 1);
  EXPECT_EQ(commits.single().p50, 10ms);
  EXPECT_EQ(commits.single().max, 10ms);
  const MeasurePhase& ranges = report.phase(MeasureKind::kRangeReads);
  EXPECT_EQ(ranges.request_bytes, 16u << 10);
  EXPECT_NEAR(ranges.single().bytes_per_second(), 100.0 * (16 << 10), 2e4);
  EXPECT_EQ(ranges.best().concurrency, 4u);
  EXPECT_NEAR(ranges.best().requests_per_second(), 400, 10);
  EXPECT_EQ(report.damaged, 0u);
}

TEST_F(Measured, StopsRaisingWhenItGainsNothing) {
  auto store = Steady(10ms, 4);
  Run(*store);
  const MeasurePhase& reads = report.phase(MeasureKind::kSmallReads);
  EXPECT_EQ(reads.end, MeasurePhase::End::kFlat);
  EXPECT_EQ(reads.levels.back().concurrency, 16u);  // 8 and 16 brought nothing over 4
  // Waiting for a turn shows in the latency under load, and only there.
  EXPECT_EQ(reads.levels[0].p99, 10ms);
  EXPECT_GE(reads.levels[4].max, 35ms);
}

TEST_F(Measured, GoesOnWhileItGains) {
  auto store = Steady(10ms, 1000);
  MeasureOptions options = Small();
  options.max_concurrency = 32;
  Run(*store, options);
  const MeasurePhase& reads = report.phase(MeasureKind::kSmallReads);
  EXPECT_EQ(reads.end, MeasurePhase::End::kConcurrency);
  EXPECT_EQ(reads.best().concurrency, 32u);
  EXPECT_NEAR(reads.best().requests_per_second(), 3200, 150);
}

TEST_F(Measured, StaysWithinItsTimeAndItsBytes) {
  for (auto [time, size, latency] :
       {std::tuple{5s, 2'000'000ull, 100ms}, std::tuple{20s, 1'000'000ull, 50ms}, std::tuple{3s, 20'000'000ull, 300ms}}) {
    auto store = Steady(latency, 64);
    MeasureOptions options = Small();
    options.time = time;
    options.size = size;
    Run(*store, options);
    EXPECT_TRUE(report.failure.ok()) << report.failure.ToString();
    EXPECT_LE(store->written, size);
    EXPECT_EQ(store->written, report.written_bytes);
    EXPECT_LE(report.elapsed, time + latency);
    EXPECT_EQ(Left(), 0u);
  }
}

TEST_F(Measured, AStoreThatNeverAnswersIsAFailure) {
  auto store = Steady(1h, 64);
  Run(*store);
  EXPECT_EQ(report.failure.code(), Code::kTimeout);
  EXPECT_LE(took, 60s);
}

TEST_F(Measured, ASlowStoreGetsSmallerObjects) {
  MeasureOptions options;
  for (auto [latency, bytes] : {std::pair{20ms, 8u << 20}, std::pair{400ms, 1u << 20}}) {
    auto store = Steady(latency, 1);
    store->unreadable_in = "data/";  // reading them is not the point, and takes long
    Run(*store, options);
    ASSERT_EQ(report.failure.code(), Code::kDenied);
    EXPECT_EQ(report.phase(MeasureKind::kLargeWrites).request_bytes, bytes);
  }
}

TEST_F(Measured, FlippedBitsAreFoundAndNamed) {
  auto store = Steady(10ms, 4);
  store->flip_in = "data/";
  Run(*store);
  EXPECT_GT(report.damaged, 10u);
  EXPECT_THAT(report.damaged_example, HasSubstr("mem://truth/headrace-bench-"));
  EXPECT_EQ(Left(), 0u);
}

TEST_F(Measured, AFailureEndsItAndLeavesNothingBehind) {
  auto store = Steady(10ms, 4);
  store->refuse_in = "data/";
  Run(*store);
  EXPECT_EQ(report.failure.code(), Code::kFull);
  EXPECT_FALSE(report.phase(MeasureKind::kSmallWrites).empty());
  EXPECT_TRUE(report.phase(MeasureKind::kObjectReads).empty());
  EXPECT_THAT(report.left_behind, IsEmpty());
  EXPECT_EQ(Left(), 0u);
}

TEST_F(Measured, AskedToStopItStopsAndCleansUp) {
  auto store = Steady(10ms, 4);
  simulation.Spawn([&] {
    simulation.SleepFor(2s);
    stop.request_stop();
  });
  Run(*store);
  EXPECT_EQ(report.failure.code(), Code::kCancelled);
  EXPECT_LT(took, 2200ms);
  EXPECT_EQ(Left(), 0u);
}

TEST_F(Measured, WhatCannotBeRemovedIsNamed) {
  auto store = Steady(10ms, 4);
  store->keep_all = true;
  Run(*store);
  EXPECT_EQ(report.left_behind.size(), Left());
  EXPECT_THAT(report.left_behind, Not(IsEmpty()));
  EXPECT_EQ(report.removal_failure.code(), Code::kDenied);
}

TEST_F(Measured, IsTheSameForTheSameSeed) {
  auto store = Steady(30ms, 5);
  Run(*store);
  double first = report.phase(MeasureKind::kRangeReads).best().requests_per_second();
  Simulation again(1);
  auto other = std::make_shared<SteadyStore>(std::make_shared<MemoryStore>("x", again), again, 30ms, 5);
  again.Run([&] { report = Measure(*other, Small(), again, Random(7), {}, nullptr); });
  EXPECT_EQ(first, report.phase(MeasureKind::kRangeReads).best().requests_per_second());
}

TEST(MeasureData, EveryByteIsChecked) {
  MeasureData data(3, 10'000, 4096);
  Bytes whole = data.Content(5).Join();
  ASSERT_EQ(whole.size(), 10'000u);
  EXPECT_TRUE(data.Matches(5, 0, whole.span()));
  EXPECT_TRUE(data.Matches(5, 1, whole.Slice(4096).span()));
  EXPECT_TRUE(data.Matches(5, 2, whole.Slice(8192).span()));
  EXPECT_FALSE(data.Matches(6, 0, whole.span()));
  EXPECT_FALSE(data.Matches(5, 1, whole.Slice(0, 4096).span()));
  EXPECT_FALSE(data.Matches(5, 0, whole.Slice(0, 9'999).span()));
  for (size_t at : {0ul, 31ul, 32ul, 4095ul, 4096ul, 9'999ul}) {
    std::string flipped = whole.ToString();
    flipped[at] ^= 0x10;
    EXPECT_FALSE(data.Matches(5, 0, std::as_bytes(std::span(flipped)))) << "bit at " << at << " was not missed";
  }
}

TEST(MeasureData, TinyObjectsWorkToo) {
  for (uint64_t size : {1ull, 31ull, 32ull, 33ull}) {
    MeasureData data(3, size, 1 << 20);
    Bytes whole = data.Content(0).Join();
    EXPECT_EQ(whole.size(), size);
    EXPECT_TRUE(data.Matches(0, 0, whole.span()));
  }
}

}  // namespace
}  // namespace headrace
