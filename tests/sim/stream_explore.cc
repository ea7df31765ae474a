// Explores small cases of a stream over all interleavings of their store calls (explorer.h).
//
//   stream_explore [CASE]                        every case, or one
//   stream_explore CASE --path 0.1.0 [--break RULE]   one run, decision by decision
//   stream_explore --mutations [--break RULE]    breaks rules that the cases must notice
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "sim/explorer.h"
#include "sim/rule_names.h"
#include "stream/collector.h"
#include "stream/rules.h"
#include "stream/strand_writer.h"
#include "stream/stream_reader.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

StreamInfo Shape(uint32_t strands, Order order) {
  StreamInfo info;
  info.uuid[0] = 42;
  info.strands = info.window = strands;
  info.order = order;
  info.slots_per_marker = 2;
  info.columns = {{"sample", Dtype::kU8, Column::kArray}};
  return info;
}

uint64_t Drawn(const StrandWriter& writer) {
  uint64_t index = 0;
  if (writer.state()) ParseNumber(writer.state()->AsText(), index);
  return index;
}

// The next sample of the strand, as a block of one step.
Status AppendNext(StrandWriter& writer, const StreamInfo& info, const Deadline& deadline) {
  uint64_t index = Drawn(writer);
  std::string text = Cat("v", writer.strand(), " i", index);
  Array array{Dtype::kU8, {text.size()}, Bytes::FromString(text)};
  ChunkBuilder chunk(info, {});
  HR_RETURN_IF_ERROR(chunk.AddStep({*BuildCell({&array, 1}, info.columns)}));
  return writer.Append(writer.next(), chunk, Bytes::FromString(Cat(index + 1)), deadline);
}

struct WriterPlan {
  uint16_t strand = 0;
  int blocks = 1;
  bool takes_first = true;  // has its strand already when the exploration begins
  Duration patience = seconds(60);
};

// Appends blocks, and after an answer that leaves open what became of one finds out as every producer must.
void Write(StrandWriter& writer, const StreamInfo& info, Clock& clock, const WriterPlan& plan, History& history) {
  uint64_t until = Drawn(writer) + static_cast<uint64_t>(plan.blocks);
  for (int tries = 0; tries < plan.blocks + 2 && Drawn(writer) < until && !writer.ended(); ++tries) {
    Status done = AppendNext(writer, info, Deadline::After(clock, plan.patience));
    if (done.ok()) {
      history.Acknowledged(writer.attempted());
      continue;
    }
    if (done.code() != Code::kOutcomeUnknown) history.Refused(writer.attempted());
    if (done.code() == Code::kCorrupt) history.Violate(done.ToString());
    if (done.code() == Code::kFenced || !writer.Rebuild({}).ok()) return;
  }
}

Case::Actor Writer(std::string name, const StreamInfo& info, WriterPlan plan) {
  return {std::move(name), false, false, [&info, plan](StreamContext context, History& history) -> std::function<void()> {
            auto log = *StreamLog::Open(context, {});
            Clock& clock = context.executor->clock();
            if (!plan.takes_first) {
              return [=, &info, &clock, &history] {
                auto writer = StrandWriter::Take(log, plan.strand, {});
                if (writer.ok()) return Write(**writer, info, clock, plan, history);
                if (writer.code() == Code::kCorrupt) history.Violate(writer.status().ToString());
              };
            }
            std::shared_ptr<StrandWriter> writer = *StrandWriter::Take(log, plan.strand, {});
            return [=, &info, &clock, &history] { Write(*writer, info, clock, plan, history); };
          }};
}

void ReadAll(const std::shared_ptr<StreamLog>& log, const StreamInfo& info, uint64_t& step, History& history, bool last) {
  StreamReader reader(log);
  const Manifest manifest = log->known()->manifest;
  history.Saw(manifest, log->known()->encoded);
  step = std::max(step, manifest.trim_step);
  while (step < manifest.frontier_step) {
    auto block = reader.ReadBlock(step, 0, info.lanes, {});
    if (block.code() == Code::kTrimmed && !last) {
      step = log->known()->manifest.trim_step;
      return;
    }
    if (!block.ok()) return history.Violate(Cat("a reader failed: ", block.status().ToString()));
    for (uint32_t i = 0; i < block->entry.steps; ++i) history.Read(block->entry.first_step + i, 0, block->cells[i][0]);
    step = block->entry.end_step();
  }
}

Case::Actor Reader(const StreamInfo& info, int looks) {
  return {"reader", false, true, [&info, looks](StreamContext context, History& history) -> std::function<void()> {
            auto log = *StreamLog::Open(std::move(context), {});
            return [=, &info, &history] {
              uint64_t step = 0;
              for (int i = 0; i < looks; ++i) {
                auto state = log->Refresh({});
                if (!state.ok()) return history.Violate(Cat("a reader failed: ", state.status().ToString()));
                ReadAll(log, info, step, history, false);
              }
            };
          }};
}

Case::Actor Sweeper(bool lucky) {
  return {"collector", true, lucky, [](StreamContext context, History& history) -> std::function<void()> {
            auto log = *StreamLog::Open(std::move(context), {});
            return [=, &history] {
              auto collected = Collector(log).Collect({.grace = Duration::zero(), .keep_manifests = 1}, {});
              if (collected.code() == Code::kCorrupt) history.Violate(collected.status().ToString());
              history.Saw(log->known()->manifest, log->known()->encoded);
            };
          }};
}

Case::Actor Pinner(const StreamInfo& info, uint64_t step) {
  return {"trainer", false, false, [&info, step](StreamContext context, History& history) -> std::function<void()> {
            auto log = *StreamLog::Open(std::move(context), {});
            return [=, &info, &history] {
              Status pinned = log->Commit(PinEdit{{"new", step, 0, 0}, ""}, {}).status();
              if (!pinned.ok()) return;
              auto block = StreamReader(log).ReadBlock(step, 0, info.lanes, {});
              if (!block.ok()) history.Violate(Cat("a pinned step cannot be read: ", block.status().ToString()));
            };
          }};
}

void Fill(StreamContext context, const StreamInfo& info, int blocks) {
  auto log = *StreamLog::Open(std::move(context), {});
  for (int i = 0; i < blocks; ++i) {
    for (uint16_t v = 0; v < info.strands; ++v) (void)AppendNext(**StrandWriter::Take(log, v, {}), info, {});
  }
}

// In peace: somebody goes on where everybody stopped, and everything comes to its end.
void Conclude(StreamContext context, const StreamInfo& info, History& history) {
  auto log = StreamLog::Open(std::move(context), {});
  if (!log.ok()) return history.Violate(log.status().ToString());
  history.Saw((*log)->known()->manifest, (*log)->known()->encoded);
  std::vector<uint64_t> drawn(info.strands);
  for (uint16_t v = 0; v < info.strands; ++v) {
    auto writer = StrandWriter::Take(*log, v, {});
    if (!writer.ok()) return history.Violate(Cat("strand ", v, " cannot be taken: ", writer.status().ToString()));
    Status done = AppendNext(**writer, info, {});
    drawn[v] = Drawn(**writer);
    if (done.ok()) done = (*writer)->End({});
    if (!done.ok()) return history.Violate(Cat("strand ", v, " cannot go on: ", done.ToString()));
  }
  if (Status done = (*log)->Commit(FinishEdit{info.uuid}, {}).status(); !done.ok()) return history.Violate(done.ToString());
  Collector collector(*log);
  for (int i = 0; i < 2; ++i) {
    auto collected = collector.Collect({.grace = Duration::zero(), .keep_manifests = 1}, {});
    if (!collected.ok()) return history.Violate(Cat("the last collection failed: ", collected.status().ToString()));
  }
  uint64_t step = 0;
  ReadAll(*log, info, step, history, true);
  history.CheckAtRest();
  // Every sample that a strand has drawn is in one block, in its order.
  std::vector<uint64_t> next(info.strands);
  for (const auto& [block, entry] : history.blocks()) next[entry.name.strand] += entry.steps;
  for (uint16_t v = 0; v < info.strands; ++v) {
    if (next[v] != drawn[v]) history.Violate(Cat("strand ", v, " has drawn ", drawn[v], " samples, and has ", next[v], " steps"));
  }
}

// Every block holds the sample that its place says: none was drawn twice, none was left out.
void WatchSamples(const StreamInfo& info, History& history) {
  auto drawn = std::make_shared<std::set<std::string>>();
  history.on_chunk = [&info, &history, drawn](const Entry& entry, const Bytes& object) {
    auto header = DecodeChunkHeader(object.span().first(entry.header_bytes), entry, info, "chunk");
    uint64_t offset = header->lane[0].offset;
    Bytes lane = object.Slice(offset, header->lane[1].offset - offset);
    auto cell = UnpackCell(lane, offset, DecodeDirectory(lane.span(), *header, 0, "chunk")->at(0), "cell");
    std::string sample = (*ReadCell(*cell, info.columns, "cell"))[0].bytes.ToString();
    if (!drawn->insert(sample).second) history.Violate(Cat("the sample ", sample, " is in two blocks"));
    if (sample != Cat("v", entry.name.strand, " i", entry.name.seq))
      history.Violate(Cat("chunk ", entry.name.Key(), " holds the sample ", sample));
  };
}

std::vector<Case> AllCases() {
  static const StreamInfo two = Shape(2, Order::kPlanned), one = Shape(1, Order::kPlanned), arrival = Shape(2, Order::kArrival);
  static const StreamInfo forgetful = [] {
    StreamInfo info = arrival;
    info.slots_per_marker = 1;
    return info;
  }();
  std::vector<Case> cases;
  auto add = [&](std::string name, const StreamInfo& info, int faults, int deaths, int filled,
                 std::vector<Case::Actor> actors) -> Case& {
    Case added{std::move(name), info, faults, deaths, Discipline::kCombine, std::move(actors), {}, {}};
    added.prologue = [&info, filled](StreamContext context, History& history) {
      WatchSamples(info, history);
      Fill(std::move(context), info, filled);
    };
    added.epilogue = [&info](StreamContext context, History& history) { Conclude(std::move(context), info, history); };
    return cases.emplace_back(std::move(added));
  };
  // Two producers with a strand each, and somebody who follows. (A reader that dies is one that looks no further: readers are lucky.)
  add("rivals", two, 2, 1, 0, {Writer("A", two, {0}), Writer("B", two, {1}), Reader(two, 2)});
  // One is taken for dead and is not.
  add("take-over", one, 2, 1, 0, {Writer("A", one, {0, 2}), Writer("B", one, {0, 1, false})});
  // The same, and the former owner does not wait for answers.
  add("in doubt", one, 2, 1, 0,
      {Writer("A", one, {0, 1, true, milliseconds(5)}), Writer("B", one, {0, 1, false}), Reader(one, 1)});
  // From here on without intents, which have enough of their own to do above.
  auto alone = [&](Case& one_more) -> Case& {
    one_more.discipline = Discipline::kBackoff;
    return one_more;
  };
  // A collector sweeps while chunks are between their put and their commit, and forgets manifests behind the writers' backs.
  alone(add("sweeping", arrival, 0, 0, 0, {Writer("A", arrival, {0}), Writer("B", arrival, {1}), Sweeper(true)}));
  alone(
      add("sweeping behind a take-over", one, 0, 0, 0, {Writer("A", one, {0}), Writer("B", one, {0, 1, false}), Sweeper(true)}));
  alone(add("a late collector", one, 1, 1, 1, {Writer("A", one, {0, 1, false}), Sweeper(false)}));
  // A writer stalls so long that the number it was after is used and forgotten. Too large to be explored to its end in every test run.
  alone(add("forgetting", forgetful, 0, 0, 0, {Writer("A", forgetful, {0}), Writer("B", forgetful, {1, 3}), Sweeper(true)}));
  // A restart from an older checkpoint while the collector trims.
  Case& pins = alone(add("pins", one, 0, 0, 3, {Pinner(one, 1), Sweeper(true), Reader(one, 1)}));
  pins.prologue = [fill = pins.prologue](StreamContext context, History& history) {
    fill(context, history);
    (void)(*StreamLog::Open(context, {}))->Commit(PinEdit{{"old", 2, 0, 0}, ""}, {});
  };
  // Everybody at once.
  alone(add("everybody", two, 0, 0, 0, {Writer("A", two, {0}), Writer("B", two, {1}), Sweeper(true), Reader(two, 1)}));
  return cases;
}

const Case* FindCase(const std::vector<Case>& cases, const std::string& name) {
  for (const Case& one : cases) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

bool ExploreCase(const Case& one, uint64_t most) {
  Instant began = RealClock().Now();
  Summary summary = Explorer(one, {}).Explore(most);
  double took = std::chrono::duration<double>(RealClock().Now() - began).count();
  std::printf("%-32s %9.3g interleavings, %lu states, %lu runs of up to %zu calls, %.1f s%s\n", one.name.c_str(),
              summary.interleavings, summary.states, summary.runs, summary.longest, took,
              summary.complete ? "" : ", NOT COMPLETE");
  if (!summary.violations.empty()) {
    std::printf("FAILED  replay: stream_explore '%s' --path %s\n", one.name.c_str(), summary.path.c_str());
    for (const std::string& violation : summary.violations) std::printf("    %s\n", violation.c_str());
  }
  std::fflush(stdout);
  return summary.complete;
}

// Rules whose loss shows in one of the cases. The others need more actors or longer histories, which the simulation has.
const std::vector<std::pair<std::string, std::string>>& Mutations() {
  static const std::vector<std::pair<std::string, std::string>> mutations = {
      {"kCheckEpoch", "take-over"},        {"kNeverAdopt", "take-over"},        {"kValidateAtRebase", "take-over"},
      {"kAcknowledgeByName", "in doubt"},  {"kDeleteIntents", "rivals"},        {"kSweepOnlyBehind", "sweeping"},
      {"kStaleIsUndecided", "forgetting"}, {"kMarkerBeforeDelete", "sweeping"}, {"kTrimAtRebase", "pins"},
      {"kKeepLastBeforeTrim", "pins"},
  };
  return mutations;
}

int RunMutations(const std::vector<Case>& cases, uint64_t most, const std::string& only) {
  int missed = 0;
  std::printf("%-24s %-12s runs until noticed\n", "broken rule", "case");
  for (const auto& [rule, where] : Mutations()) {
    if (!only.empty() && only != rule) continue;
    Summary summary = Explorer(*FindCase(cases, where), RulesWithout(rule)).Explore(most);
    bool noticed = !summary.violations.empty();
    if (!noticed) ++missed;
    std::printf("%-24s %-12s %lu%s%s\n", rule.c_str(), where.c_str(), summary.runs, noticed ? ": " : " NOT NOTICED",
                noticed ? summary.violations.front().c_str() : "");
    std::fflush(stdout);
  }
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  using namespace headrace;
  std::string name, path, broken;
  bool mutations = false, replay = false;
  uint64_t most = UINT64_MAX;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (word == "--path") {
      path = value();
      replay = true;
    } else if (word == "--break") {
      broken = value();
    } else if (word == "--mutations") {
      mutations = true;
    } else if (word == "--most") {
      ParseNumber(value(), most);
    } else {
      name = word;
    }
  }
  std::vector<Case> cases = AllCases();
  if (!name.empty() && FindCase(cases, name) == nullptr) {
    std::fprintf(stderr, "there is no case \"%s\"\n", name.c_str());
    return 2;
  }
  if (mutations) return RunMutations(cases, most, broken);
  if (replay) {
    Summary summary = Explorer(*FindCase(cases, name), RulesWithout(broken)).Replay(path);
    for (const std::string& violation : summary.violations) std::printf("    %s\n", violation.c_str());
    return summary.violations.empty() ? 0 : 1;
  }
  bool all = true;
  for (const Case& one : cases) {
    if (name.empty() ? one.name != "forgetting" : name == one.name) all = ExploreCase(one, most) && all;
  }
  return all ? 0 : 1;
}
