// `headrace cat STREAM --step N`: a look at the data.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/command.h"
#include "cli/number.h"
#include "cli/stream_for_command.h"
#include "stream/stream_reader.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

constexpr uint64_t kRows = 4;
constexpr uint64_t kTextBytes = 200;

json Numbers(const Array& array, uint64_t from, uint64_t to, uint64_t most) {
  json values = json::array();
  for (uint64_t i = from; i < std::min(to, from + most); ++i) values.push_back(ToJson(ElementOf(array, i)));
  return values;
}

// The text if it is one, cut between characters; hexadecimal digits otherwise.
std::string Shown(std::string_view bytes) {
  std::string_view head = bytes.substr(0, kTextBytes);
  while (head.size() < bytes.size() && !head.empty() && !IsUtf8(head) && bytes.substr(0, kTextBytes).size() - head.size() < 4)
    head.remove_suffix(1);
  if (IsUtf8(head)) return std::string(head);
  return "0x" + Hex(bytes.data(), std::min<size_t>(bytes.size(), 32));
}

class CatCommand final : public Command {
 public:
  std::string name() const override { return "cat"; }
  std::string summary() const override { return "look at a step: columns, shapes, first values"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_option("--step", step_, "which step")->required()->type_name("N");
    app.add_option_function<uint32_t>("--lane", [this](uint32_t lane) { lane_ = lane; }, "only this lane (all)")->type_name("L");
    app.add_option("--values", values_, "how many values of an array are shown (8)")
        ->type_name("K")
        ->check(CLI::Range(1, 1'000'000'000));
    app.footer(
        "  headrace cat /data/live --step 0\n"
        "  headrace cat s3://bucket/live --step 1000 --lane 3 --json");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    const StreamInfo& info = log->info();
    if (lane_ && *lane_ >= info.lanes) {
      return Status(Code::kInvalidArgument,
                    fmt::format("there is no lane {}: the stream has {}, counted from 0", *lane_, info.lanes));
    }
    StreamReader reader(log);
    uint32_t first = lane_.value_or(0);
    HR_ASSIGN_OR_RETURN(StreamReader::Block block,
                        reader.ReadBlock(step_, first, lane_ ? first + 1 : info.lanes, Deadline::OnlyStop(stop)));
    const std::vector<Bytes>& cells = block.cells[step_ - block.entry.first_step];
    json lanes = json::array();
    for (uint32_t i = 0; i < cells.size(); ++i) {
      HR_ASSIGN_OR_RETURN(std::vector<Array> arrays,
                          ReadCell(cells[i], info.columns, fmt::format("step {}, lane {}", step_, first + i)));
      json columns = json::object();
      console.Say(console.Bold(fmt::format("step {}, lane {}", step_, first + i)));
      auto array = arrays.begin();
      for (const Column& column : info.columns) {
        columns[column.name] = Describe(column, &*array);
        console.Say(Line(column, columns[column.name]));
        array += column.arrays();
      }
      lanes.push_back({{"lane", first + i}, {"columns", columns}});
    }
    if (console.json()) console.SayJson({{"step", step_}, {"lanes", lanes}});
    return kDone;
  }

 private:
  // `arrays` are the one or two of the column.
  json Describe(const Column& column, const Array* arrays) const {
    const Array& values = arrays[0];
    json shown = {{"dtype", DtypeName(column.dtype)}, {"shape", values.shape}};
    if (column.kind == Column::kArray) {
      shown["kind"] = "array";
      shown["values"] = Numbers(values, 0, values.elements(), values_);
      return shown;
    }
    shown["kind"] = column.kind == Column::kBytes ? "bytes" : "ragged";
    uint64_t rows = arrays[1].shape[0] - 1;
    uint64_t per_row = values.shape[0] == 0 ? 0 : values.elements() / values.shape[0];
    shown["rows"] = rows;
    shown["values"] = json::array();
    for (uint64_t row = 0; row < std::min(rows, std::max(kRows, values_)); ++row) {
      int64_t ends[2];
      std::memcpy(ends, arrays[1].bytes.data() + 8 * row, sizeof(ends));
      auto begin = static_cast<uint64_t>(ends[0]);
      auto end = static_cast<uint64_t>(ends[1]);
      if (column.kind == Column::kBytes) {
        shown["values"].push_back(Shown(values.bytes.AsText().substr(begin, end - begin)));
      } else {
        shown["values"].push_back(Numbers(values, begin * per_row, end * per_row, values_));
      }
    }
    return shown;
  }

  static std::string Line(const Column& column, const json& shown) {
    std::string shape = shown.contains("rows")
                            ? fmt::format("{} rows", shown["rows"].get<uint64_t>())
                            : fmt::format("[{}]", fmt::join(shown["shape"].get<std::vector<uint64_t>>(), ", "));
    return fmt::format("  {:<12} {:<8} {:<14} {}", column.name, column.kind == Column::kBytes ? "bytes" : DtypeName(column.dtype),
                       shape, shown["values"].dump(-1, ' ', false, json::error_handler_t::replace));
  }

  std::string uri_;
  uint64_t step_ = 0;
  std::optional<uint32_t> lane_;
  uint64_t values_ = 8;
};

}  // namespace

std::unique_ptr<Command> MakeCatCommand() { return std::make_unique<CatCommand>(); }

}  // namespace headrace::cli
