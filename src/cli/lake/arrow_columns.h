// A record batch as the columns of one step.
#pragma once

#include <arrow/record_batch.h>

#include "cli/step_columns.h"

namespace headrace::cli {

// The columns in the stream's order. Every row of the batch is a row of the step.
//
//   an array         numbers, lists that are equally long (fixed-size or not, in any depth), fixed-shape tensors
//   a ragged column  lists of such
//   a bytes column   texts, binaries, lists of uint8
//
// Nothing is copied where the type is the column's own. Refused are missing and unknown names, nulls, and numbers that a column's type
// cannot hold.
Result<std::vector<StepColumn>> StepFromArrow(const arrow::RecordBatch& batch, const std::vector<Column>& columns);

}  // namespace headrace::cli
