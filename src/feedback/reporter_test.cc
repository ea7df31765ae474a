// Reports from a training loop into the store, in simulated time.
#include "feedback/reporter.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/simulation.h"
#include "base/text.h"
#include "feedback/read_feedback.h"
#include "store/faulty_store.h"
#include "store/memory_store.h"
#include "stream/mixture_object.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ReporterTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([this](std::string_view line) { said_.emplace_back(line); });
  }
  void TearDown() override { SetLogSink(nullptr); }

  void Create(const std::vector<std::string>& sources = {}) {
    StreamInfo info;
    info.uuid = {1, 2, 3};
    info.lanes = 8;
    info.strands = 1;
    info.window = 2;
    info.columns = {{"number", Dtype::kI64, Column::kArray}};
    if (!sources.empty()) {
      info.recipe = "recipe/r";
      ASSERT_TRUE(memory_->Put("recipe/r", Body(nlohmann::json{{"first", Mixture(sources)}}.dump()), {}).ok());
    }
    auto log = StreamLog::Create(info, {faulty_, &simulation_, Random(1)}, {});
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    log_ = *log;
  }

  static nlohmann::json Mixture(const std::vector<std::string>& sources) {
    nlohmann::json list = nlohmann::json::array();
    for (const std::string& name : sources) list.push_back({{"name", name}});
    return {{"sources", list}};
  }

  std::shared_ptr<Reporter> Start(Reporter::Options options = {}) {
    return Reporter::Make(log_, simulation_, std::move(options));
  }

  static Report Of(uint64_t step, const std::string& source = "web", double sum = 1, double count = 1) {
    Report report;
    report.step = step;
    report.share = {0, 8, 0, 1};
    report.mesh = {{"dp", {0, 1}}};
    report.loss = {{source, {sum, count}}};
    return report;
  }

  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    Result<std::vector<ListEntry>> listed = ListAll(*memory_, "feedback/", {});
    for (const ListEntry& entry : *listed) keys.push_back(entry.key);
    return keys;
  }

  // Steps that can be read back, in the order in which they were stored.
  std::vector<uint64_t> Stored() {
    Result<Feedback> feedback = ReadFeedback(*log_, 0, UINT64_MAX, {});
    EXPECT_TRUE(feedback.ok()) << feedback.status().ToString();
    EXPECT_TRUE(feedback->damaged.empty());
    std::vector<uint64_t> steps;
    for (const StepFeedback& step : feedback->steps) steps.push_back(step.step);
    return steps;
  }

  size_t Warnings(std::string_view words) const {
    size_t count = 0;
    for (const std::string& line : said_) count += line.find(words) != std::string::npos ? 1 : 0;
    return count;
  }

  // No creates land, from now on.
  void Break(Fault fault = Fault::FailBefore()) {
    faulty_->Add({.fault = fault, .op = StoreOp::kCreate, .key_prefix = "feedback/"});
  }

  Simulation simulation_{1};
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>("", simulation_);
  std::shared_ptr<FaultyStore> faulty_ = std::make_shared<FaultyStore>(memory_, FaultPlan{}, simulation_, Random(3));
  std::shared_ptr<StreamLog> log_;
  std::vector<std::string> said_;
};

TEST_F(ReporterTest, WritesWhatWaitsEveryTenSecondsAndAtTheEnd) {
  simulation_.Run([&] {
    Create();
    auto reporter = Start();
    for (uint64_t step = 0; step < 35; ++step) {
      ASSERT_TRUE(reporter->Add(Of(step)).ok());
      simulation_.SleepFor(seconds(1));
      // Whoever is killed now loses what came in the last ten seconds.
      EXPECT_GE(Stored().size() + 11, step + 1);
    }
    EXPECT_LE(Keys().size(), 6u);
    reporter->Close(seconds(5));
    EXPECT_EQ(Stored().size(), 35u);
    EXPECT_EQ(reporter->counts().written, 35u);
    EXPECT_EQ(reporter->counts().waiting, 0u);
    EXPECT_EQ(reporter->Add(Of(35)).code(), Code::kCancelled);
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
  EXPECT_EQ(said_.size(), 0u);
}

TEST_F(ReporterTest, DoesNothingBeforeItsFirstReportAndWhenThereAreNone) {
  simulation_.Run([&] {
    Create();
    const uint64_t before = faulty_->calls(StoreOp::kCreate) + faulty_->calls(StoreOp::kGet);
    auto reporter = Start();
    simulation_.SleepFor(seconds(100));
    reporter->Close(seconds(5));
    auto used = Start();
    ASSERT_TRUE(used->Add(Of(0)).ok());
    simulation_.SleepFor(seconds(1000));
    EXPECT_EQ(faulty_->calls(StoreOp::kCreate) + faulty_->calls(StoreOp::kGet), before + 1);
    used->Close(seconds(5));
    EXPECT_EQ(Keys().size(), 1u);
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(ReporterTest, AnOutageDelaysReportsAndLosesNone) {
  simulation_.Run([&] {
    Create();
    auto reporter = Start();
    Break();
    for (uint64_t step = 0; step < 600; ++step) {
      const Instant before = simulation_.Now();
      ASSERT_TRUE(reporter->Add(Of(step)).ok());
      EXPECT_EQ(simulation_.Now(), before);  // the training loop does not notice
      simulation_.SleepFor(seconds(1));
    }
    EXPECT_TRUE(Keys().empty());
    EXPECT_LE(reporter->counts().failures, 61u);  // it is not hammered
    faulty_->Heal();
    simulation_.SleepFor(seconds(25));
    EXPECT_GE(Stored().size(), 590u);
    reporter->Close(seconds(5));
    EXPECT_EQ(Stored().size(), 600u);
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
  EXPECT_EQ(Warnings("could not be written; they are kept"), 1u);
  EXPECT_EQ(said_.size(), 1u);
}

TEST_F(ReporterTest, AnAnswerThatIsLostStoresNothingTwice) {
  simulation_.Run([&] {
    Create();
    auto reporter = Start();
    Break(Fault::FailAfter());
    ASSERT_TRUE(reporter->Add(Of(0)).ok());
    simulation_.SleepFor(seconds(15));
    EXPECT_EQ(reporter->counts().written, 0u);  // nobody knows yet
    faulty_->Heal();
    simulation_.SleepFor(seconds(15));
    EXPECT_EQ(reporter->counts().written, 1u);
    EXPECT_EQ(Keys().size(), 1u);
    reporter->Close(seconds(5));
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(ReporterTest, WhatDoesNotFitIsCountedAndWarnedOfOnce) {
  simulation_.Run([&] {
    Create();
    auto reporter = Start({.flush_bytes = 2000, .buffer_bytes = 10'000});
    Break();
    for (uint64_t step = 0; step < 200; ++step) ASSERT_TRUE(reporter->Add(Of(step)).ok());
    const Reporter::Counts counts = reporter->counts();
    EXPECT_GT(counts.dropped, 100u);
    EXPECT_EQ(counts.reports + counts.dropped, 200u);
    EXPECT_EQ(counts.last_step, 199u);
    faulty_->Heal();
    simulation_.SleepFor(seconds(30));
    EXPECT_EQ(Stored().size(), counts.reports);
    ASSERT_TRUE(reporter->Add(Of(200)).ok());  // there is room again
    reporter->Close(seconds(5));
    EXPECT_EQ(Stored().back(), 200u);
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
  EXPECT_EQ(Warnings("reports are dropped"), 1u);
}

TEST_F(ReporterTest, MuchIsWrittenAtOnceAndFarApartStepsApart) {
  simulation_.Run([&] {
    Create();
    auto reporter = Start({.flush_bytes = 20'000});
    for (uint64_t step = 0; step < 200; ++step) ASSERT_TRUE(reporter->Add(Of(step)).ok());
    simulation_.SleepFor(milliseconds(100));
    EXPECT_EQ(Stored().size(), 200u);
    for (uint64_t step : {5000u, 100u, 6000u, 5500u, 6023u, 6024u}) ASSERT_TRUE(reporter->Add(Of(step)).ok());
    reporter->Close(seconds(5));
    EXPECT_EQ(Stored().size(), 205u);  // step 100 twice
    for (const std::string& key : Keys()) {
      std::optional<FeedbackKey> parsed = FeedbackKey::FromKey(key);
      ASSERT_TRUE(parsed) << key;
      EXPECT_EQ(parsed->first_step / FeedbackKey::kSpan, parsed->last_step / FeedbackKey::kSpan) << key;
    }
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(ReporterTest, ClosingOnADeadStoreTakesAsLongAsItMayAndSaysWhatIsLost) {
  simulation_.Run([&] {
    Create();
    auto reporter = Start();
    Break();
    for (uint64_t step = 0; step < 3; ++step) ASSERT_TRUE(reporter->Add(Of(step)).ok());
    const Instant before = simulation_.Now();
    reporter->Close(seconds(5));
    EXPECT_GE(simulation_.Now() - before, seconds(5));
    EXPECT_LE(simulation_.Now() - before, seconds(6));
    EXPECT_GT(reporter->counts().failures, 3u);
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
  EXPECT_EQ(Warnings("reports of the last steps are lost"), 1u);
}

TEST_F(ReporterTest, ClosingCutsAnAttemptShortThatHangs) {
  simulation_.Run([&] {
    Create();
    auto reporter = Start({.every = seconds(2)});
    Break(Fault::Slow(seconds(1000)));
    ASSERT_TRUE(reporter->Add(Of(0)).ok());
    simulation_.SleepFor(seconds(4));
    const Instant before = simulation_.Now();
    reporter->Close(seconds(5));
    EXPECT_LE(simulation_.Now() - before, seconds(6));
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(ReporterTest, RefusesASourceThatTheStreamDoesNotHave) {
  simulation_.Run([&] {
    Create({"web", "code"});
    auto reporter = Start();
    ASSERT_TRUE(reporter->Add(Of(0, "web")).ok());
    Status status = reporter->Add(Of(1, "wbe"));
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("no source \"wbe\" (did you mean web?); its sources are: code, web"), std::string::npos)
        << status.message();
    ASSERT_TRUE(reporter->Add(Of(2, "code")).ok());
    reporter->Close(seconds(5));
    EXPECT_EQ(Stored(), (std::vector<uint64_t>{0, 2}));
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(ReporterTest, KnowsASourceThatWasAddedMeanwhile) {
  simulation_.Run([&] {
    Create({"web"});
    auto reporter = Start();
    ASSERT_TRUE(reporter->Add(Of(0, "web")).ok());
    EXPECT_EQ(reporter->Add(Of(0, "books")).code(), Code::kInvalidArgument);
    // By another process, of whose commits this one has not heard.
    auto other = *StreamLog::Open({memory_, &simulation_, Random(9)}, {});
    const uint64_t nonce = 77;
    ASSERT_TRUE(memory_->Put(MixtureKey(1, nonce), Body(Mixture({"web", "books"}).dump()), {}).ok());
    MixtureEdit edit;
    edit.uuid = log_->info().uuid;
    edit.decision = 1;
    edit.nonce = nonce;
    Status status = other->Commit(edit, {}).status();
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(reporter->Add(Of(1, "books")).ok());
    reporter->Close(seconds(5));
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(ReporterTest, AStoreThatDoesNotAnswerLetsNamesPassAndIsWaitedForOnlyOnce) {
  simulation_.Run([&] {
    Create({"web"});
    faulty_->Add({.fault = Fault::Slow(seconds(60)), .op = StoreOp::kGet});
    auto reporter = Start();
    const Instant before = simulation_.Now();
    for (uint64_t step = 0; step < 100; ++step) ASSERT_TRUE(reporter->Add(Of(step, "anything")).ok());
    EXPECT_LE(simulation_.Now() - before, milliseconds(250));
    reporter->Close(seconds(5));
    EXPECT_EQ(Keys().size(), 1u);
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(ReporterTest, RefusesWhatMakesNoSense) {
  simulation_.Run([&] {
    Create();
    auto reporter = Start();
    EXPECT_EQ(reporter->Add(Of(0, "web", 1, -1)).code(), Code::kInvalidArgument);
    EXPECT_EQ(reporter->Add(Of(0, "web", 1, std::nan(""))).code(), Code::kInvalidArgument);
    EXPECT_EQ(reporter->Add(Of(0, "web", 1, INFINITY)).code(), Code::kInvalidArgument);
    EXPECT_EQ(reporter->Add(Of(0, "")).code(), Code::kInvalidArgument);
    EXPECT_EQ(reporter->Add(Of(0, std::string(201, 'x'))).code(), Code::kInvalidArgument);
    EXPECT_EQ(reporter->Add(Of(0, "\xff")).code(), Code::kInvalidArgument);
    Report many = Of(0);
    for (int i = 0; i < 1000; ++i) many.metrics.emplace_back(Cat("m", i), i);
    EXPECT_EQ(reporter->Add(many).code(), Code::kInvalidArgument);
    EXPECT_TRUE(reporter->Add(Of(0, "web", std::nan(""), 4)).ok());  // somebody will want to see it
    reporter->Close(seconds(5));
    EXPECT_EQ(Stored(), std::vector<uint64_t>{0});
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST_F(ReporterTest, NamesThatChangeWithEveryStepDoNotFillTheMetrics) {
  simulation_.Run([&] {
    Create();
    auto reporter = Start({.max_series = 5});
    for (uint64_t step = 0; step < 50; ++step) {
      Report report = Of(step, Cat("source", step % 2), 6, 2);
      report.metrics = {{Cat("at_", step), 1}};
      ASSERT_TRUE(reporter->Add(report).ok());
    }
    const std::string shown = Metrics::Default().ToPrometheus();
    EXPECT_NE(shown.find("headrace_loss{source=\"source0\"} 3\n"), std::string::npos);
    EXPECT_NE(shown.find("headrace_metric{name=\"at_0\"} 1\n"), std::string::npos);
    EXPECT_EQ(shown.find("at_20"), std::string::npos);
    reporter->Close(seconds(5));
    EXPECT_EQ(Stored().size(), 50u);
  });
  EXPECT_EQ(simulation_.stuck(), 0u);
}

TEST(ReporterPace, LargeJobsWriteLessOften) {
  EXPECT_EQ(Reporter::EveryFor(1), seconds(10));
  EXPECT_EQ(Reporter::EveryFor(32), seconds(10));
  EXPECT_EQ(Reporter::EveryFor(96), seconds(30));
  EXPECT_EQ(Reporter::EveryFor(4096), seconds(60));
}

}  // namespace
}  // namespace headrace
