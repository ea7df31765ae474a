#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace headrace::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

MeasureLevel At(size_t concurrency, uint64_t requests, uint64_t request_bytes) {
  return {.concurrency = concurrency,
          .requests = requests,
          .bytes = requests * request_bytes,
          .time = 1s,
          .p50 = 1ms,
          .p90 = 2ms,
          .p99 = 3ms,
          .max = 4ms};
}

BenchReport Report(uint64_t commits, uint64_t best_ranges) {
  BenchReport report{.uri = "s3://lake/a", .measured = {}, .gpu_bytes_per_second = 250'000'000, .remarks = {}};
  for (MeasureKind kind : {MeasureKind::kCommits, MeasureKind::kSmallWrites, MeasureKind::kSmallReads, MeasureKind::kLists,
                           MeasureKind::kLargeWrites, MeasureKind::kObjectReads, MeasureKind::kRangeReads}) {
    report.measured.phases.push_back({.kind = kind, .request_bytes = 1 << 20, .levels = {}, .end = MeasurePhase::End::kNotRun});
  }
  MeasurePhase& log = report.measured.phases[0];
  log.levels = {At(1, commits, 16 << 10)};
  log.end = MeasurePhase::End::kSerial;
  MeasurePhase& ranges = report.measured.phases[6];
  ranges.levels = {At(1, 10, 1 << 20), At(2, best_ranges, 1 << 20), At(4, best_ranges / 2, 1 << 20)};
  ranges.end = MeasurePhase::End::kFlat;
  return report;
}

TEST(BenchReport, TheSentenceSaysWhatTheStoreFeeds) {
  EXPECT_EQ(Report(14, 2650).Sentence(), "this store feeds 11 GPUs that each eat 250MB/s; 14 commits a second");
  EXPECT_EQ(Report(2000, 300).Sentence(), "this store feeds 1 GPU that eats 250MB/s; 2,000 commits a second");
  EXPECT_EQ(Report(1, 100).Sentence(),
            "this store does not feed a GPU that eats 250MB/s: it brings 105MB/s; 1.0 commits a second");
}

TEST(BenchReport, WrongBytesOutweighAllNumbers) {
  BenchReport report = Report(14, 2650);
  report.measured.damaged = 3;
  report.measured.damaged_example = "s3://lake/a/x, bytes=0-9";
  EXPECT_EQ(
      report.Sentence(),
      "do not train from this store: 3 reads brought other bytes than were written, the first of them from s3://lake/a/x, bytes=0-9");
}

TEST(BenchReport, WhatWasNotMeasuredIsSaid) {
  BenchReport report = Report(14, 2650);
  report.measured.phases[6].levels.clear();
  EXPECT_THAT(report.Sentence(), HasSubstr("was not measured; 14 commits"));
  EXPECT_FALSE(report.ToJson().contains("gpus"));
}

TEST(BenchReport, TheJsonHasTheSameNumbers) {
  nlohmann::json json = Report(14, 2650).ToJson();
  EXPECT_EQ(json["gpus"], 11);
  EXPECT_EQ(json["commits_per_second"], 14);
  EXPECT_EQ(json["range_read_bytes_per_second"], 2650.0 * (1 << 20));
  EXPECT_EQ(json["latency_ms"]["create"]["p99"], 3);
  EXPECT_EQ(json["phases"]["range_reads"]["levels"].size(), 3u);
  EXPECT_EQ(json["phases"]["range_reads"]["levels"][1]["concurrency"], 2);
  EXPECT_EQ(json["phases"]["range_reads"]["ended"], "flat");
  EXPECT_FALSE(json.contains("read_bytes_per_second"));
}

TEST(BenchReport, EveryRowOfTheTableIsThere) {
  std::vector<std::string> lines = Report(14, 2650).TableLines(Console(false));
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_THAT(lines[1], HasSubstr("commit (create 1MiB)"));
  EXPECT_THAT(lines[1], HasSubstr("14/s"));
  EXPECT_THAT(lines[2], HasSubstr("not measured"));
  EXPECT_THAT(lines[7], HasSubstr("2.78GB/s"));
}

TEST(BenchReport, SizesAreReadable) {
  EXPECT_EQ(BinarySize(16 << 10), "16KiB");
  EXPECT_EQ(BinarySize(8 << 20), "8MiB");
  EXPECT_EQ(BinarySize(1000), "1KB");
}

}  // namespace
}  // namespace headrace::cli
