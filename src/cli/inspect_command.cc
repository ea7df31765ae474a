// `headrace inspect STREAM`: how a stream stands, or where a step is.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/size.h"
#include "cli/command.h"
#include "cli/stream_for_command.h"
#include "cli/table.h"
#include "stream/mixture_object.h"
#include "stream/owners.h"
#include "stream/stream_reader.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

std::string_view OrderName(Order order) { return order == Order::kPlanned ? "planned" : "arrival"; }
std::string_view KindName(Column::Kind kind) {
  return kind == Column::kArray ? "array" : kind == Column::kRagged ? "ragged" : "bytes";
}

// A process that has taken strands, as the strand table knows it.
struct Producer {
  std::vector<uint16_t> strands;
  uint32_t epoch = 0;    // the highest of its strands
  uint64_t changed = 0;  // the manifest that changed one of them last
};

std::map<uint64_t, Producer> ProducersOf(const Manifest& manifest) {
  std::map<uint64_t, Producer> producers;
  for (size_t v = 0; v < manifest.strands.size(); ++v) {
    const Strand& row = manifest.strands[v];
    if (row.epoch == 0) continue;
    Producer& producer = producers[row.owner];
    producer.strands.push_back(static_cast<uint16_t>(v));
    producer.epoch = std::max(producer.epoch, row.epoch);
    producer.changed = std::max(producer.changed, row.changed);
  }
  return producers;
}

// Those that the manifest names, and the first one, which stands in the recipe. Old ones in between may be forgotten.
std::vector<MixtureRef> MixturesOf(const StreamInfo& info, const Manifest& manifest) {
  std::vector<MixtureRef> mixtures = manifest.mixtures;
  if (!info.recipe.empty()) mixtures.insert(mixtures.begin(), MixtureRef{});
  return mixtures;
}

class InspectCommand final : public Command {
 public:
  std::string name() const override { return "inspect"; }
  std::string summary() const override { return "how a stream stands; with --step, where a step is and how large"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_option_function<uint64_t>(
           "--step", [this](uint64_t step) { step_ = step; }, "this step's chunk, cells and mixture")
        ->type_name("N");
    app.footer(
        "  headrace inspect /data/live\n"
        "  headrace inspect s3://bucket/live --step 1000 --json");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    Deadline deadline = Deadline::OnlyStop(stop);
    return step_ ? ShowStep(console, log, deadline) : ShowStream(console, *log, deadline);
  }

 private:
  static Result<ExitStatus> ShowStream(const Console& console, StreamLog& log, const Deadline& deadline) {
    StreamLog::StatePtr state = log.known();
    const Manifest& manifest = state->manifest;
    uint64_t bytes = 0;
    uint64_t chunks = 0;
    auto count = [&](const Entry& entry) {
      bytes += entry.bytes;
      ++chunks;
      return Status();
    };
    HR_RETURN_IF_ERROR(log.index().ForEach(manifest, manifest.trim_block, UINT64_MAX, deadline, count));
    for (const Entry& entry : manifest.parked) HR_RETURN_IF_ERROR(count(entry));
    std::map<uint32_t, json> schedules;
    if (!log.info().recipe.empty()) {
      HR_ASSIGN_OR_RETURN(schedules[0], FirstSchedule(log, deadline));
    }
    for (const MixtureRef& mixture : manifest.mixtures) {
      HR_ASSIGN_OR_RETURN(schedules[mixture.number], ScheduleOf(log, mixture.number, deadline));
    }
    const OwnerNames names = ReadOwnerNames(log.store(), deadline);
    if (console.json()) console.SayJson(StreamJson(log, *state, chunks, bytes, schedules, names));
    for (const std::string& line : StreamLines(log, *state, chunks, bytes, schedules, names)) console.Say(line);
    return kDone;
  }

  // What a mixture's object says of weights, where a recipe wrote it; else an empty list.
  static Result<json> ScheduleOf(StreamLog& log, uint32_t number, const Deadline& deadline) {
    HR_ASSIGN_OR_RETURN(MixtureObject object, ReadMixtureObject(log, number, deadline));
    return ScheduleIn(json::parse(object.bytes.AsText(), nullptr, /*allow_exceptions=*/false));
  }

  // Of the mixture with number 0, which stands in the recipe. That it is gone is for `verify` to say.
  static Result<json> FirstSchedule(StreamLog& log, const Deadline& deadline) {
    HR_ASSIGN_OR_RETURN(std::optional<Object> object, log.store().Get(log.info().recipe, deadline));
    if (!object) return json::array();
    const json recipe = json::parse(object->bytes.AsText(), nullptr, /*allow_exceptions=*/false);
    return recipe.is_object() && recipe.contains("first") ? ScheduleIn(recipe["first"]) : json::array();
  }

  static json ScheduleIn(const json& mixture) {
    const json::json_pointer where("/mix/schedule");
    if (!mixture.is_object() || !mixture.contains(where)) return json::array();
    const json& schedule = mixture[where];
    for (const json& entry : schedule) {
      if (!entry.is_object() || !entry.contains("from_step") || !entry.contains("weights") || !entry["weights"].is_object())
        return json::array();
    }
    return schedule;
  }

  static std::string ScheduleText(const json& schedule) {
    std::vector<std::string> parts;
    for (const json& entry : schedule) {
      std::vector<std::string> weights;
      for (const auto& [source, weight] : entry["weights"].items())
        weights.push_back(fmt::format("{} {}", source, weight.dump()));
      parts.push_back(fmt::format("{}{}", schedule.size() > 1 ? fmt::format("from step {} ", entry["from_step"].dump()) : "",
                                  fmt::join(weights, ", ")));
    }
    return parts.empty() ? "" : fmt::format(": {}", fmt::join(parts, "; "));
  }

  static json StreamJson(StreamLog& log, const StreamLog::State& state, uint64_t chunks, uint64_t bytes,
                         const std::map<uint32_t, json>& schedules, const OwnerNames& names) {
    const StreamInfo& info = log.info();
    const Manifest& manifest = state.manifest;
    json document = {{"stream", log.store().Describe()},
                     {"uuid", UuidText(info.uuid)},
                     {"steps", manifest.frontier_step},
                     {"trim", manifest.trim_step},
                     {"lanes", info.lanes},
                     {"strands", info.strands},
                     {"order", OrderName(info.order)},
                     {"sealed", manifest.finished},
                     {"manifest", manifest.number},
                     {"manifest_bytes", state.encoded.size()},
                     {"bytes", bytes},
                     {"chunks", chunks},
                     {"parked", manifest.parked.size()}};
    for (const char* list : {"columns", "producers", "pins", "mixtures"}) document[list] = json::array();
    for (const Column& column : info.columns) {
      document["columns"].push_back({{"name", column.name}, {"dtype", DtypeName(column.dtype)}, {"kind", KindName(column.kind)}});
    }
    for (const auto& [owner, producer] : ProducersOf(manifest)) {
      document["producers"].push_back({{"owner", OwnerText(owner)},
                                       {"name", OwnerName(owner, names)},
                                       {"strands", producer.strands},
                                       {"epoch", producer.epoch},
                                       {"changed", producer.changed},
                                       {"commits_ago", manifest.number - producer.changed}});
    }
    for (const Pin& pin : manifest.pins)
      document["pins"].push_back({{"name", pin.name}, {"step", pin.step}, {"term_seconds", pin.term_seconds}});
    for (const MixtureRef& mixture : MixturesOf(info, manifest)) {
      document["mixtures"].push_back({{"number", mixture.number},
                                      {"first_block", mixture.first_block},
                                      {"first_step", info.blocks.FirstStep(mixture.first_block)},
                                      {"schedule", schedules.at(mixture.number)}});
    }
    return document;
  }

  static std::vector<std::string> StreamLines(StreamLog& log, const StreamLog::State& state, uint64_t chunks, uint64_t bytes,
                                              const std::map<uint32_t, json>& schedules, const OwnerNames& names) {
    const StreamInfo& info = log.info();
    const Manifest& manifest = state.manifest;
    std::vector<std::string> columns;
    for (const Column& column : info.columns) {
      std::string kind = column.kind == Column::kRagged ? "ragged:" : "";
      columns.push_back(fmt::format("{}:{}", column.name,
                                    column.kind == Column::kBytes ? "bytes" : kind + std::string(DtypeName(column.dtype))));
    }
    std::vector<std::string> lines = {
        fmt::format("stream    {}", log.store().Describe()),
        fmt::format("uuid      {}", UuidText(info.uuid)),
        fmt::format("steps     {} to {}{}", Grouped(static_cast<double>(manifest.trim_step)),
                    Grouped(static_cast<double>(manifest.frontier_step)), manifest.finished ? ", sealed" : ""),
        fmt::format("shape     {} lanes, {} strands, {} order", info.lanes, info.strands, OrderName(info.order)),
        fmt::format("columns   {}", fmt::join(columns, ", ")),
        fmt::format("stored    {} in {} chunks{}", FormatSize(static_cast<double>(bytes)), chunks,
                    manifest.parked.empty() ? "" : fmt::format(", {} of them waiting for their turn", manifest.parked.size())),
        fmt::format("manifest  number {}, {}", manifest.number, FormatSize(static_cast<double>(state.encoded.size())))};
    for (const MixtureRef& mixture : MixturesOf(info, manifest))
      lines.push_back(fmt::format("mixture   {} from step {} on{}", mixture.number, info.blocks.FirstStep(mixture.first_block),
                                  ScheduleText(schedules.at(mixture.number))));
    for (const Pin& pin : manifest.pins) lines.push_back(fmt::format("pin       {} holds step {}", pin.name, pin.step));
    Table table;
    for (const auto& [owner, producer] : ProducersOf(manifest)) {
      table.Add({fmt::format("producer  {}", OwnerText(owner, names)), fmt::format("strand {}", fmt::join(producer.strands, ",")),
                 fmt::format("epoch {}", producer.epoch),
                 fmt::format("last change {} commits ago", manifest.number - producer.changed)});
    }
    for (std::string& line : table.Lines()) lines.push_back(std::move(line));
    return lines;
  }

  Result<ExitStatus> ShowStep(const Console& console, const std::shared_ptr<StreamLog>& log, const Deadline& deadline) const {
    StreamReader reader(log);
    HR_ASSIGN_OR_RETURN(Entry entry, reader.Find(*step_, deadline));
    std::string key = entry.name.Key();
    std::string what = log->store().Describe(key);
    HR_ASSIGN_OR_RETURN(std::optional<Object> object, log->store().Get(key, deadline));
    if (!object) return Status(Code::kCorrupt, fmt::format("the chunk {} of step {} is missing", what, *step_));
    HR_ASSIGN_OR_RETURN(ChunkHeader header,
                        DecodeChunkHeader(object->bytes.Slice(0, entry.header_bytes).span(), entry, log->info(), what));
    json cells = json::array();
    Table table;
    table.Add({"lane", "bytes", "stored", "codec"});
    for (uint32_t lane = 0; lane < log->info().lanes; ++lane) {
      uint64_t offset = header.lane[lane].offset;
      Bytes bytes = object->bytes.Slice(offset, header.lane[lane + 1].offset - offset);
      HR_ASSIGN_OR_RETURN(std::vector<CellPlace> places, DecodeDirectory(bytes.span(), header, lane, what));
      const CellPlace& place = places[*step_ - entry.first_step];
      std::string_view codec = place.codec == Codec::kZstd ? "zstd" : "none";
      cells.push_back({{"lane", lane}, {"bytes", place.raw}, {"stored_bytes", place.stored}, {"codec", codec}});
      table.Add({std::to_string(lane), std::to_string(place.raw), std::to_string(place.stored), std::string(codec)});
    }
    if (console.json()) {
      console.SayJson({{"step", *step_},
                       {"chunk",
                        {{"object", what},
                         {"strand", entry.name.strand},
                         {"epoch", entry.name.epoch},
                         {"seq", entry.name.seq},
                         {"block", entry.block},
                         {"first_step", entry.first_step},
                         {"steps", entry.steps},
                         {"bytes", entry.bytes}}},
                       {"cells", cells},
                       {"mixture", entry.mixture}});
    }
    console.Say(fmt::format("step     {}", *step_));
    console.Say(fmt::format("chunk    {}", what));
    console.Say(fmt::format("         steps {} to {}, {}; block {} of strand {}, epoch {}", entry.first_step,
                            entry.end_step() - 1, FormatSize(static_cast<double>(entry.bytes)), entry.block, entry.name.strand,
                            entry.name.epoch));
    console.Say(fmt::format("mixture  {}", entry.mixture));
    for (const std::string& line : table.Lines()) console.Say(line);
    return kDone;
  }

  std::string uri_;
  std::optional<uint64_t> step_;
};

}  // namespace

std::unique_ptr<Command> MakeInspectCommand() { return std::make_unique<InspectCommand>(); }

}  // namespace headrace::cli
