#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>
#include <thread>

#include "base/text.h"

namespace headrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Metrics, CountersAndGaugesAsPrometheusReadsThem) {
  Metrics metrics;
  metrics.GetGauge("headrace_loader_step", "The step that was handed out last.").Set(41);
  metrics.GetCounter("headrace_store_requests_total", "Requests to a store.", {{"op", "put"}, {"outcome", "ok"}}).Add(2);
  metrics.GetCounter("headrace_store_requests_total", "Requests to a store.", {{"op", "get"}, {"outcome", "ok"}}).Add(1.5);
  EXPECT_EQ(metrics.ToPrometheus(),
            "# HELP headrace_loader_step The step that was handed out last.\n"
            "# TYPE headrace_loader_step gauge\n"
            "headrace_loader_step 41\n"
            "# HELP headrace_store_requests_total Requests to a store.\n"
            "# TYPE headrace_store_requests_total counter\n"
            "headrace_store_requests_total{op=\"get\",outcome=\"ok\"} 1.5\n"
            "headrace_store_requests_total{op=\"put\",outcome=\"ok\"} 2\n");
}

TEST(Metrics, HistogramIsCumulativeAndEndsAtInfinity) {
  Metrics metrics;
  Histogram& histogram = metrics.GetHistogram("wait_seconds", "Time.", {{"store", "s3"}}, {0.0005, 0.1, 2});
  for (double value : {0.0001, 0.0005, 0.05, 1.0, 2.0, 30.0, 40.0}) histogram.Observe(value);
  EXPECT_EQ(metrics.ToPrometheus(),
            "# HELP wait_seconds Time.\n"
            "# TYPE wait_seconds histogram\n"
            "wait_seconds_bucket{store=\"s3\",le=\"0.0005\"} 2\n"
            "wait_seconds_bucket{store=\"s3\",le=\"0.1\"} 3\n"
            "wait_seconds_bucket{store=\"s3\",le=\"2\"} 5\n"
            "wait_seconds_bucket{store=\"s3\",le=\"+Inf\"} 7\n"
            "wait_seconds_sum{store=\"s3\"} 73.0506\n"
            "wait_seconds_count{store=\"s3\"} 7\n");
}

TEST(Metrics, HistogramWithoutLabels) {
  Metrics metrics;
  metrics.GetHistogram("h", "H.", {}, {1}).Observe(0.25);
  EXPECT_EQ(metrics.ToPrometheus(),
            "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 1\nh_sum 0.25\nh_count 1\n");
}

TEST(Metrics, LabelValuesAndHelpAreEscaped) {
  Metrics metrics;
  metrics.GetCounter("c", "Says \"a\\b\"\nand more.", {{"path", "C:\\dir \"x\"\ny"}}).Add(1);
  EXPECT_EQ(metrics.ToPrometheus(),
            "# HELP c Says \"a\\\\b\"\\nand more.\n"
            "# TYPE c counter\n"
            "c{path=\"C:\\\\dir \\\"x\\\"\\ny\"} 1\n");
}

TEST(Metrics, NumbersAsPrometheusReadsThem) {
  Metrics metrics;
  Gauge& gauge = metrics.GetGauge("g", "G.");
  auto printed = [&] {
    std::string text = metrics.ToPrometheus();
    return text.substr(text.rfind(' ') + 1);
  };
  gauge.Set(std::numeric_limits<double>::infinity());
  EXPECT_EQ(printed(), "+Inf\n");
  gauge.Set(-std::numeric_limits<double>::infinity());
  EXPECT_EQ(printed(), "-Inf\n");
  gauge.Set(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(printed(), "NaN\n");
  gauge.Set(-0.5);
  EXPECT_EQ(printed(), "-0.5\n");
  gauge.Set(123456789012345.0);  // bytes: every digit counts
  EXPECT_EQ(printed(), "123456789012345\n");
  gauge.Set(1e300);
  EXPECT_EQ(printed(), "1e+300\n");
}

TEST(Metrics, SameNameAndLabelsAreTheSameMetric) {
  Metrics metrics;
  Counter& first = metrics.GetCounter("c", "C.", {{"a", "1"}, {"b", "2"}});
  Counter& same = metrics.GetCounter("c", "C.", {{"b", "2"}, {"a", "1"}});
  Counter& other = metrics.GetCounter("c", "C.", {{"a", "1"}});
  EXPECT_EQ(&first, &same);
  EXPECT_NE(&first, &other);
}

TEST(Metrics, LabelsThatLookAlikeWhenGluedTogetherAreDifferent) {
  Metrics metrics;
  EXPECT_NE(&metrics.GetCounter("c", "C.", {{"a", "1\",b=\"2"}}), &metrics.GetCounter("c", "C.", {{"a", "1"}, {"b", "2"}}));
}

TEST(Metrics, NobodyCountsInVainWhenManyCount) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5000; ++i) {
        metrics.GetCounter("c_total", "C.", {{"thread", Cat(t % 2)}}).Add(1);
        metrics.GetHistogram("h", "H.").Observe(0.001 * i);
        metrics.GetGauge("g", "G.").Add(i % 2 == 0 ? 1 : -1);
        if (i % 1000 == 0) {
          EXPECT_THAT(metrics.ToPrometheus(), HasSubstr("h_count"));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.GetCounter("c_total", "C.", {{"thread", "0"}}).value(), 10000);
  EXPECT_EQ(metrics.GetCounter("c_total", "C.", {{"thread", "1"}}).value(), 10000);
  EXPECT_EQ(metrics.GetHistogram("h", "H.").count(), 20000u);
  EXPECT_NEAR(metrics.GetHistogram("h", "H.").sum(), 4 * 0.001 * 5000 * 4999 / 2, 1e-3);
  EXPECT_EQ(metrics.GetGauge("g", "G.").value(), 0);
}

TEST(Metrics, DefaultIsOne) { EXPECT_EQ(&Metrics::Default(), &Metrics::Default()); }

TEST(MetricsDeathTest, DefectsInCodeAreNamed) {
  EXPECT_DEATH(Metrics().GetCounter("no-dashes", ""), "no-dashes: this is not a metric's name");
  EXPECT_DEATH(Metrics().GetCounter("c", "", {{"le", "1"}}), "cannot name a label");
  EXPECT_DEATH(Metrics().GetCounter("c", "", {{"7up", "1"}}), "cannot name a label");
  EXPECT_DEATH(
      {
        Metrics metrics;
        metrics.GetCounter("c", "");
        metrics.GetGauge("c", "");
      },
      "asked for as two kinds");
}

TEST(Histogram, BoundsAreSortedAndInclusive) {
  Histogram histogram({5, 1, 5, std::numeric_limits<double>::infinity()});
  EXPECT_THAT(histogram.bounds(), ElementsAre(1, 5));
  for (double value : {0.5, 1.0, 1.5, 5.0, 5.1}) histogram.Observe(value);
  EXPECT_THAT(histogram.buckets(), ElementsAre(2, 2, 1));
  EXPECT_EQ(histogram.count(), 5u);
  EXPECT_DOUBLE_EQ(histogram.sum(), 13.1);
}

TEST(Histogram, NotANumberIsNotAnObservation) {
  Histogram histogram({1});
  histogram.Observe(std::numeric_limits<double>::quiet_NaN());
  histogram.Observe(0.5);
  EXPECT_EQ(histogram.count(), 1u);
  EXPECT_EQ(histogram.sum(), 0.5);
}

TEST(Histogram, QuantilesAreInterpolated) {
  Histogram histogram({10, 20, 30});
  EXPECT_EQ(histogram.Quantile(0.5), 0) << "without observations";
  for (int i = 0; i < 10; ++i) histogram.Observe(15);
  EXPECT_DOUBLE_EQ(histogram.Quantile(0.5), 15);
  EXPECT_DOUBLE_EQ(histogram.Quantile(1), 20);
  for (int i = 0; i < 10; ++i) histogram.Observe(25);
  EXPECT_DOUBLE_EQ(histogram.Quantile(0.25), 15);
  EXPECT_DOUBLE_EQ(histogram.Quantile(0.75), 25);
  for (int i = 0; i < 80; ++i) histogram.Observe(1000);
  EXPECT_DOUBLE_EQ(histogram.Quantile(0.99), 30) << "above the last bound nobody knows how far";
}

RC_GTEST_PROP(Histogram, QuantileIsInsideTheBucketOfTheTrueOne, (std::vector<uint16_t> values, uint8_t share)) {
  RC_PRE(!values.empty());
  Histogram histogram(DurationBounds());
  for (uint16_t value : values) histogram.Observe(value / 1000.0);
  std::ranges::sort(values);
  // The smallest value such that at least the share lies at or below it.
  double part = share / 255.0;
  size_t rank = std::max<size_t>(1, static_cast<size_t>(std::ceil(part * static_cast<double>(values.size()) - 1e-9)));
  double truth = values[rank - 1] / 1000.0;
  double low = 0, high = histogram.bounds().front();
  for (double bound : histogram.bounds()) {
    if (bound < truth) low = bound;
  }
  for (double bound : histogram.bounds()) {
    high = bound;
    if (bound >= truth) break;
  }
  double quantile = histogram.Quantile(part);
  RC_ASSERT(quantile >= low - 1e-12);
  RC_ASSERT(quantile <= high + 1e-12);
}

TEST(DurationBounds, GoFromHalfAMillisecondToTwoMinutes) {
  std::vector<double> bounds = DurationBounds();
  EXPECT_DOUBLE_EQ(bounds.front(), 0.0005);
  EXPECT_NEAR(bounds.back(), 120, 15);
  EXPECT_TRUE(std::ranges::is_sorted(bounds));
}

// The grammar of the text format: every line is a comment or a sample.
RC_GTEST_PROP(Metrics, WhateverTheLabelsEveryLineIsWellFormed, (const std::string& value, const std::string& help)) {
  Metrics metrics;
  metrics.GetCounter("c_total", help, {{"label", value}}).Add(1);
  metrics.GetHistogram("h", help, {{"label", value}}).Observe(1);
  static const std::regex sample(R"re([a-z_]+(\{label="([^"\\]|\\["\\n])*"(,le="[^"]+")?\})? [-+.0-9eInfNa]+)re");
  std::string text = metrics.ToPrometheus();
  RC_ASSERT(text.ends_with('\n'));
  text.pop_back();
  for (const std::string& line : Split(text, '\n')) {
    RC_ASSERT(line.starts_with("# HELP ") || line.starts_with("# TYPE ") || std::regex_match(line, sample));
  }
}

}  // namespace
}  // namespace headrace
