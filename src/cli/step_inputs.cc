#include "cli/step_inputs.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/step_columns.h"

namespace headrace::cli {
namespace {

constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kLongestLine = size_t{1} << 30;
constexpr int kPollMilliseconds = 100;

bool IsNpz(std::string_view name) { return Lower(name).ends_with(".npz"); }

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

StepInputs::StepInputs(std::vector<std::string> files, const StreamInfo& info, std::stop_token stop)
    : files_(std::move(files)), info_(info), stop_(std::move(stop)) {
  if (files_.empty()) files_.emplace_back("-");
}

StepInputs::~StepInputs() { Close(); }

Status StepInputs::CheckNames(const std::vector<std::string>& files) {
  for (const std::string& name : files) {
    std::string lower = Lower(name);
    auto ends = [&](std::initializer_list<std::string_view> endings) {
      return std::ranges::any_of(endings, [&](std::string_view ending) { return lower.ends_with(ending); });
    };
    if (name == "-" || ends({".npz", ".jsonl", ".ndjson"})) continue;
    if (ends({".arrow", ".arrows", ".ipc", ".feather"})) {
      return Status(
          Code::kUnsupported,
          fmt::format("{} is Arrow IPC, which a later version will read; write .npz (numpy.savez) or JSON lines", name));
    }
    return Status(Code::kInvalidArgument,
                  fmt::format("cannot tell what {} is by its name: steps come from .npz files, .jsonl files, or - for JSON "
                              "lines on stdin",
                              name));
  }
  return {};
}

void StepInputs::Close() {
  if (descriptor_ > STDIN_FILENO) close(descriptor_);
  descriptor_ = -1;
}

Result<bool> StepInputs::Open() {
  if (descriptor_ >= 0) return true;
  if (next_file_ == files_.size()) return false;
  name_ = files_[next_file_++];
  line_ = 0;
  at_ = 0;
  buffer_.clear();
  ended_ = false;
  descriptor_ = name_ == "-" ? STDIN_FILENO : open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) return Status(Code::kNotFound, fmt::format("cannot read {}: {}", name_, std::strerror(errno)));
  if (name_ == "-") name_ = "stdin";
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
    // A terminal or pipe may have nothing to say for a long time, and Ctrl-C does not end a read.
    struct pollfd wait = {descriptor_, POLLIN, 0};
    // The signal itself ends a poll early, before anybody has asked to stop.
    for (int ready = 0; ready == 0 || (ready < 0 && errno == EINTR); ready = poll(&wait, 1, kPollMilliseconds)) {
      if (stop_.stop_requested()) return Status(Code::kCancelled, "reading was stopped");
    }
    if (stop_.stop_requested()) return Status(Code::kCancelled, "reading was stopped");
    buffer_.resize(searched + kReadBytes);
    ssize_t got = read(descriptor_, buffer_.data() + searched, kReadBytes);
    buffer_.resize(searched + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) ended_ = true;
    if (got < 0 && errno != EINTR)
      return Status(Code::kUnavailable, fmt::format("cannot read {}: {}", name_, std::strerror(errno)));
  }
}

Result<bool> StepInputs::Skip() {
  while (true) {
    if (descriptor_ < 0 && next_file_ < files_.size() && IsNpz(files_[next_file_])) {
      ++next_file_;
      return true;
    }
    HR_ASSIGN_OR_RETURN(bool open, Open());
    if (!open) return false;
    HR_ASSIGN_OR_RETURN(std::optional<std::string> line, ReadLine());
    if (line && !Trim(*line).empty()) return true;
    if (!line) Close();
  }
}

Result<std::optional<std::vector<Body>>> StepInputs::Next() {
  using Cells = std::optional<std::vector<Body>>;
  while (true) {
    if (stop_.stop_requested()) return Status(Code::kCancelled, "reading was stopped");
    std::vector<StepColumn> columns;
    std::string where;
    if (descriptor_ < 0 && next_file_ < files_.size() && IsNpz(files_[next_file_])) {
      where = files_[next_file_++];
      HR_ASSIGN_OR_RETURN(Bytes file, ReadWhole(where));
      Result<std::vector<NpyArray>> arrays = ReadNpz(file);
      if (!arrays.ok()) return arrays.status().Annotate(where);
      Result<std::vector<StepColumn>> step = StepFromNpz(*arrays, info_.columns);
      if (!step.ok()) return step.status().Annotate(where);
      columns = *std::move(step);
    } else {
      HR_ASSIGN_OR_RETURN(bool open, Open());
      if (!open) return Cells();
      HR_ASSIGN_OR_RETURN(std::optional<std::string> line, ReadLine());
      if (!line) Close();
      if (!line || Trim(*line).empty()) continue;
      where = fmt::format("{}, line {}", name_, line_);
      nlohmann::json object = nlohmann::json::parse(*line, nullptr, /*allow_exceptions=*/false);
      if (object.is_discarded())
        return Status(Code::kInvalidArgument, fmt::format("{}: it is not JSON: {}", where, line->substr(0, 60)));
      Result<std::vector<StepColumn>> step = StepFromJson(object, info_.columns);
      if (!step.ok()) return step.status().Annotate(where);
      columns = *std::move(step);
    }
    Result<std::vector<Body>> cells = SplitOverLanes(columns, info_);
    if (!cells.ok()) return cells.status().Annotate(where);
    return Cells(*std::move(cells));
  }
}

}  // namespace headrace::cli
