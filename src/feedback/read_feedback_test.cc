// Which reports count, and how they are found.
#include "feedback/read_feedback.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/simulation.h"
#include "store/memory_store.h"
#include "stream/cell.h"
#include "stream/strand_writer.h"

namespace headrace {
namespace {

Report Of(uint64_t step, FeedbackShare share, double sum, double count, const char* source = "web") {
  Report report;
  report.step = step;
  report.share = share;
  report.mesh = {{"dp", {0, 1}}, {"cp", {share.cp_rank, share.cp_size}}};
  report.loss = {{source, {sum, count}}};
  return report;
}

FeedbackObject Said(uint64_t manifest, double started, uint64_t nonce, std::vector<Report> reports, const char* reader = "train",
                    uint64_t number = 0) {
  return {{manifest, started, nonce, reader}, number, std::move(reports)};
}

SourceLoss Web(const std::vector<FeedbackObject>& objects) {
  std::vector<StepFeedback> steps = MergeFeedback(objects, 0, 100);
  EXPECT_EQ(steps.size(), 1u);
  return steps.at(0).loss.at("web");
}

TEST(MergeFeedback, AddsSharesAndTakesPeersOnce) {
  // Two data-parallel ranks, each with two tensor-parallel peers that say the same.
  EXPECT_EQ(Web({Said(1, 1, 1, {Of(5, {0, 4}, 10, 2)}), Said(1, 1, 2, {Of(5, {0, 4}, 10, 2)}),
                 Said(1, 1, 3, {Of(5, {4, 8}, 7, 1)}), Said(1, 1, 4, {Of(5, {4, 8}, 7, 1)})}),
            (SourceLoss{17, 3}));
  // Context-parallel ranks have a part of every sequence.
  EXPECT_EQ(Web({Said(1, 1, 1, {Of(5, {0, 4, 0, 2}, 10, 2)}), Said(1, 1, 2, {Of(5, {0, 4, 1, 2}, 1, 1)})}), (SourceLoss{11, 3}));
}

TEST(MergeFeedback, ARestartReplacesWithAnyNumberOfRanks) {
  const FeedbackObject one = Said(10, 5, 1, {Of(5, {0, 2}, 1, 1)});
  const FeedbackObject two = Said(10, 5, 2, {Of(5, {2, 4}, 2, 1)});
  const FeedbackObject three = Said(10, 5, 3, {Of(5, {4, 6}, 4, 1)});
  const FeedbackObject four = Said(10, 5, 4, {Of(5, {6, 8}, 8, 1)});
  const FeedbackObject again =
      Said(11, 2, 9, {Of(5, {0, 4}, 100, 2)});  // knows a newer manifest, on a machine whose clock is behind
  EXPECT_EQ(Web({one, two, three, four}), (SourceLoss{15, 4}));
  EXPECT_EQ(Web({again, one, two, three, four}), (SourceLoss{112, 4}));
  const FeedbackObject rest = Said(11, 3, 8, {Of(5, {4, 8}, 200, 2)});
  EXPECT_EQ(Web({one, rest, two, again, three, four}), (SourceLoss{300, 4}));
}

TEST(MergeFeedback, OrdersByManifestTimeNameNumberAndPlace) {
  auto wins = [](const FeedbackObject& later, const FeedbackObject& earlier) {
    return Web({later, earlier}).sum == 2 && Web({earlier, later}).sum == 2;
  };
  const std::vector<Report> before = {Of(5, {0, 8}, 1, 1)};
  const std::vector<Report> after = {Of(5, {0, 8}, 2, 1)};
  EXPECT_TRUE(wins(Said(2, 1, 1, after), Said(1, 9, 9, before)));
  EXPECT_TRUE(wins(Said(1, 2, 1, after), Said(1, 1, 9, before)));
  EXPECT_TRUE(wins(Said(1, 1, 2, after, "train", 0), Said(1, 1, 1, before, "train", 9)));
  EXPECT_TRUE(wins(Said(1, 1, 1, after, "train", 10), Said(1, 1, 1, before, "train", 9)));
  EXPECT_EQ(Web({Said(1, 1, 1, {Of(5, {0, 8}, 1, 1), Of(5, {0, 8}, 2, 1)})}).sum, 2);
}

TEST(MergeFeedback, ALaterReportReplacesOnlyTheNamesThatItHas) {
  Report metrics;
  metrics.step = 5;
  metrics.share = {0, 8};
  metrics.metrics = {{"grad_norm", 3}};
  std::vector<StepFeedback> steps = MergeFeedback({Said(1, 1, 1, {Of(5, {0, 8}, 6, 2), metrics})}, 0, 100);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].loss.at("web"), (SourceLoss{6, 2}));
  EXPECT_EQ(steps[0].metrics.at("grad_norm"), 3);
}

TEST(MergeFeedback, MetricsAreMeansAndNanShows) {
  auto metric = [](FeedbackShare share, double value) {
    Report report;
    report.step = 5;
    report.share = share;
    report.metrics = {{"m", value}};
    return report;
  };
  EXPECT_EQ(MergeFeedback({Said(1, 1, 1, {metric({0, 4}, 2)}), Said(1, 1, 2, {metric({4, 8}, 4)})}, 0, 9)[0].metrics.at("m"), 3);
  EXPECT_TRUE(std::isnan(
      MergeFeedback({Said(1, 1, 1, {metric({0, 4}, 2)}), Said(1, 1, 2, {metric({4, 8}, std::nan(""))})}, 0, 9)[0].metrics.at(
          "m")));
}

TEST(MergeFeedback, EvaluationDoesNotReplaceTraining) {
  std::vector<StepFeedback> steps =
      MergeFeedback({Said(1, 1, 1, {Of(5, {0, 8}, 6, 2)}), Said(2, 2, 2, {Of(5, {0, 8}, 9, 2)}, "eval")}, 0, 100);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].reader, "eval");
  EXPECT_EQ(steps[1].reader, "train");
  EXPECT_EQ(steps[1].loss.at("web").sum, 6);
}

TEST(MergeFeedback, SaysHowManyLanesWereReported) {
  EXPECT_EQ(MergeFeedback({Said(1, 1, 1, {Of(5, {0, 4}, 1, 1)}), Said(1, 1, 2, {Of(5, {2, 6}, 1, 1)}),
                           Said(1, 1, 3, {Of(5, {7, 8}, 1, 1)})},
                          0, 9)[0]
                .lanes,
            7u);
}

class ReadFeedbackTest : public testing::Test {
 protected:
  void Create(uint32_t steps_per_block = 1) {
    StreamInfo info;
    info.uuid = {1, 2, 3};
    info.lanes = 8;
    info.strands = 1;
    info.window = 2;
    info.blocks = BlockSizes::Even(steps_per_block);
    info.columns = {{"number", Dtype::kI64, Column::kArray}};
    auto log = StreamLog::Create(info, {memory_, &simulation_, Random(1)}, {});
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    log_ = *log;
  }

  void Append(int blocks) {
    auto writer = StrandWriter::Take(log_, 0, {});
    ASSERT_TRUE(writer.ok());
    Array array{Dtype::kI64, {1}, Bytes::FromString(std::string(8, '\0'))};
    const std::vector<Body> cells(8, *BuildCell({&array, 1}, log_->info().columns));
    for (int i = 0; i < blocks; ++i) {
      StrandWriter::Turn turn = (*writer)->next();
      ChunkBuilder chunk(log_->info(), {});
      for (uint32_t s = 0; s < turn.steps; ++s) ASSERT_TRUE(chunk.AddStep(cells).ok());
      Status status = (*writer)->Append(turn, chunk, Bytes(), {});
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }

  void Put(uint64_t first, uint64_t last, uint64_t nonce, uint64_t number) {
    std::vector<Report> reports;
    for (uint64_t step = first; step <= last; ++step) reports.push_back(Of(step, {0, 8}, static_cast<double>(step), 1));
    const FeedbackSession session{1, 1, nonce, "train"};
    ASSERT_TRUE(
        memory_
            ->PutIfAbsent(FeedbackKey{first, last, nonce, number}.Key(), Body(EncodeFeedback(session, number, reports, "u")), {})
            .ok());
  }

  std::vector<uint64_t> Steps(uint64_t first, uint64_t end, uint64_t objects) {
    Result<Feedback> feedback = ReadFeedback(*log_, first, end, {});
    EXPECT_TRUE(feedback.ok()) << feedback.status().ToString();
    EXPECT_EQ(feedback->objects, objects) << "[" << first << ", " << end << ")";
    std::vector<uint64_t> steps;
    for (const StepFeedback& step : feedback->steps) steps.push_back(step.step);
    return steps;
  }

  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("", simulation_);
  std::shared_ptr<StreamLog> log_;
};

TEST_F(ReadFeedbackTest, FindsStepsByKeysAndReadsNoOtherObject) {
  simulation_.Run([&] {
    Create();
    Put(0, 2, 1, 0);
    Put(998, 2001, 1, 1);
    Put(2002, 2002, 1, 2);
    Put(123456, 123457, 1, 3);
    ASSERT_TRUE(memory_->Put("feedback/README", Body(std::string("hello")), {}).ok());
    EXPECT_EQ(Steps(0, 3, 1), (std::vector<uint64_t>{0, 1, 2}));
    EXPECT_EQ(Steps(2000, 2003, 2), (std::vector<uint64_t>{2000, 2001, 2002}));
    EXPECT_EQ(Steps(1, 999, 2), (std::vector<uint64_t>{1, 2, 998}));
    EXPECT_EQ(Steps(3, 998, 0), std::vector<uint64_t>{});
    EXPECT_EQ(Steps(100000, UINT64_MAX, 1), (std::vector<uint64_t>{123456, 123457}));
    EXPECT_EQ(Steps(7, 7, 0), std::vector<uint64_t>{});
  });
}

TEST_F(ReadFeedbackTest, FindsTheLastStepsHoweverFarBackAndFarApart) {
  simulation_.Run([&] {
    Create(3000);
    Append(3);  // 9000 steps
    auto last = [&](size_t count) {
      Result<Feedback> feedback = ReadLastFeedback(*log_, count, {});
      EXPECT_TRUE(feedback.ok()) << feedback.status().ToString();
      std::vector<uint64_t> steps;
      for (const StepFeedback& step : feedback->steps) steps.push_back(step.step);
      return steps;
    };
    EXPECT_EQ(last(3), std::vector<uint64_t>{});
    Put(0, 2, 1, 0);
    EXPECT_EQ(last(2), (std::vector<uint64_t>{1, 2}));
    EXPECT_EQ(last(20), (std::vector<uint64_t>{0, 1, 2}));
    for (uint64_t step = 1000; step <= 6000; step += 1000) Put(step, step, 1, step);
    EXPECT_EQ(last(3), (std::vector<uint64_t>{4000, 5000, 6000}));
    EXPECT_EQ(last(8), (std::vector<uint64_t>{1, 2, 1000, 2000, 3000, 4000, 5000, 6000}));
    Put(8000, 8999, 2, 0);
    EXPECT_EQ(last(3), (std::vector<uint64_t>{8997, 8998, 8999}));
  });
}

TEST_F(ReadFeedbackTest, NamesDamageAndShowsTheRest) {
  simulation_.Run([&] {
    Create();
    Put(0, 2, 1, 0);
    Put(3, 4, 1, 1);
    const std::string key = FeedbackKey{3, 4, 1, 1}.Key();
    std::string text((*memory_->Get(key, {}))->bytes.AsText());
    text[text.find("web")] = 'x';
    ASSERT_TRUE(memory_->Put(key, Body(text), {}).ok());
    Result<Feedback> feedback = ReadFeedback(*log_, 0, 10, {});
    ASSERT_TRUE(feedback.ok());
    EXPECT_EQ(feedback->steps.size(), 3u);
    ASSERT_EQ(feedback->damaged.size(), 1u);
    EXPECT_NE(feedback->damaged[0].first.find(key), std::string::npos);
  });
}

}  // namespace
}  // namespace headrace
