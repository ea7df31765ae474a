// `headrace create STREAM`: a stream that other programs fill.

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/stream_for_command.h"
#include "headrace/stream.h"

namespace headrace::cli {
namespace {

Result<Column> ParseColumn(std::string_view text) {
  std::vector<std::string> words = Split(text, ':');
  for (std::string& word : words) word = std::string(Trim(word));
  Column column;
  column.name = words[0];
  if (words.size() == 2 && words[1] == "bytes") {
    column.kind = Column::kBytes;
    column.dtype = Dtype::kU8;
    return column;
  }
  if (words.size() == 3 && words[1] == "ragged") {
    column.kind = Column::kRagged;
  } else if (words.size() != 2) {
    return Status(Code::kInvalidArgument,
                  fmt::format("\"{}\" is no column: write name:type, name:ragged:type or name:bytes", text));
  }
  HR_ASSIGN_OR_RETURN(column.dtype, ParseDtype(words.back()));
  return column;
}

Result<std::vector<Column>> ParseColumns(std::string_view text) {
  std::vector<Column> columns;
  for (const std::string& part : Split(text, ',')) {
    HR_ASSIGN_OR_RETURN(Column column, ParseColumn(Trim(part)));
    columns.push_back(std::move(column));
  }
  return columns;
}

class CreateCommand final : public Command {
 public:
  std::string name() const override { return "create"; }
  std::string summary() const override { return "make an empty stream, which `append` and other programs fill"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_option("--lanes", options_.lanes, "shares of a step; the ranks that read it are a divisor of this")
        ->required()
        ->type_name("L")
        ->check(CLI::Range(1u, StreamInfo::kMaxLanes));
    app.add_option("--strands", options_.strands, "the most processes that can ever append at once")
        ->required()
        ->type_name("V")
        ->check(CLI::Range(1u, StreamInfo::kMaxStrands));
    app.add_option_function<std::string>(
           "--columns",
           [this](const std::string& text) {
             Result<std::vector<Column>> columns = ParseColumns(text);
             if (!columns.ok()) throw CLI::ValidationError("--columns", columns.status().message());
             StreamInfo info;
             info.columns = *std::move(columns);
             if (Status checked = info.Check(); !checked.ok()) throw CLI::ValidationError("--columns", checked.message());
             options_.columns = std::move(info.columns);
           },
           "what every lane of a step holds: \"name:type,…\"; also name:ragged:type (rows of any length), name:bytes")
        ->required()
        ->type_name("LIST");
    app.add_option("--order", order_, "planned: the same steps whatever the timing; arrival: first come, first served (planned)")
        ->type_name("ORDER")
        ->check(CLI::IsMember({"planned", "arrival"}));
    app.add_option_function<uint32_t>(
           "--block-steps", [this](uint32_t steps) { options_.blocks = BlockSizes::Even(steps); },
           "how many steps are committed together (1)")
        ->type_name("K")
        ->check(CLI::Range(1u, 65536u));
    app.add_flag_callback("--no-probe", [this] { options_.probe = false; }, "do not try whether the store is safe to commit to");
    app.footer(
        "Types: uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 bool. All of this is fixed for the\n"
        "life of the stream. The store is probed first (as `headrace probe` does), and one that lies is refused.\n"
        "\n"
        "  headrace create /data/live --lanes 8 --strands 4 --order arrival --columns \"tokens:int32,mask:bool\"\n"
        "  headrace create s3://bucket/live --lanes 64 --strands 16 --columns \"ids:ragged:int64,text:bytes\" --block-steps 8");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(OpenedStore opened, OpenForCommand(uri_));
    if (opened.uri.scheme == StoreUri::Scheme::kS3) HR_RETURN_IF_ERROR(Reach(opened, stop));
    options_.order = order_ == "arrival" ? Order::kArrival : Order::kPlanned;
    Progress progress;
    options_.on_probe = [&](std::string_view title, int done, int of) {
      progress.Show(title, static_cast<double>(done) / std::max(1, of));
    };
    HR_ASSIGN_OR_RETURN(Stream stream, Stream::Create(uri_, options_, Deadline::OnlyStop(stop)));
    progress.Clear();
    const StreamInfo& info = stream.info();
    std::string uuid = UuidText(info.uuid);
    if (console.json()) {
      console.SayJson(
          {{"uuid", uuid}, {"stream", stream.Describe()}, {"lanes", info.lanes}, {"strands", info.strands}, {"order", order_}});
    }
    console.Say(uuid);
    return kDone;
  }

 private:
  std::string uri_;
  StreamOptions options_;
  std::string order_ = "planned";
};

}  // namespace

std::unique_ptr<Command> MakeCreateCommand() { return std::make_unique<CreateCommand>(); }

}  // namespace headrace::cli
