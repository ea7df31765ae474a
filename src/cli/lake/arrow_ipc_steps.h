// Steps of an Arrow IPC file or stream, read with Arrow.
//
// A file whose descriptor can be sought is read batch by batch from its footer, so that skipping costs nothing; anything else is read as it
// comes, a file from a pipe too. Nulls, types that are no numbers, and bytes that are damaged or cut short are refused.
#pragma once

#include "cli/arrow_steps.h"

namespace headrace::cli {

Result<std::unique_ptr<ArrowSteps>> OpenArrowIpcSteps(int descriptor, const std::vector<Column>& columns,
                                                      const std::stop_token& stop);

}  // namespace headrace::cli
