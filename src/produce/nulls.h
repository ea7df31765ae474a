// A null is no value: 0, "" or [] in its place would be trained on. So a row with a null in what the stream is to hold is a bad one, like a row
// that cannot be read. So is one with a number among its tokens that is no token: below 0, or 2^31 and above.
#pragma once

#include <arrow/record_batch.h>

#include <memory>
#include <string>
#include <vector>

#include "headrace/result.h"
#include "recipe/recipe.h"
#include "source/source_loader.h"

namespace headrace {

// `rows`, made from `batch` by the transforms, without those that have a null in a column that becomes part of the stream or of a sample's cost, nor
// one among the elements of a list there. Nor those whose tokens are none. All of them are named in `bad` by the rows of `batch`, each once.
Result<std::shared_ptr<arrow::RecordBatch>> WithoutNulls(const Recipe& recipe, const arrow::RecordBatch& batch,
                                                         const std::shared_ptr<arrow::RecordBatch>& rows,
                                                         std::vector<BadRow>& bad);

}  // namespace headrace
