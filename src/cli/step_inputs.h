// The steps that `append` is given: files and stdin, one after another.
//
// An .npz file is one step, a line of JSON is one step, a record batch of Arrow IPC is one step; empty lines are none. What is wrong with a
// step is told with its file and line or batch.
// Files are opened when their turn comes; a file that is skipped is not looked into.
//
// Not thread-safe. Holds one step.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cli/arrow_steps.h"
#include "headrace/store.h"
#include "stream/stream_info.h"

namespace headrace::cli {

enum class StepFormat { kJsonLines, kNpz, kArrow };

struct StepInput {
  std::string name;  // "-": stdin
  std::optional<StepFormat> format;  // unknown for stdin, until its first bytes are looked at
};

class StepInputs {
 public:
  // Waiting for stdin ends when `stop` asks for it. Without `open_arrow` no input may be Arrow; every format is known.
  StepInputs(std::vector<StepInput> inputs, const StreamInfo& info, std::stop_token stop, OpenArrowSteps open_arrow = {});
  ~StepInputs();
  StepInputs(const StepInputs&) = delete;
  StepInputs& operator=(const StepInputs&) = delete;

  // Looks at the names alone, so that a wrong one is told before anything is written. No files: stdin. `format` is what all of them have;
  // without it a name tells.
  static Result<std::vector<StepInput>> ByName(const std::vector<std::string>& files, std::optional<StepFormat> format);
  // Waits for the first bytes of stdin, takes none, and fills in what is unknown.
  static Status LookAtStdin(std::vector<StepInput>& inputs, const std::stop_token& stop);

  // The cells of the next step, one for each lane; nothing if there is none. kCancelled: `stop` has asked.
  Result<std::optional<std::vector<Body>>> Next();
  // Passes over the next step. False if there is none.
  Result<bool> Skip();

 private:
  // Moves to the next file if need be. False at the end of all.
  Result<bool> Open();
  bool NpzIsNext() const;
  Result<std::optional<std::string>> ReadLine();
  Result<std::vector<StepColumn>> ReadNpzStep(const std::string& name) const;
  Result<std::optional<std::vector<StepColumn>>> ReadLineStep();
  void Close();

  std::vector<StepInput> inputs_;
  const StreamInfo& info_;
  std::stop_token stop_;
  OpenArrowSteps open_arrow_;
  size_t next_input_ = 0;
  std::string name_;  // of the open file
  std::unique_ptr<ArrowSteps> batches_;  // of the open file, if it is Arrow
  int descriptor_ = -1;
  uint64_t line_ = 0;
  std::string buffer_;
  size_t at_ = 0;
  bool ended_ = false;
};

}  // namespace headrace::cli
