// One report as bytes, and back.
#include "feedback/report.h"

#include <gtest/gtest.h>

#include <cmath>

namespace headrace {
namespace {

Report Sample(uint64_t step) {
  Report report;
  report.step = step;
  report.time = 1700000000.125;
  report.share = {8, 16, 1, 2};
  report.mesh = {{"dp", {1, 2}}, {"cp", {1, 2}}, {"tp", {0, 1}}};
  report.mixture = 3;
  report.loss = {{"web", {12.5, 4}}, {"c\"ode\n", {std::nan(""), 2}}};
  report.metrics = {{"grad_norm", INFINITY}, {"down", -INFINITY}, {"lr", 1e-4}};
  return report;
}

const FeedbackSession kSession = {42, 1699999999.5, 0xabcdef0123456789, "train"};

TEST(FeedbackObject, ComesBackAsItWasWritten) {
  const std::string text = EncodeFeedback(kSession, 7, {Sample(5), Sample(6)}, "the-uuid");
  Result<FeedbackObject> object = DecodeFeedback(text);
  ASSERT_TRUE(object.ok()) << object.status().ToString();
  EXPECT_EQ(object->session.manifest, 42u);
  EXPECT_EQ(object->session.started, 1699999999.5);
  EXPECT_EQ(object->session.nonce, 0xabcdef0123456789);
  EXPECT_EQ(object->session.reader, "train");
  EXPECT_EQ(object->number, 7u);
  ASSERT_EQ(object->reports.size(), 2u);
  const Report& report = object->reports[1];
  EXPECT_EQ(report.step, 6u);
  EXPECT_EQ(report.time, 1700000000.125);
  EXPECT_EQ(report.share, (FeedbackShare{8, 16, 1, 2}));
  EXPECT_EQ(report.mixture, 3u);
  EXPECT_EQ(report.loss[0].first, "web");
  EXPECT_EQ(report.loss[0].second, (SourceLoss{12.5, 4}));
  EXPECT_EQ(report.loss[1].first, "c\"ode\n");
  EXPECT_TRUE(std::isnan(report.loss[1].second.sum));
  EXPECT_EQ(report.metrics[0].second, INFINITY);
  EXPECT_EQ(report.metrics[1].second, -INFINITY);
  EXPECT_EQ(report.metrics[2].second, 1e-4);
}

TEST(FeedbackObject, EveryChangedByteIsDamage) {
  const std::string text = EncodeFeedback(kSession, 0, {Sample(5)}, "u");
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_EQ(DecodeFeedback(damaged).code(), Code::kCorrupt) << i;
    EXPECT_EQ(DecodeFeedback(text.substr(0, i)).code(), Code::kCorrupt) << i;
  }
}

TEST(FeedbackObject, ItsKeySortsByStepAndNothingElseIsOne) {
  const FeedbackKey key{900, 1899, 0x00ff, 12};
  EXPECT_EQ(key.Key(), "feedback/00000000000000000900-00000000000000001899-00000000000000ff-12.jsonl");
  std::optional<FeedbackKey> back = FeedbackKey::FromKey(key.Key());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->first_step, 900u);
  EXPECT_EQ(back->last_step, 1899u);
  EXPECT_EQ(back->nonce, 0xffu);
  EXPECT_EQ(back->number, 12u);
  for (const char* other : {"feedback/x", "feedback/00000000000000000900-00000000000000001899-00000000000000ff-12.json",
                            "feedback/00000000000000000900-00000000000000001924-00000000000000ff-12.jsonl",
                            "feedback/00000000000000000900-00000000000000000899-00000000000000ff-12.jsonl",
                            "feedback/00000000000000000900-00000000000000001899-00000000000000FF-12.jsonl",
                            "feedback/900-1899-00000000000000ff-12.jsonl", "data/0/1-2-3"}) {
    EXPECT_FALSE(FeedbackKey::FromKey(other)) << other;
  }
}

TEST(FeedbackShare, OverlapsInLanesAndInContextParallelism) {
  const FeedbackShare share{8, 16, 0, 2};
  EXPECT_TRUE(share.Overlaps({8, 16, 0, 2}));
  EXPECT_TRUE(share.Overlaps({15, 20, 0, 1}));
  EXPECT_TRUE(share.Overlaps({0, 64, 1, 4}));
  EXPECT_FALSE(share.Overlaps({8, 16, 1, 2}));
  EXPECT_FALSE(share.Overlaps({8, 16, 2, 4}));
  EXPECT_FALSE(share.Overlaps({16, 24, 0, 2}));
  EXPECT_FALSE(share.Overlaps({0, 8, 0, 1}));
}

}  // namespace
}  // namespace headrace
