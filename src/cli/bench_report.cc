#include "cli/bench_report.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/size.h"
#include "cli/table.h"

namespace headrace::cli {
namespace {

// Whether a phase is about bytes or about requests.
bool CountsBytes(MeasureKind kind) {
  return kind == MeasureKind::kLargeWrites || kind == MeasureKind::kObjectReads || kind == MeasureKind::kRangeReads;
}

std::string Rate(MeasureKind kind, const MeasureLevel& level) {
  if (CountsBytes(kind)) return FormatSize(level.bytes_per_second()) + "/s";
  double rate = level.requests_per_second();
  return rate < 10 ? fmt::format("{:.1f}/s", rate) : Grouped(rate) + "/s";
}

std::string RowName(const MeasurePhase& phase) {
  std::string size = BinarySize(phase.request_bytes);
  switch (phase.kind) {
    case MeasureKind::kCommits: return fmt::format("commit (create {})", size);
    case MeasureKind::kSmallWrites: return fmt::format("put {}", size);
    case MeasureKind::kSmallReads: return fmt::format("get {}", size);
    case MeasureKind::kLists: return "list a page";
    case MeasureKind::kLargeWrites: return phase.request_bytes == 0 ? "write objects" : fmt::format("write objects of {}", size);
    case MeasureKind::kObjectReads: return phase.request_bytes == 0 ? "read objects" : fmt::format("read objects of {}", size);
    case MeasureKind::kRangeReads: return phase.request_bytes == 0 ? "read ranges" : fmt::format("read ranges of {}", size);
  }
  return "";
}

// Why a row shows no better number than it does; empty where it shows the store's own limit.
std::string EndWord(MeasurePhase::End end) {
  switch (end) {
    case MeasurePhase::End::kTime: return "out of time";
    case MeasurePhase::End::kSize: return "out of --size";
    case MeasurePhase::End::kConcurrency: return "still gaining";
    default: return "";
  }
}

std::string_view EndName(MeasurePhase::End end) {
  switch (end) {
    case MeasurePhase::End::kNotRun: return "not_run";
    case MeasurePhase::End::kFlat: return "flat";
    case MeasurePhase::End::kTime: return "time";
    case MeasurePhase::End::kSize: return "size";
    case MeasurePhase::End::kConcurrency: return "concurrency";
    case MeasurePhase::End::kSerial: return "serial";
  }
  return "";
}

double Milliseconds(Duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

nlohmann::json LatencyJson(const MeasureLevel& level) {
  return {{"requests", level.requests},
          {"p50", Milliseconds(level.p50)},
          {"p90", Milliseconds(level.p90)},
          {"p99", Milliseconds(level.p99)},
          {"max", Milliseconds(level.max)}};
}

nlohmann::json LevelJson(const MeasureLevel& level) {
  return {{"concurrency", level.concurrency},
          {"requests", level.requests},
          {"bytes", level.bytes},
          {"seconds", std::chrono::duration<double>(level.time).count()},
          {"requests_per_second", level.requests_per_second()},
          {"bytes_per_second", level.bytes_per_second()},
          {"latency_ms", LatencyJson(level)}};
}

}  // namespace

std::string BinarySize(uint64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}MiB", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}KiB", bytes >> 10);
  return FormatSize(static_cast<double>(bytes));
}

std::string LiveLine(const MeasureView& view) {
  if (view.removing) return "removing what was written";
  std::string what;
  switch (view.phase) {
    case MeasureKind::kCommits: what = "committing"; break;
    case MeasureKind::kSmallWrites: what = "writing small objects"; break;
    case MeasureKind::kSmallReads: what = "reading small objects"; break;
    case MeasureKind::kLists: what = "listing"; break;
    case MeasureKind::kLargeWrites: what = "writing large objects"; break;
    case MeasureKind::kObjectReads: what = "reading large objects"; break;
    case MeasureKind::kRangeReads: what = "reading ranges"; break;
  }
  std::string line = fmt::format("{}, {} at once", what, view.so_far.concurrency);
  return view.so_far.requests == 0 ? line : fmt::format("{}: {}", line, Rate(view.phase, view.so_far));
}

std::vector<std::string> BenchReport::TableLines(const Console& console) const {
  Table table;
  table.Add({"", "one at a time", "p50", "p90", "p99", "max", "at best", "at once"});
  std::string_view none = console.Pick("–", "-");
  for (const MeasurePhase& phase : measured.phases) {
    std::vector<std::string> row = {RowName(phase)};
    if (phase.empty()) {
      row.push_back("not measured");
    } else {
      const MeasureLevel& one = phase.single();
      row.push_back(Rate(phase.kind, one));
      for (Duration time : {one.p50, one.p90, one.p99, one.max}) row.push_back(FormatDuration(time));
      bool serial = phase.end == MeasurePhase::End::kSerial;
      row.push_back(serial ? std::string(none) : Rate(phase.kind, phase.best()));
      row.push_back(serial ? std::string(none) : fmt::format("{}", phase.best().concurrency));
      // The end of a rise matters only if it was cut short at its top.
      bool at_top = &phase.best() == &phase.levels.back();
      row.push_back(at_top ? EndWord(phase.end) : "");
    }
    table.Add(std::move(row));
  }
  std::vector<std::string> lines = table.Lines();
  lines.front() = console.Bold(lines.front());
  return lines;
}

std::string BenchReport::Sentence() const {
  if (measured.damaged > 0) {
    return fmt::format("do not train from this store: {} reads brought other bytes than were written, the first of them from {}",
                       Grouped(static_cast<double>(measured.damaged)), measured.damaged_example);
  }
  std::string sentence;
  const MeasurePhase& ranges = measured.phase(MeasureKind::kRangeReads);
  std::string appetite = FormatSize(static_cast<double>(gpu_bytes_per_second)) + "/s";
  if (ranges.empty()) {
    sentence = "how many GPUs this store feeds was not measured";
  } else {
    double rate = ranges.best().bytes_per_second();
    double gpus = rate / static_cast<double>(gpu_bytes_per_second);
    if (gpus >= 2) {
      sentence = fmt::format("this store feeds {} GPUs that each eat {}", Grouped(std::floor(gpus)), appetite);
    } else if (gpus >= 1) {
      sentence = fmt::format("this store feeds 1 GPU that eats {}", appetite);
    } else {
      sentence = fmt::format("this store does not feed a GPU that eats {}: it brings {}/s", appetite, FormatSize(rate));
    }
  }
  const MeasurePhase& commits = measured.phase(MeasureKind::kCommits);
  if (!commits.empty()) {
    double rate = commits.single().requests_per_second();
    sentence += fmt::format("; {} commits a second", rate < 10 ? fmt::format("{:.1f}", rate) : Grouped(std::floor(rate)));
  }
  return sentence;
}

nlohmann::json BenchReport::ToJson() const {
  nlohmann::json phases = nlohmann::json::object();
  for (const MeasurePhase& phase : measured.phases) {
    nlohmann::json levels = nlohmann::json::array();
    for (const MeasureLevel& level : phase.levels) levels.push_back(LevelJson(level));
    phases[MeasureName(phase.kind)] = {{"request_bytes", phase.request_bytes}, {"ended", EndName(phase.end)}, {"levels", levels}};
  }
  nlohmann::json document = {
      {"store", uri},
      {"phases", phases},
      {"written_bytes", measured.written_bytes},
      {"seconds", std::chrono::duration<double>(measured.elapsed).count()},
      {"damaged_reads", measured.damaged},
      {"left_behind", measured.left_behind},
      {"remarks", remarks},
      {"gpu_bytes_per_second", gpu_bytes_per_second},
      {"sentence", Sentence()},
  };
  nlohmann::json latency = nlohmann::json::object();
  const std::pair<const char*, MeasureKind> operations[] = {{"create", MeasureKind::kCommits},
                                                            {"put", MeasureKind::kSmallWrites},
                                                            {"get", MeasureKind::kSmallReads},
                                                            {"list", MeasureKind::kLists}};
  for (auto [name, kind] : operations) {
    if (const MeasurePhase& phase = measured.phase(kind); !phase.empty()) latency[name] = LatencyJson(phase.single());
  }
  document["latency_ms"] = latency;
  auto best = [&](const char* name, MeasureKind kind) {
    if (const MeasurePhase& phase = measured.phase(kind); !phase.empty()) document[name] = phase.best().bytes_per_second();
  };
  best("write_bytes_per_second", MeasureKind::kLargeWrites);
  best("read_bytes_per_second", MeasureKind::kObjectReads);
  best("range_read_bytes_per_second", MeasureKind::kRangeReads);
  if (const MeasurePhase& phase = measured.phase(MeasureKind::kCommits); !phase.empty()) {
    document["commits_per_second"] = phase.single().requests_per_second();
  }
  if (document.contains("range_read_bytes_per_second")) {
    document["gpus"] =
        static_cast<uint64_t>(document["range_read_bytes_per_second"].get<double>() / static_cast<double>(gpu_bytes_per_second));
  }
  return document;
}

}  // namespace headrace::cli
