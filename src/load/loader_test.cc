// A rank's loader over a stream, in simulated time.
#include "load/loader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/simulation.h"
#include "base/text.h"
#include "load/piecewise_store.h"
#include "load/position_report.h"
#include "store/faulty_store.h"
#include "store/memory_store.h"
#include "store/slow_store.h"
#include "stream/owners.h"
#include "stream/strand_writer.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LoaderTest : public testing::Test {
 protected:
  static StreamInfo Info(uint32_t lanes, uint32_t strands, uint32_t steps_per_block) {
    StreamInfo info;
    info.uuid = {1, 2, 3};
    info.lanes = lanes;
    info.strands = strands;
    info.window = 2 * strands;
    info.blocks = *BlockSizes::FromPhases({{UINT64_MAX, steps_per_block}});
    info.columns = {{"number", Dtype::kI64, Column::kArray}};
    return info;
  }

  StreamContext Context(std::shared_ptr<ObjectStore> store, uint64_t seed) {
    return {std::move(store), &simulation_, Random(seed)};
  }

  void Create(const StreamInfo& info) {
    auto log = StreamLog::Create(info, Context(memory_, 1), {});
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    log_ = *log;
    for (uint16_t v = 0; v < info.strands; ++v) {
      auto writer = StrandWriter::Take(log_, v, {});
      ASSERT_TRUE(writer.ok());
      writers_.push_back(*std::move(writer));
    }
  }

  // Each lane of step s holds the one number 1000 · s + lane, and `padding` bytes.
  void Append(int blocks, size_t padding = 0) {
    const StreamInfo& info = log_->info();
    for (int i = 0; i < blocks; ++i) {
      StrandWriter& writer = *writers_[appended_++ % writers_.size()];
      StrandWriter::Turn turn = writer.next();
      ChunkBuilder chunk(info, {});
      for (uint32_t s = 0; s < turn.steps; ++s, ++step_) {
        std::vector<Body> cells;
        for (uint32_t lane = 0; lane < info.lanes; ++lane) {
          std::string text(8 + padding, '\0');
          auto number = static_cast<int64_t>(1000 * step_ + lane);
          std::memcpy(text.data(), &number, 8);
          Array array{Dtype::kI64, {1 + padding / 8}, Bytes::FromString(text)};
          cells.push_back(*BuildCell({&array, 1}, info.columns));
        }
        ASSERT_TRUE(chunk.AddStep(std::move(cells)).ok());
      }
      Status status = writer.Append(turn, chunk, Bytes(), {});
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }

  void Seal() {
    for (auto& writer : writers_) ASSERT_TRUE(writer->End({}).ok());
    ChunkBuilder none(log_->info(), {});
    Status status = writers_[0]->Finish(none, {});
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  std::unique_ptr<Loader> Open(std::shared_ptr<ObjectStore> store, LoaderOptions options) {
    auto log = StreamLog::Open(Context(std::move(store), 99), {});
    EXPECT_TRUE(log.ok()) << log.status().ToString();
    return std::make_unique<Loader>(*log, options, simulation_);
  }

  static std::vector<int64_t> Numbers(const Step& step) {
    std::vector<int64_t> numbers;
    for (uint32_t i = 0; i < step.lanes().count(); ++i) {
      numbers.push_back(0);
      std::memcpy(&numbers.back(), step.cell(i)[0].bytes.data(), 8);
    }
    return numbers;
  }

  // Waits without end, in slices as a binding does.
  Result<Loader::Turn> Next(Loader& loader) {
    while (true) {
      Result<Loader::Turn> turn = loader.Next(simulation_.Now() + milliseconds(50));
      if (!turn.ok() || turn->kind != Loader::Turn::kNotYet) return turn;
    }
  }

  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("", simulation_);
  std::shared_ptr<StreamLog> log_;
  std::vector<std::unique_ptr<StrandWriter>> writers_;
  uint64_t appended_ = 0;
  uint64_t step_ = 0;
};

TEST_F(LoaderTest, HandsOverEveryStepOnceInOrderUntilTheSeal) {
  simulation_.Run([&] {
    Create(Info(4, 2, 3));
    Append(20);
    Seal();
    auto loader = Open(memory_, {.lanes = {1, 3}});
    for (uint64_t s = 0; s < 60; ++s) {
      auto turn = Next(*loader);
      ASSERT_TRUE(turn.ok()) << turn.status().ToString();
      ASSERT_EQ(turn->kind, Loader::Turn::kStep);
      EXPECT_EQ(turn->step->number(), s);
      EXPECT_EQ(Numbers(*turn->step),
                (std::vector<int64_t>{static_cast<int64_t>(1000 * s + 1), static_cast<int64_t>(1000 * s + 2)}));
    }
    EXPECT_EQ(Next(*loader)->kind, Loader::Turn::kEnd);
    EXPECT_EQ(Next(*loader)->kind, Loader::Turn::kEnd);
    EXPECT_EQ(loader->cursor(), 60u);
    EXPECT_EQ(**loader->Length({}), 60u);
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(LoaderTest, SeekSkipAndAnotherShareTakeEffectAtTheNextStep) {
  simulation_.Run([&] {
    Create(Info(4, 1, 4));
    Append(10);
    Seal();
    auto loader = Open(memory_, {.lanes = {0, 4}});
    EXPECT_EQ(Next(*loader)->step->number(), 0u);
    loader->Seek(17);
    EXPECT_EQ(Next(*loader)->step->number(), 17u);
    loader->Skip(18, 25);
    loader->Skip(26, 27);
    loader->SetLanes({2, 3});
    auto turn = Next(*loader);
    EXPECT_EQ(turn->step->number(), 25u);
    EXPECT_EQ(Numbers(*turn->step), std::vector<int64_t>{25002});
    EXPECT_EQ(Next(*loader)->step->number(), 27u);
    loader->Seek(3);
    EXPECT_EQ(Next(*loader)->step->number(), 3u);
    auto step = loader->Read(33, {});
    ASSERT_TRUE(step.ok()) << step.status().ToString();
    EXPECT_EQ(Numbers(*step), std::vector<int64_t>{33002});
    EXPECT_EQ(Next(*loader)->step->number(), 4u);
    loader->Skip(30, 40);
    loader->Seek(29);
    EXPECT_EQ(Next(*loader)->step->number(), 29u);
    EXPECT_EQ(Next(*loader)->kind, Loader::Turn::kEnd);
    EXPECT_EQ(loader->Read(40, {}).code(), Code::kNotFound);
  });
}

TEST_F(LoaderTest, NeverHoldsMoreThanItsWindow) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    Append(40, 8000);
    Seal();
    auto slow = std::make_shared<SlowStore>(memory_, SlowOptions{}, simulation_, Random(3));
    auto loader = Open(slow, {.lanes = {0, 2}, .window_bytes = 100'000});
    double most = 0;
    for (int s = 0; s < 40; ++s) {
      ASSERT_EQ(Next(*loader)->step->number(), static_cast<uint64_t>(s));
      simulation_.SleepFor(milliseconds(300));
      for (auto& [name, value] : loader->Stats()) {
        if (name == "window_used_bytes") most = std::max(most, value);
      }
    }
    EXPECT_LE(most, 100'000);
    EXPECT_GE(most, 60'000);
  });
}

TEST_F(LoaderTest, ABlockLargerThanTheWindowIsReadAlone) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    Append(5, 8000);
    Seal();
    auto loader = Open(memory_, {.lanes = {0, 2}, .window_bytes = 1});
    for (uint64_t s = 0; s < 5; ++s) EXPECT_EQ(Next(*loader)->step->number(), s);
    EXPECT_EQ(Next(*loader)->kind, Loader::Turn::kEnd);
  });
}

TEST_F(LoaderTest, TheTrainerDoesNotWaitAfterTheFirstStepWhereLatencyCanBeHidden) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    Append(200, 1'000'000);
    Seal();
    SlowOptions s3;
    s3.get = milliseconds(60);
    s3.connection_bytes_per_second = 100e6;
    auto loader = Open(std::make_shared<SlowStore>(memory_, s3, simulation_, Random(3)), {.lanes = {0, 1}});
    ASSERT_EQ(Next(*loader)->step->number(), 0u);
    Duration waited{};
    for (uint64_t s = 1; s < 200; ++s) {
      simulation_.SleepFor(milliseconds(25));
      Instant before = simulation_.Now();
      ASSERT_EQ(Next(*loader)->step->number(), s);
      waited += simulation_.Now() - before;
    }
    EXPECT_EQ(waited, Duration::zero());
    // And not by reading everything at once.
    for (auto& [name, value] : loader->Stats()) {
      if (name == "depth_blocks") {
        EXPECT_LE(value, 24);
      }
      if (name == "wait_seconds") {
        EXPECT_LT(value, 1);
      }
    }
  });
}

TEST_F(LoaderTest, AStoreThatIsDownForAMinuteIsWaitedFor) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    Append(200);
    Seal();
    auto faulty = std::make_shared<FaultyStore>(memory_, FaultPlan{}, simulation_, Random(3));
    auto loader = Open(faulty, {.lanes = {0, 2}});
    ASSERT_EQ(Next(*loader)->step->number(), 0u);
    uint64_t next = 1;
    int waits = 0;
    faulty->Add({.fault = Fault::FailBefore()});
    Instant heal = simulation_.Now() + seconds(60);
    while (simulation_.Now() < heal) {
      auto turn = loader->Next(simulation_.Now() + milliseconds(50));
      ASSERT_TRUE(turn.ok()) << turn.status().ToString();
      if (turn->kind == Loader::Turn::kNotYet) {
        ++waits;
      } else {
        ASSERT_EQ(waits, 0);  // only what was read ahead
        ASSERT_EQ(turn->step->number(), next++);
      }
    }
    EXPECT_GT(waits, 100);
    faulty->Heal();
    for (; next < 200; ++next) ASSERT_EQ(Next(*loader)->step->number(), next);
    EXPECT_EQ(Next(*loader)->kind, Loader::Turn::kEnd);
  });
}

TEST_F(LoaderTest, WhateverAStoreSaysThatMayPassIsWaitedFor) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    Append(40);
    Seal();
    for (Code code : {Code::kThrottled, Code::kUnavailable, Code::kTimeout, Code::kExpired}) {
      auto faulty = std::make_shared<FaultyStore>(memory_, FaultPlan{}, simulation_, Random(3));
      auto loader = Open(faulty, {.lanes = {0, 2}});
      faulty->Add({.fault = Fault::Refuse(code), .op = StoreOp::kGet, .probability = 0.7});
      for (uint64_t s = 0; s < 40; ++s) {
        auto turn = Next(*loader);
        ASSERT_TRUE(turn.ok()) << turn.status().ToString();
        ASSERT_EQ(turn->step->number(), s);
      }
      EXPECT_GT(faulty->struck(), 20u);
    }
    auto faulty = std::make_shared<FaultyStore>(memory_, FaultPlan{}, simulation_, Random(3));
    auto loader = Open(faulty, {.lanes = {0, 2}});
    faulty->Add({.fault = Fault::Refuse(Code::kDenied), .op = StoreOp::kGet});
    EXPECT_EQ(Next(*loader).code(), Code::kDenied);  // waiting would not help
  });
}

TEST_F(LoaderTest, ASeekDuringAWaitIsObeyedByTheOneWhoWaits) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    Append(20);
    Seal();
    SlowOptions far;
    far.get = seconds(2);
    far.sigma = 0;
    auto loader = Open(std::make_shared<SlowStore>(memory_, far, simulation_, Random(4)), {.lanes = {0, 2}});
    simulation_.Spawn([&] {
      simulation_.SleepFor(milliseconds(100));
      loader->Seek(11);
    });
    EXPECT_EQ(Next(*loader)->step->number(), 11u);
    // Two who wait share the steps, and none goes to both.
    std::multiset<uint64_t> got;
    int running = 2;
    for (int i = 0; i < 2; ++i) {
      simulation_.Spawn([&] {
        for (auto turn = Next(*loader); turn.ok() && turn->kind == Loader::Turn::kStep; turn = Next(*loader)) {
          got.insert(turn->step->number());
          simulation_.SleepFor(milliseconds(10));
        }
        --running;
      });
    }
    while (running > 0) simulation_.SleepFor(seconds(1));
    EXPECT_EQ(got, (std::multiset<uint64_t>{12, 13, 14, 15, 16, 17, 18, 19}));
  });
}

TEST_F(LoaderTest, ATrainerThatHasToWaitIsReadFurtherAheadFor) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    Append(300);
    SlowOptions far;
    far.get = seconds(1);
    far.sigma = 0;
    far.connection_bytes_per_second = 1e12;
    PrefetchOptions options;
    options.lanes = {0, 1};
    auto log = StreamLog::Open(Context(std::make_shared<SlowStore>(memory_, far, simulation_, Random(4)), 5), {});
    auto prefetch =
        Prefetch::Start(*log, std::make_shared<StreamReader>(*log), simulation_, std::make_shared<LoadCounts>(), options);
    for (uint64_t s = 0; s < 40; ++s) ASSERT_TRUE(prefetch->Take(s, Instant::max()).ok());  // as quickly as it can
    EXPECT_GT(prefetch->level().depth, Depth::kFirst);
    prefetch->Stop();
    prefetch->Join();
  });
}

TEST_F(LoaderTest, TheWindowCountsWhatThisRanksLanesReallyTake) {
  simulation_.Run([&] {
    StreamInfo info = Info(4, 1, 1);
    Create(info);
    for (int i = 0; i < 30; ++i) {
      StrandWriter::Turn turn = writers_[0]->next();
      ChunkBuilder chunk(info, {});
      std::vector<Body> cells;
      for (uint32_t lane = 0; lane < 4; ++lane) {
        uint64_t numbers = lane == 3 ? 100'000 : 10;  // the last lane has nearly everything
        Array array{Dtype::kI64, {numbers}, Bytes::FromString(std::string(8 * numbers, 'x'))};
        cells.push_back(*BuildCell({&array, 1}, info.columns));
      }
      ASSERT_TRUE(chunk.AddStep(std::move(cells)).ok());
      ASSERT_TRUE(writers_[0]->Append(turn, chunk, Bytes(), {}).ok());
    }
    PrefetchOptions options;
    options.lanes = {3, 4};
    options.window_bytes = 4'000'000;
    auto prefetch =
        Prefetch::Start(log_, std::make_shared<StreamReader>(log_), simulation_, std::make_shared<LoadCounts>(), options);
    simulation_.SleepFor(seconds(5));
    EXPECT_GE(prefetch->level().bytes, 800'000 * prefetch->level().blocks);
    prefetch->Stop();
    prefetch->Join();
  });
}

TEST_F(LoaderTest, APackedBatchThatIsNoneIsNotHandedOver) {
  simulation_.Run([&] {
    StreamInfo info = Info(2, 1, 1);
    info.columns = {{"tokens", Dtype::kU16, Column::kArray}, {"cu_seqlens", Dtype::kI32, Column::kArray}};
    Create(info);
    for (int32_t end : {8, 7}) {  // the second one has a token that belongs to no document
      StrandWriter::Turn turn = writers_[0]->next();
      ChunkBuilder chunk(info, {});
      std::vector<Body> cells;
      for (uint32_t lane = 0; lane < 2; ++lane) {
        std::vector<uint16_t> tokens(8, 5);
        std::vector<int32_t> bounds{0, 3, lane == 1 ? end : 8};
        std::vector<Array> arrays{{Dtype::kU16, {1, 8}, Bytes::Copy(std::as_bytes(std::span(tokens)))},
                                  {Dtype::kI32, {3}, Bytes::Copy(std::as_bytes(std::span(bounds)))}};
        cells.push_back(*BuildCell(arrays, info.columns));
      }
      ASSERT_TRUE(chunk.AddStep(std::move(cells)).ok());
      ASSERT_TRUE(writers_[0]->Append(turn, chunk, Bytes(), {}).ok());
    }
    for (uint32_t first : {0u, 1u}) {
      auto loader = Open(memory_, {.lanes = {first, 2}});
      EXPECT_EQ(Next(*loader)->step->number(), 0u);
      auto wrong = Next(*loader);
      EXPECT_EQ(wrong.code(), Code::kCorrupt);
      EXPECT_NE(wrong.status().message().find("step 1, lane 1"), std::string::npos) << wrong.status().ToString();
    }
  });
}

TEST_F(LoaderTest, ANewStepIsSeenSoonAndASilentStrandIsNamed) {
  simulation_.Run([&] {
    Create(Info(2, 2, 1));
    Append(3);
    auto loader = Open(memory_, {.lanes = {0, 2}, .timeout = seconds(30)});
    for (uint64_t s = 0; s < 3; ++s) ASSERT_EQ(Next(*loader)->step->number(), s);
    auto turn = Next(*loader);
    ASSERT_EQ(turn.code(), Code::kStalled);
    EXPECT_NE(turn.status().message().find("block 3 is missing; strand 1 makes it"), std::string::npos)
        << turn.status().ToString();
    // The cursor did not move: what comes later is handed over.
    Append(1);
    EXPECT_EQ(Next(*loader)->step->number(), 3u);
  });
}

TEST_F(LoaderTest, AStallSaysWhetherTheOwnerOfTheStrandIsStillThere) {
  simulation_.Run([&] {
    Create(Info(2, 2, 1));
    Append(3);
    const std::string owner = OwnerText(log_->owner());
    const std::string key = Cat("status/producer-mill-", owner.substr(0, 8));
    auto says = [&](const std::string& status) { ASSERT_TRUE(memory_->Put(key, Body(status), {}).ok()); };
    auto stalled = [&](Duration timeout) {
      auto loader = Open(memory_, {.lanes = {0, 2}, .timeout = timeout});
      for (uint64_t s = 0; s < 3; ++s) EXPECT_EQ(Next(*loader)->step->number(), s);
      auto turn = Next(*loader);
      EXPECT_EQ(turn.code(), Code::kStalled);
      return turn.status().message();
    };
    auto expect = [](const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), std::string::npos) << text; };
    says(R"({"counter":7,"strands":[],"left":true})");
    expect(stalled(seconds(30)), Cat("nobody holds that strand any more: its last owner mill (", owner, ") has ended"));
    expect(stalled(seconds(30)), "start one with the stream's recipe");
    says(R"({"counter":8,"strands":[0]})");
    expect(stalled(seconds(30)), "has let go of it");

    says(R"({"counter":9,"strands":[0,1]})");
    expect(stalled(seconds(300)), "whose owner has given no sign of life for ");
    expect(stalled(seconds(16)), "whose owner has given no sign of life for ");  // also if no warning came before
    std::string text = stalled(seconds(2));
    expect(text, Cat("strand 1 makes it (owner mill (", owner, ")"));
    EXPECT_EQ(text.find("sign of life"), std::string::npos) << "too short to tell: " << text;

    bool done = false;
    simulation_.Start("mill", [&] {
      for (int counter = 10; !done; ++counter, simulation_.SleepFor(seconds(2)))
        says(Cat(R"({"counter":)", counter, R"(,"strands":[0,1]})"));
    });
    text = stalled(seconds(300));
    done = true;
    EXPECT_EQ(text.find("sign of life"), std::string::npos) << text;
    expect(text, "strand 1 makes it (owner mill (");
    // Nonsense is nothing that anybody said.
    says(R"({"counter":"x","strands":3,"left":"yes"})");
    expect(stalled(seconds(30)), "strand 1 makes it (owner mill (");
  });
}

TEST_F(LoaderTest, DamageIsNamedWhenItsStepComes) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    Append(5);
    Seal();
    auto entry = StreamReader(log_).Find(3, {});
    std::string key = entry->name.Key();
    std::string bytes = (*memory_->Get(key, {}))->bytes.ToString();
    bytes[bytes.size() / 2] ^= 1;
    ASSERT_TRUE(memory_->Put(key, Body(bytes), {}).ok());
    auto loader = Open(memory_, {.lanes = {0, 2}});
    for (uint64_t s = 0; s < 3; ++s) ASSERT_EQ(Next(*loader)->step->number(), s);
    for (int i = 0; i < 2; ++i) {
      auto turn = Next(*loader);
      ASSERT_EQ(turn.code(), Code::kCorrupt);
      EXPECT_NE(turn.status().message().find(key), std::string::npos) << turn.status().ToString();
    }
    EXPECT_EQ(loader->cursor(), 3u);
    loader->Seek(4);
    EXPECT_EQ(Next(*loader)->step->number(), 4u);
  });
}

TEST_F(LoaderTest, EveryFlippedByteOfAChunkIsNoticed) {
  simulation_.Run([&] {
    Create(Info(2, 1, 2));
    Append(1, 200);
    Seal();
    auto entry = StreamReader(log_).Find(0, {});
    const std::string key = entry->name.Key();
    const std::string good = (*memory_->Get(key, {}))->bytes.ToString();
    uint64_t end = good.size() - 64;  // the footer is the producers'
    for (bool one_lane : {false, true}) {
      for (size_t at = 0; at < end; at += one_lane ? 7 : 3) {
        std::string bad = good;
        bad[at] ^= 0x20;
        ASSERT_TRUE(memory_->Put(key, Body(bad), {}).ok());
        auto loader = Open(memory_, {.lanes = {0, one_lane ? 1u : 2u}});
        auto turn = Next(*loader);
        // Between cells there is padding, and other lanes are not this reader's.
        if (turn.ok()) {
          for (uint64_t s = 0; s < 2; ++s) {
            for (uint32_t i = 0; i < loader->lanes().count(); ++i) {
              auto step = s == 0 ? *std::move(turn->step) : *loader->Read(1, {});
              ASSERT_EQ(Numbers(step)[i], static_cast<int64_t>(1000 * s + i)) << "byte " << at;
              if (s == 0) turn->step = step;
            }
          }
        } else {
          ASSERT_EQ(turn.code(), Code::kCorrupt) << "byte " << at << turn.status().ToString();
          ASSERT_NE(turn.status().message().find(key), std::string::npos);
        }
      }
    }
  });
}

TEST_F(LoaderTest, LanesOfAColumnAreOneArrayWithoutAnotherCopyWhereTheTrainerAsksForThem) {
  simulation_.Run([&] {
    Create(Info(8, 1, 4));
    Append(60, 640);
    Seal();
    auto together = [](const Step& step) {
      std::optional<Bytes> all = step.cell(0)[0].bytes;
      for (size_t i = 1; i < step.lanes().count() && all; ++i) all = all->JoinedWith(step.cell(i)[0].bytes);
      return all.has_value();
    };
    auto loader = Open(memory_, {.lanes = {2, 7}, .window_bytes = 100'000});
    for (uint64_t s = 0; s < 80; ++s) {
      auto turn = Next(*loader);
      ASSERT_EQ(turn->step->number(), s);
      ASSERT_EQ(Numbers(*turn->step).back(), static_cast<int64_t>(1000 * s + 6));
      ASSERT_TRUE(together(*turn->step)) << s;
      turn->step->block().habit->AskedForWhole();
    }
    // One that takes lane by lane gets what the store brought.
    size_t copied = 0;
    for (uint64_t s = 80; s < 240; ++s) {
      auto turn = Next(*loader);
      ASSERT_EQ(turn->step->number(), s);
      ASSERT_EQ(Numbers(*turn->step).front(), static_cast<int64_t>(1000 * s + 2));
      copied += together(*turn->step) ? 1 : 0;
    }
    EXPECT_LT(copied, 80u);
  });
}

TEST_F(LoaderTest, LargeBlocksAreReadInPiecesAndPutTogether) {
  simulation_.Run([&] {
    Create(Info(8, 1, 2));
    Append(6, 8000);
    Seal();
    auto counts = std::make_shared<LoadCounts>();
    PrefetchOptions options;
    options.lanes = {1, 8};
    options.read_bytes = 20'000;
    auto prefetch = Prefetch::Start(log_, std::make_shared<StreamReader>(log_), simulation_, counts, options);
    for (uint64_t s = 0; s < 12; ++s) {
      auto turn = prefetch->Take(s, Instant::max());
      ASSERT_TRUE(turn.ok()) << turn.status().ToString();
      Step step(turn->block, s);
      std::vector<int64_t> expected;
      for (int64_t lane = 1; lane < 8; ++lane) expected.push_back(static_cast<int64_t>(1000 * s) + lane);
      ASSERT_EQ(Numbers(step), expected);
    }
    EXPECT_GE(counts->reads, 6u * 5);
    EXPECT_EQ(counts->blocks, 6u);
    prefetch->Stop();
    prefetch->Join();
  });
}

TEST_F(LoaderTest, BytesThatComeInPiecesAreTakenApartOnTheWay) {
  simulation_.Run([&] {
    Create(Info(8, 1, 4));
    Append(12, 20'000);
    Seal();
    for (int landing : {100, 50, 0}) {  // of some blocks, a part of the lanes comes otherwise
      SCOPED_TRACE(landing);
      auto store = std::make_shared<PiecewiseStore>(memory_, 5, landing);
      auto log = StreamLog::Open(Context(store, 99), {});
      ASSERT_TRUE(log.ok());
      PrefetchOptions options;
      options.lanes = {1, 8};
      options.read_bytes = 200'000;
      auto prefetch =
          Prefetch::Start(*log, std::make_shared<StreamReader>(*log), simulation_, std::make_shared<LoadCounts>(), options);
      for (uint64_t s = 0; s < 48; ++s) {
        auto turn = prefetch->Take(s, Instant::max());
        ASSERT_TRUE(turn.ok()) << turn.status().ToString();
        Step step(turn->block, s);
        std::optional<Bytes> all = step.cell(0)[0].bytes;
        for (size_t i = 0; i < 7; ++i) {
          ASSERT_EQ(Numbers(step)[i], static_cast<int64_t>(1000 * s + 1 + i));
          ASSERT_EQ(step.cell(i)[0].bytes.size(), 20'008u);
          if (i > 0 && all) all = all->JoinedWith(step.cell(i)[0].bytes);
        }
        ASSERT_TRUE(all) << s;
      }
      EXPECT_EQ(store->landed() > 0, landing > 0);
      prefetch->Stop();
      prefetch->Join();
    }
  });
}

TEST_F(LoaderTest, DamageThatLandsIsNamed) {
  simulation_.Run([&] {
    Create(Info(4, 1, 2));
    Append(4, 60'000);
    Seal();
    const std::string key = StreamReader(log_).Find(5, {})->name.Key();
    const std::string good = (*memory_->Get(key, {}))->bytes.ToString();
    for (size_t at : {good.size() / 2, good.size() / 3, size_t{300}}) {
      std::string bad = good;
      bad[at] ^= 4;
      ASSERT_TRUE(memory_->Put(key, Body(bad), {}).ok());
      auto loader = Open(std::make_shared<PiecewiseStore>(memory_, at), {.lanes = {0, 4}});
      for (uint64_t s = 0; s < 4; ++s) ASSERT_EQ(Next(*loader)->step->number(), s);
      auto turn = Next(*loader);
      ASSERT_EQ(turn.code(), Code::kCorrupt);
      EXPECT_NE(turn.status().message().find(key), std::string::npos) << turn.status().ToString();
    }
  });
}

struct Report {
  uint64_t next_step = 0;
  uint64_t counter = 0;
  double rate = 0;
};

TEST_F(LoaderTest, TellsWhereItIsAndTakesThatAwayAtTheEnd) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    const std::string key = PositionReport::Key("one");
    auto read = [&]() -> std::optional<Report> {
      auto object = memory_->Get(key, {});
      if (!object.ok() || !*object) return std::nullopt;
      auto words = nlohmann::json::parse((*object)->bytes.AsText());
      EXPECT_EQ(words["role"], "loader");
      EXPECT_EQ(words["reader"], "train");
      EXPECT_EQ(words["id"], "one");
      return Report{words["next_step"], words["counter"], words["steps_per_second"]};
    };
    uint64_t at = 100;
    auto report = PositionReport::Start(log_, simulation_, {.id = "one", .reader = "train"}, [&] { return at; });
    std::optional<Report> before;
    simulation_.SleepFor(seconds(1));  // between its reports
    for (int i = 0; i < 40; ++i) {
      simulation_.SleepFor(seconds(2));
      at += 10;
      auto now = read();
      ASSERT_TRUE(now);
      EXPECT_LE(now->next_step, at);
      EXPECT_GE(now->next_step + 20, at);
      if (before) {
        EXPECT_GT(now->counter, before->counter);  // how others see that it lives
      }
      before = now;
    }
    EXPECT_NEAR(before->rate, 5, 0.5);
    // It stands still: the counter moves all the same, the rate falls.
    simulation_.SleepFor(seconds(60));
    EXPECT_GE(read()->counter, before->counter + 25);
    EXPECT_LT(read()->rate, 0.1);
    report->Stop();
    simulation_.SleepFor(seconds(3));
    EXPECT_FALSE(read());
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(LoaderTest, APositionThatCannotBeWrittenIsTriedAgainLaterAndHurtsNobody) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    auto faulty = std::make_shared<FaultyStore>(memory_, FaultPlan{}, simulation_, Random(3));
    auto log = StreamLog::Open(Context(faulty, 99), {});
    ASSERT_TRUE(log.ok());
    faulty->Add({.fault = Fault::Refuse(Code::kUnavailable), .op = StoreOp::kPut});
    uint64_t asked = 0;
    auto report = PositionReport::Start(*log, simulation_, {.id = "two", .reader = "eval"}, [&] { return ++asked; });
    simulation_.SleepFor(seconds(120));
    EXPECT_GE(asked, 3u);
    EXPECT_LE(asked, 12u);  // not again and again to a store that is down
    faulty->Heal();
    simulation_.SleepFor(seconds(45));
    EXPECT_TRUE(*memory_->Get(PositionReport::Key("two"), {}));
    report->Stop();
    simulation_.SleepFor(seconds(40));
    EXPECT_FALSE(*memory_->Get(PositionReport::Key("two"), {}));
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(LoaderTest, CloseEndsAWaitAndAllWorkAtOnce) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    Append(1);
    auto loader = Open(memory_, {.lanes = {0, 2}, .hold = true});
    ASSERT_EQ(Next(*loader)->step->number(), 0u);
    Instant closed{};
    simulation_.Spawn([&] {
      simulation_.SleepFor(seconds(7));
      loader->Close();
      closed = simulation_.Now();
    });
    auto turn = loader->Next(simulation_.Now() + seconds(100));
    EXPECT_EQ(turn.code(), Code::kCancelled);
    EXPECT_LE(simulation_.Now() - Instant{}, seconds(8));
    simulation_.SleepFor(seconds(1));
    EXPECT_LE(closed - Instant{}, seconds(8));
    EXPECT_EQ(loader->Next(Instant::max()).code(), Code::kCancelled);
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(LoaderTest, AJobHoldsTheStreamUntilItsFirstCheckpointDoes) {
  simulation_.Run([&] {
    Create(Info(2, 1, 1));
    Append(10);
    auto loader = Open(memory_, {.lanes = {0, 2}, .hold = true});
    loader->Seek(2);
    for (uint64_t s = 2; s < 6; ++s) ASSERT_EQ(Next(*loader)->step->number(), s);
    simulation_.SleepFor(std::chrono::minutes(25));
    auto pins = loader->Pins({});
    ASSERT_EQ(pins->size(), 1u);
    EXPECT_EQ((*pins)[0].step, 2u);
    EXPECT_GT((*pins)[0].counter, 15u);  // renewed
    ASSERT_TRUE(loader->Pin("ckpt-6", 6, {}).ok());
    ASSERT_TRUE(loader->Pin("ckpt-6", 6, {}).ok());
    pins = loader->Pins({});
    ASSERT_EQ(pins->size(), 1u);
    EXPECT_EQ((*pins)[0].name, "ckpt-6");
    EXPECT_EQ((*pins)[0].step, 6u);
    EXPECT_EQ((*pins)[0].term_seconds, 0u);
    EXPECT_TRUE(*loader->Unpin("ckpt-6", {}));
    EXPECT_FALSE(*loader->Unpin("ckpt-6", {}));
    loader->Close();
    // A job that ends before any checkpoint leaves nothing behind.
    loader = Open(memory_, {.lanes = {0, 2}, .hold = true});
    ASSERT_EQ(Next(*loader)->step->number(), 0u);
    simulation_.SleepFor(seconds(1));
    EXPECT_EQ(loader->Pins({})->size(), 1u);
    loader->Close();
    EXPECT_EQ((*log_->Refresh({}))->manifest.pins.size(), 0u);
  });
}

TEST_F(LoaderTest, FewRequestsUntilTheFirstStep) {
  simulation_.Run([&] {
    Create(Info(8, 1, 1));
    Append(100);
    auto counting = std::make_shared<FaultyStore>(memory_, FaultPlan{}, simulation_, Random(3));
    SlowOptions s3;
    s3.sigma = 0;
    s3.list = s3.get;
    s3.connection_bytes_per_second = 1e12;
    auto slow = std::make_shared<SlowStore>(counting, s3, simulation_, Random(4));
    for (uint64_t from : {0u, 50u, 99u}) {
      Instant before = simulation_.Now();
      auto loader = Open(slow, {.lanes = {0, 1}});
      loader->Seek(from);
      ASSERT_EQ(Next(*loader)->step->number(), from);
      EXPECT_LE(simulation_.Now() - before, 6 * s3.get + milliseconds(1)) << "from step " << from;
    }
  });
}

}  // namespace
}  // namespace headrace
