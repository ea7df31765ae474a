// The columns of a window as the constructor reads them: lists of numbers, byte strings and numbers, whatever Arrow calls them. Arrow packs eight
// truths into a byte; here each has a byte of its own, as in a stream.
#pragma once

#include <arrow/array.h>
#include <arrow/record_batch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/array.h"
#include "headrace/result.h"
#include "headrace/stream_info.h"

namespace headrace {

// Of Arrow's numbers and truths; nothing for what a stream has no type for.
std::optional<Dtype> DtypeOf(arrow::Type::type type);

// One column: for each row a run of elements (lists and strings) or one element (numbers).
class RowColumn {
 public:
  // kUnsupported names the column and its type.
  static Result<RowColumn> Of(const arrow::RecordBatch& batch, const std::string& name);
  static bool Has(const arrow::RecordBatch& batch, const std::string& name) { return batch.schema()->GetFieldIndex(name) >= 0; }

  Column::Kind kind() const { return kind_; }
  Dtype dtype() const { return dtype_; }  // of the elements
  int64_t begin(int64_t row) const;
  int64_t length(int64_t row) const;
  // The elements as they lie in memory.
  const std::byte* data() const { return values_; }
  size_t width() const { return DtypeBytes(dtype_); }
  double Number(int64_t row) const;  // of a column of numbers; NaN if there is none

  // `count` integers of the row from `start` on, as `to`; false if one does not fit.
  bool CopyIntegers(int64_t row, int64_t start, int64_t count, Dtype to, std::byte* out) const;

 private:
  std::shared_ptr<arrow::Array> array_;
  std::shared_ptr<const std::vector<uint8_t>> truths_;  // what `values_` points to, of a column of truths
  Column::Kind kind_ = Column::kArray;
  Dtype dtype_ = Dtype::kI32;
  const std::byte* values_ = nullptr;
  const int32_t* offsets32_ = nullptr;
  const int64_t* offsets64_ = nullptr;
  int64_t fixed_ = 1;
  int64_t shift_ = 0;  // of the first row, where there are no offsets
};

}  // namespace headrace
