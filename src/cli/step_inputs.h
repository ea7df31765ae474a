// The steps that `append` is given: files and stdin, one after another.
//
// An .npz file is one step, a line of JSON is one step; empty lines are none. What is wrong with a step is told with its file and line.
// Files are opened when their turn comes; a file that is skipped is not looked into.
//
// Not thread-safe. Holds one step.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "headrace/store.h"
#include "stream/stream_info.h"

namespace headrace::cli {

class StepInputs {
 public:
  // No files, or "-": stdin. Waiting for stdin ends when `stop` asks for it.
  StepInputs(std::vector<std::string> files, const StreamInfo& info, std::stop_token stop);
  ~StepInputs();
  StepInputs(const StepInputs&) = delete;
  StepInputs& operator=(const StepInputs&) = delete;

  // Looks at the names alone, so that a wrong one is told before anything is written.
  static Status CheckNames(const std::vector<std::string>& files);

  // The cells of the next step, one for each lane; nothing if there is none. kCancelled: `stop` has asked.
  Result<std::optional<std::vector<Body>>> Next();
  // Passes over the next step. False if there is none.
  Result<bool> Skip();

 private:
  // Moves to the next file if need be. False at the end of all.
  Result<bool> Open();
  Result<std::optional<std::string>> ReadLine();
  void Close();

  std::vector<std::string> files_;
  const StreamInfo& info_;
  std::stop_token stop_;
  size_t next_file_ = 0;
  std::string name_;  // of the open file
  int descriptor_ = -1;
  uint64_t line_ = 0;
  std::string buffer_;
  size_t at_ = 0;
  bool ended_ = false;
};

}  // namespace headrace::cli
