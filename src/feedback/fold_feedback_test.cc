// Many objects become few, and nobody who looks at any moment misses a report or counts one twice.
#include "feedback/fold_feedback.h"

#include <gtest/gtest.h>

#include "base/simulation.h"
#include "base/text.h"
#include "feedback/read_feedback.h"
#include "store/decorator.h"
#include "store/memory_store.h"
#include "store/slow_store.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;

// Does something else before a call.
class InterruptedStore final : public StoreDecorator {
 public:
  using ObjectStore::Get;
  using StoreDecorator::StoreDecorator;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
    if (before_get) std::exchange(before_get, nullptr)();
    return inner().Get(key, options, deadline);
  }
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override {
    if (!doubt) return inner().PutIfAbsent(key, body, deadline);
    return PutOutcome{PutOutcome::kUnknown, Status(Code::kTimeout, "no answer")};
  }
  std::function<void()> before_get;
  bool doubt = false;
};

class FoldFeedbackTest : public testing::Test {
 protected:
  void Create() {
    StreamInfo info;
    info.uuid = {1, 2, 3};
    info.lanes = 8;
    info.strands = 1;
    info.window = 2;
    info.columns = {{"number", Dtype::kI64, Column::kArray}};
    auto log = StreamLog::Create(info, {memory_, &simulation_, Random(1)}, {});
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    log_ = *log;
  }
  std::shared_ptr<StreamLog> Open(std::shared_ptr<ObjectStore> store, uint64_t seed) {
    return *StreamLog::Open({std::move(store), &simulation_, Random(seed)}, {});
  }

  // What a rank of four says of some steps: its number + 1.
  void Put(uint64_t first, uint64_t last, uint32_t rank, uint64_t number) {
    std::vector<Report> reports;
    for (uint64_t step = first; step <= last; step += stride_) {
      Report report;
      report.step = step;
      report.share = {2 * rank, 2 * rank + 2};
      report.mesh = {{"dp", {rank, 4}}};
      report.loss = {{"web", {rank + 1.0, 1}}};
      report.metrics = {{"norm", 1.0 * rank}};
      reports.push_back(report);
    }
    const FeedbackSession session{1, 1, rank + 1, "train"};
    ASSERT_TRUE(memory_
                    ->PutIfAbsent(FeedbackKey{first, last, rank + 1, number}.Key(),
                                  Body(EncodeFeedback(session, number, reports, "u")), {})
                    .ok());
  }
  void PutAll(uint64_t steps, uint64_t each) {
    for (uint32_t rank = 0; rank < 4; ++rank) {
      for (uint64_t first = 0; first < steps; first += each) Put(first, first + each - 1, rank, first / each);
    }
  }

  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    const std::vector<ListEntry> listed = *ListAll(*memory_, "feedback/", Deadline());
    for (const ListEntry& entry : listed) keys.push_back(entry.key);
    return keys;
  }

  // Everything that the four said of these steps, once.
  void ExpectAll(StreamLog& log, uint64_t first, uint64_t end) {
    Result<Feedback> feedback = ReadFeedback(log, first, end, {});
    ASSERT_TRUE(feedback.ok()) << feedback.status().ToString();
    EXPECT_TRUE(feedback->damaged.empty());
    ASSERT_EQ(feedback->steps.size(), (end - first) / stride_);
    for (const StepFeedback& step : feedback->steps) {
      ASSERT_EQ(step.step, first);
      first += stride_;
      ASSERT_EQ(step.loss.at("web"), (SourceLoss{10, 4}));
      ASSERT_EQ(step.metrics.at("norm"), 1.5);
      ASSERT_EQ(step.lanes, 8u);
    }
  }

  uint64_t stride_ = 1;  // every so many steps somebody reports
  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("", simulation_);
  std::shared_ptr<StreamLog> log_;
};

TEST_F(FoldFeedbackTest, WholeSpansBeforeTheTrimPointBecomeOneObjectEach) {
  simulation_.Run([&] {
    Create();
    PutAll(3072, 128);
    ASSERT_EQ(Keys().size(), 96u);
    EXPECT_EQ(FoldFeedback(*log_, 1023, false, {})->objects, 0u);
    FoldedFeedback planned = *FoldFeedback(*log_, 2500, /*dry_run=*/true, {});
    EXPECT_EQ(planned.objects, 64u);
    EXPECT_EQ(planned.folds, 2u);
    ASSERT_EQ(Keys().size(), 96u);
    FoldedFeedback folded = *FoldFeedback(*log_, 2500, false, {});
    EXPECT_EQ(folded.objects, 64u);
    EXPECT_EQ(folded.folds, 2u);
    EXPECT_EQ(Keys().size(), 34u);
    ExpectAll(*log_, 0, 3072);
    ExpectAll(*log_, 1000, 1030);
    EXPECT_EQ(FoldFeedback(*log_, 2500, false, {})->objects, 0u) << "what is folded stays as it is";
    EXPECT_EQ(FoldFeedback(*log_, 3072, false, {})->folds, 1u);
    EXPECT_EQ(Keys().size(), 3u);
    ExpectAll(*log_, 0, 3072);
  });
}

TEST_F(FoldFeedbackTest, WhatComesOnceMoreCountsOnce) {
  simulation_.Run([&] {
    Create();
    PutAll(1024, 256);
    ASSERT_EQ(FoldFeedback(*log_, 1024, false, {})->folds, 1u);
    // A reporter whose answer was lost tries again, and a collector was killed before it deleted anything.
    PutAll(1024, 256);
    ASSERT_EQ(Keys().size(), 17u);
    ExpectAll(*log_, 0, 1024);
    const uint64_t bytes = ListAll(*memory_, "feedback/", {})->front().size;
    ASSERT_EQ(FoldFeedback(*log_, 1024, false, {})->objects, 17u);
    ASSERT_EQ(Keys().size(), 1u);
    EXPECT_LE(ListAll(*memory_, "feedback/", {})->front().size, std::max<uint64_t>(bytes, 4 * 1024 * 400)) << "held once";
    ExpectAll(*log_, 0, 1024);
  });
}

TEST_F(FoldFeedbackTest, NothingGoesWhileItIsInDoubtWhetherTheFoldIsThere) {
  simulation_.Run([&] {
    Create();
    PutAll(1024, 512);
    auto store = std::make_shared<InterruptedStore>(memory_);
    auto log = Open(store, 2);
    store->doubt = true;
    EXPECT_EQ(FoldFeedback(*log, 1024, false, {})->objects, 0u);
    EXPECT_EQ(Keys().size(), 8u);
  });
}

TEST_F(FoldFeedbackTest, DamageIsLeftWhereItIs) {
  simulation_.Run([&] {
    Create();
    PutAll(1024, 512);
    const std::string victim = Keys().at(3);
    std::string text = (*memory_->Get(victim, {}))->bytes.ToString();
    text[text.size() / 2] ^= 1;
    ASSERT_TRUE(memory_->Put(victim, Body(text), {}).ok());
    EXPECT_EQ(FoldFeedback(*log_, 1024, false, {})->objects, 7u);
    ASSERT_EQ(Keys().size(), 2u);
    Result<Feedback> feedback = ReadFeedback(*log_, 0, 1024, {});
    ASSERT_EQ(feedback->damaged.size(), 1u);
    EXPECT_EQ(feedback->damaged[0].first, memory_->Describe(victim));
    EXPECT_EQ(feedback->steps.size(), 1024u);
    // Of a fold that is damaged, the parts that are whole are shown.
    const std::string fold = Keys()[0] == victim ? Keys()[1] : Keys()[0];
    text = (*memory_->Get(fold, {}))->bytes.ToString();
    ASSERT_TRUE(memory_->Put(fold, Body(text.substr(0, text.size() - 100)), {}).ok());
    feedback = ReadFeedback(*log_, 0, 1024, {});
    EXPECT_EQ(feedback->damaged.size(), 2u);
    EXPECT_EQ(feedback->steps.size(), 1024u);
  });
}

TEST_F(FoldFeedbackTest, AReaderWhoseObjectsAreFoldedMeanwhileFindsThemAgain) {
  simulation_.Run([&] {
    Create();
    PutAll(1024, 128);
    auto store = std::make_shared<InterruptedStore>(memory_);
    auto log = Open(store, 2);
    store->before_get = [&] { ASSERT_EQ(FoldFeedback(*log_, 1024, false, {})->objects, 32u); };
    ExpectAll(*log, 0, 1024);
    EXPECT_EQ(store->before_get, nullptr);
  });
}

TEST_F(FoldFeedbackTest, AnyNumberMayFoldAtOnceWhileOthersRead) {
  stride_ = 32;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(Cat("seed ", seed));
    Simulation simulation(seed);
    auto memory = std::make_shared<MemoryStore>("", simulation);
    memory_ = memory;
    simulation.Run([&] {
      StreamInfo info;
      info.uuid = {1, 2, 3};
      info.lanes = 8;
      info.columns = {{"number", Dtype::kI64, Column::kArray}};
      ASSERT_TRUE(StreamLog::Create(info, {memory, &simulation, Random(1)}, {}).ok());
      PutAll(2048, 256);
      TaskGroup group(simulation);
      for (uint64_t i = 0; i < 5; ++i) {
        group.Spawn([&, i] {
          auto slow = std::make_shared<SlowStore>(memory, SlowOptions{.sigma = 1}, simulation, Random(100 * seed + i));
          auto log = *StreamLog::Open({slow, &simulation, Random(10 * seed + i)}, {});
          for (int round = 0; round < 6; ++round) {
            simulation.SleepFor(milliseconds(37 * i));
            if (i < 3) {
              ASSERT_TRUE(FoldFeedback(*log, 2048, false, {}).ok());
            } else {
              ExpectAll(*log, 0, 2048);
            }
          }
        });
      }
      group.Wait();
      ASSERT_TRUE(FoldFeedback(**StreamLog::Open({memory, &simulation, Random(99)}, {}), 2048, false, {}).ok());
      EXPECT_EQ(Keys().size(), 2u);
    });
  }
}

}  // namespace
}  // namespace headrace
