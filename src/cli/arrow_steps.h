// Steps of an Arrow IPC file or stream: each record batch is one step.
//
// Only the interface: what reads Arrow is in headrace-lake, so that `headrace` needs no Arrow.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cli/step_columns.h"

namespace headrace::cli {

class ArrowSteps {
 public:
  virtual ~ArrowSteps() = default;
  // The columns of the next batch; nothing at the end. `where` says what an error is about.
  virtual Result<std::optional<std::vector<StepColumn>>> Next() = 0;
  // Passes over the next batch. False if there is none.
  virtual Result<bool> Skip() = 0;
  // The batch that was looked at last, in words.
  virtual std::string where() const = 0;
};

// Does not close `descriptor`, which outlives the steps, as `columns` do. Waiting for bytes ends when `stop` asks for it.
using OpenArrowSteps = std::function<Result<std::unique_ptr<ArrowSteps>>(int descriptor, const std::vector<Column>& columns,
                                                                         const std::stop_token& stop)>;

// How an Arrow IPC file or stream begins, as far as `head` shows it.
bool BeginsLikeArrow(std::string_view head);

}  // namespace headrace::cli
