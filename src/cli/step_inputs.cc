#include "cli/step_inputs.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/input_descriptor.h"
#include "cli/step_columns.h"

namespace headrace::cli {
namespace {

constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kLongestLine = size_t{1} << 30;

std::optional<StepFormat> FormatByName(std::string_view name) {
  std::string lower = Lower(name);
  auto ends = [&](std::initializer_list<std::string_view> endings) {
    return std::ranges::any_of(endings, [&](std::string_view ending) { return lower.ends_with(ending); });
  };
  if (ends({".npz"})) return StepFormat::kNpz;
  if (ends({".jsonl", ".ndjson"})) return StepFormat::kJsonLines;
  if (ends({".arrow", ".arrows", ".ipc", ".feather"})) return StepFormat::kArrow;
  return std::nullopt;
}

Result<Bytes> ReadWhole(const std::string& name) {
  int descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return Status(Code::kNotFound, fmt::format("cannot read {}: {}", name, std::strerror(errno)));
  std::string text;
  while (true) {
    size_t at = text.size();
    text.resize(at + kReadBytes);
    ssize_t got = read(descriptor, text.data() + at, kReadBytes);
    if (got < 0 && errno == EINTR)
      got = 0;
    else if (got <= 0) {
      int error = errno;
      close(descriptor);
      text.resize(at);
      if (got < 0) return Status(Code::kUnavailable, fmt::format("cannot read {}: {}", name, std::strerror(error)));
      return Bytes::FromString(std::move(text));
    }
    text.resize(at + static_cast<size_t>(got));
  }
}

}  // namespace

bool BeginsLikeArrow(std::string_view head) {
  constexpr std::string_view kFile = "ARROW1", kStream = "\xFF\xFF\xFF\xFF";
  return !head.empty() && std::ranges::any_of(std::initializer_list{kFile, kStream}, [&](std::string_view magic) {
    return head.substr(0, magic.size()) == magic.substr(0, head.size());
  });
}

StepInputs::StepInputs(std::vector<StepInput> inputs, const StreamInfo& info, std::stop_token stop, OpenArrowSteps open_arrow)
    : inputs_(std::move(inputs)), info_(info), stop_(std::move(stop)), open_arrow_(std::move(open_arrow)) {}

StepInputs::~StepInputs() { Close(); }

Result<std::vector<StepInput>> StepInputs::ByName(const std::vector<std::string>& files, std::optional<StepFormat> format) {
  std::vector<StepInput> inputs;
  for (const std::string& name : files) inputs.push_back({name, format ? format : FormatByName(name)});
  if (inputs.empty()) inputs.push_back({"-", format});
  for (const StepInput& input : inputs) {
    if (input.name == "-" && input.format == StepFormat::kNpz)
      return Status(Code::kInvalidArgument, "an .npz is read from a file, not from stdin: give its name");
    if (input.name == "-" || input.format) continue;
    return Status(
        Code::kInvalidArgument,
        fmt::format("cannot tell what {} is by its name: steps come from .npz, .jsonl and .arrow files, or - for stdin; "
                    "--format says what files with other names are",
                    input.name));
  }
  return inputs;
}

Status StepInputs::LookAtStdin(std::vector<StepInput>& inputs, const std::stop_token& stop) {
  for (StepInput& input : inputs) {
    if (input.format) continue;
    HR_ASSIGN_OR_RETURN(std::string head, PeekWhenReady(STDIN_FILENO, 6, stop));
    input.format = BeginsLikeArrow(head) ? StepFormat::kArrow : StepFormat::kJsonLines;
  }
  return {};
}

void StepInputs::Close() {
  batches_.reset();
  if (descriptor_ > STDIN_FILENO) close(descriptor_);
  descriptor_ = -1;
}

Result<bool> StepInputs::Open() {
  if (descriptor_ >= 0) return true;
  if (next_input_ == inputs_.size()) return false;
  const StepInput& input = inputs_[next_input_++];
  name_ = input.name;
  line_ = 0;
  at_ = 0;
  buffer_.clear();
  ended_ = false;
  descriptor_ = name_ == "-" ? STDIN_FILENO : open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) return Status(Code::kNotFound, fmt::format("cannot read {}: {}", name_, std::strerror(errno)));
  if (name_ == "-") name_ = "stdin";
  if (input.format != StepFormat::kArrow) return true;
  Result<std::unique_ptr<ArrowSteps>> batches = open_arrow_(descriptor_, info_.columns, stop_);
  if (!batches.ok()) return batches.status().Annotate(name_);
  batches_ = *std::move(batches);
  return true;
}

Result<std::optional<std::string>> StepInputs::ReadLine() {
  size_t searched = at_;
  while (true) {
    size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (ended_ && at_ < buffer_.size())) {
      end = std::min(end, buffer_.size());
      std::string line = buffer_.substr(at_, end - at_);
      at_ = std::min(end + 1, buffer_.size());
      ++line_;
      return std::optional(std::move(line));
    }
    if (ended_) return std::optional<std::string>();
    buffer_.erase(0, at_);
    at_ = 0;
    searched = buffer_.size();
    if (buffer_.size() > kLongestLine)
      return Status(Code::kInvalidArgument, fmt::format("{}, line {}: longer than 1 GiB", name_, line_ + 1));
    buffer_.resize(searched + kReadBytes);
    Result<size_t> got = ReadWhenReady(descriptor_, std::span(buffer_).subspan(searched), name_, stop_);
    buffer_.resize(searched + (got.ok() ? *got : 0));
    if (!got.ok()) return got.status();
    ended_ = *got == 0;
  }
}

bool StepInputs::NpzIsNext() const {
  return descriptor_ < 0 && next_input_ < inputs_.size() && inputs_[next_input_].format == StepFormat::kNpz;
}

Result<bool> StepInputs::Skip() {
  while (true) {
    if (NpzIsNext()) {
      ++next_input_;
      return true;
    }
    HR_ASSIGN_OR_RETURN(bool open, Open());
    if (!open) return false;
    if (batches_) {
      Result<bool> skipped = batches_->Skip();
      if (!skipped.ok()) return skipped.status().Annotate(fmt::format("{}, {}", name_, batches_->where()));
      if (*skipped) return true;
      Close();
      continue;
    }
    HR_ASSIGN_OR_RETURN(std::optional<std::string> line, ReadLine());
    if (line && !Trim(*line).empty()) return true;
    if (!line) Close();
  }
}

Result<std::vector<StepColumn>> StepInputs::ReadNpzStep(const std::string& name) const {
  HR_ASSIGN_OR_RETURN(Bytes file, ReadWhole(name));
  Result<std::vector<NpyArray>> arrays = ReadNpz(file);
  if (!arrays.ok()) return arrays.status().Annotate(name);
  Result<std::vector<StepColumn>> step = StepFromNpz(*arrays, info_.columns);
  if (!step.ok()) return step.status().Annotate(name);
  return step;
}

Result<std::optional<std::vector<StepColumn>>> StepInputs::ReadLineStep() {
  HR_ASSIGN_OR_RETURN(std::optional<std::string> line, ReadLine());
  while (line && Trim(*line).empty()) {
    HR_ASSIGN_OR_RETURN(line, ReadLine());
  }
  if (!line) return std::optional<std::vector<StepColumn>>();
  nlohmann::json object = nlohmann::json::parse(*line, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) {
    return Status(Code::kInvalidArgument, fmt::format("{}, line {}: it is not JSON: {}", name_, line_, line->substr(0, 60)));
  }
  Result<std::vector<StepColumn>> step = StepFromJson(object, info_.columns);
  if (!step.ok()) return step.status().Annotate(fmt::format("{}, line {}", name_, line_));
  return std::optional(*std::move(step));
}

Result<std::optional<std::vector<Body>>> StepInputs::Next() {
  using Cells = std::optional<std::vector<Body>>;
  while (true) {
    if (stop_.stop_requested()) return Status(Code::kCancelled, "reading was stopped");
    std::optional<std::vector<StepColumn>> step;
    std::string where;
    if (NpzIsNext()) {
      where = inputs_[next_input_++].name;
      HR_ASSIGN_OR_RETURN(step, ReadNpzStep(where));
    } else {
      HR_ASSIGN_OR_RETURN(bool open, Open());
      if (!open) return Cells();
      if (batches_) {
        Result<std::optional<std::vector<StepColumn>>> batch = batches_->Next();
        where = fmt::format("{}, {}", name_, batches_->where());
        if (!batch.ok()) return batch.status().Annotate(where);
        step = *std::move(batch);
      } else {
        HR_ASSIGN_OR_RETURN(step, ReadLineStep());
        where = fmt::format("{}, line {}", name_, line_);
      }
      if (!step) {
        Close();
        continue;
      }
    }
    Result<std::vector<Body>> cells = SplitOverLanes(*step, info_);
    if (!cells.ok()) return cells.status().Annotate(where);
    return Cells(*std::move(cells));
  }
}

}  // namespace headrace::cli
