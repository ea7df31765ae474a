// Small things that every transform does with a record batch.
#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/status.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/result.h"
#include "source/source_loader.h"

namespace headrace {

inline constexpr std::string_view kFileColumn = "__file";
inline constexpr std::string_view kRowColumn = "__row";

using BatchPointer = std::shared_ptr<arrow::RecordBatch>;

Status CannotDo(const arrow::Status& status, std::string_view doing);

// `target` gets the value of an arrow::Result; or the function is left with "cannot <doing>: …".
#define HR_ASSIGN_OR_RETURN_ARROW(target, expression, doing) \
  HR_ASSIGN_OR_RETURN_ARROW_INNER(HR_CONCAT(hr_arrow_, __LINE__), target, expression, doing)
#define HR_ASSIGN_OR_RETURN_ARROW_INNER(result, target, expression, doing) \
  auto result = (expression);                                              \
  if (!result.ok()) return ::headrace::CannotDo(result.status(), doing);   \
  target = std::move(result).ValueUnsafe()

// "a, b and __row": for messages.
std::string ColumnNames(const arrow::RecordBatch& batch);

// The batch without the rows named in `bad`, which are in ascending order.
Result<BatchPointer> WithoutRows(const BatchPointer& batch, const std::vector<BadRow>& bad);
// Only those rows, which are in ascending order.
Result<BatchPointer> TakeRows(const BatchPointer& batch, const std::vector<int64_t>& rows);

// Every row is bad for the same reason: what a transform answers whose column is not there.
BatchPointer AllBad(const BatchPointer& batch, const std::string& why, std::vector<BadRow>& bad);

// The batch with `column` in the place of the one of that name, or behind the others.
Result<BatchPointer> WithColumn(const BatchPointer& batch, const std::string& name, std::shared_ptr<arrow::Array> column);
Result<BatchPointer> WithoutColumn(const BatchPointer& batch, const std::string& name);

// "file 3, row 17": where row `row` of the batch comes from, as far as its columns tell.
std::string OriginOf(const arrow::RecordBatch& batch, int64_t row);
// The row of `batch` with the same origin as row `row` of `later`, which was made of it; 0 if there is none.
int64_t RowWithOrigin(const arrow::RecordBatch& batch, const arrow::RecordBatch& later, int64_t row);

// What Python made of `before`, with its origins: those that it carries itself have to be some of `before`'s; where it carries none, it has to
// have as many rows.
Result<BatchPointer> WithOrigins(const BatchPointer& before, const BatchPointer& after);

}  // namespace headrace
