// `headrace cat STREAM --step N`: a look at the data.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/command.h"
#include "cli/lake_program.h"
#include "cli/number.h"
#include "cli/stream_for_command.h"
#include "cli/text_of_tokens.h"
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

// A run of tokens that belong together.
struct Document {
  uint64_t row;  // sequence, or row of a ragged column
  uint64_t position;  // in it
  uint64_t begin, end;  // of the flattened values
};

class CatCommand final : public Command {
 public:
  explicit CatCommand(FindTextOfTokens find) : find_(std::move(find)) {}

  std::string name() const override { return "cat"; }
  std::string summary() const override { return "look at a step: columns, shapes, first values, text"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_option("--step", step_, "which step")->required()->type_name("N");
    app.add_option_function<uint32_t>("--lane", [this](uint32_t lane) { lane_ = lane; }, "only this lane (all)")->type_name("L");
    app.add_option("--values", values_, "how many values of an array are shown (8)")
        ->type_name("K")
        ->check(CLI::Range(1, 1'000'000'000));
    app.add_option("--tokenizer", tokenizer_, "show the text of tokens by this tokenizer.json (that of the stream's recipe)")
        ->type_name("FILE");
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
    HR_ASSIGN_OR_RETURN(TextOfTokens text, FindText(*log, Deadline::OnlyStop(stop)));
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
      json lane = {{"lane", first + i}, {"columns", columns}};
      if (text) {
        HR_ASSIGN_OR_RETURN(lane["documents"], Documents(console, info.columns, arrays, text));
      }
      lanes.push_back(std::move(lane));
    }
    json answer = {{"step", step_}, {"lanes", lanes}};
    if (!no_text_.empty()) {
      answer["no_text"] = no_text_;
      console.Say(fmt::format("tokens are shown as numbers: {}", no_text_));
    }
    if (console.json()) console.SayJson(answer);
    return kDone;
  }

 private:
  // Nothing if the stream has no tokens, or nobody can tell what they mean: `no_text_` says why then. Carried on by a program that has tokenizers if need be.
  Result<TextOfTokens> FindText(StreamLog& log, const Deadline& deadline) {
    const StreamInfo& info = log.info();
    const bool tokens = std::ranges::any_of(info.columns, [](const Column& column) { return column.name == "tokens"; });
    if (!tokens || (info.recipe.empty() && tokenizer_.empty())) return TextOfTokens();
    Result<TextOfTokens> found = find_ ? find_(log, tokenizer_, deadline) : HandOverToLake("showing the text of tokens");
    if (found.ok()) return found;
    if (!tokenizer_.empty()) return found.status();  // asked for by name
    no_text_ = found.status().message();
    return TextOfTokens();
  }

  Result<json> Documents(const Console& console, const std::vector<Column>& columns, const std::vector<Array>& arrays,
                         const TextOfTokens& text) const {
    const Array *tokens = nullptr, *offsets = nullptr, *cu_seqlens = nullptr, *source = nullptr;
    auto array = arrays.begin();
    for (const Column& column : columns) {
      if (column.name == "tokens") {
        tokens = &*array;
        if (column.kind == Column::kRagged) offsets = &array[1];
      }
      if (column.name == "cu_seqlens") cu_seqlens = &*array;
      if (column.name == "source" && column.kind == Column::kArray) source = &*array;
      array += column.arrays();
    }
    const auto number = [](const Array& values, uint64_t i) { return ToJson(ElementOf(values, i)).get<int64_t>(); };
    std::vector<Document> documents;
    const Array* ends = offsets != nullptr ? offsets : cu_seqlens;
    const uint64_t length = offsets == nullptr && tokens->shape.size() == 2 ? std::max<uint64_t>(1, tokens->shape[1]) : 0;
    if (ends != nullptr) {
      for (uint64_t i = 0; i + 1 < ends->elements() && documents.size() < values_; ++i) {
        // Padding is a segment of its own, of no source.
        if (ends == cu_seqlens && source != nullptr && i < source->elements() && number(*source, i) < 0) continue;
        const auto begin = static_cast<uint64_t>(number(*ends, i)), end = static_cast<uint64_t>(number(*ends, i + 1));
        documents.push_back(length == 0 ? Document{i, 0, begin, end} : Document{begin / length, begin % length, begin, end});
      }
    } else {
      const uint64_t row = length == 0 ? std::max<uint64_t>(1, tokens->elements()) : length;
      for (uint64_t begin = 0; begin < tokens->elements() && documents.size() < values_; begin += row)
        documents.push_back({begin / row, 0, begin, begin + row});
    }
    json shown = json::array();
    for (const Document& document : documents) {
      std::vector<int64_t> ids;
      for (uint64_t i = document.begin; i < std::min(document.end, tokens->elements()); ++i) ids.push_back(number(*tokens, i));
      HR_ASSIGN_OR_RETURN(std::string words, text(ids));
      console.Say(fmt::format("  {} {}, position {}, {} tokens: {}", offsets == nullptr ? "sequence" : "row", document.row,
                              document.position, ids.size(),
                              json(Shown(words)).dump(-1, ' ', false, json::error_handler_t::replace)));
      shown.push_back(
          {{"sequence", document.row}, {"position", document.position}, {"length", ids.size()}, {"text", std::move(words)}});
    }
    return shown;
  }

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

  const FindTextOfTokens find_;
  std::string uri_, tokenizer_;
  std::string no_text_;
  uint64_t step_ = 0;
  std::optional<uint32_t> lane_;
  uint64_t values_ = 8;
};

}  // namespace

std::unique_ptr<Command> MakeCatCommand() { return std::make_unique<CatCommand>(nullptr); }
std::unique_ptr<Command> MakeCatCommandWithText(FindTextOfTokens find) { return std::make_unique<CatCommand>(std::move(find)); }

}  // namespace headrace::cli
