#include "transform/batch.h"

#include <arrow/array.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/initialize.h>
#include <arrow/datum.h>
#include <arrow/type.h>

#include <set>
#include <utility>

#include "base/text.h"

namespace headrace {
namespace {

Result<BatchPointer> Take(const BatchPointer& batch, const std::shared_ptr<arrow::Array>& rows) {
  // Without this there is no kernel to be found where arrow_compute is a library of its own.
  static const arrow::Status kernels = arrow::compute::Initialize();
  HR_RETURN_IF_ERROR(CannotDo(kernels, "start Arrow's compute kernels"));
  HR_ASSIGN_OR_RETURN_ARROW(arrow::Datum taken, arrow::compute::Take(batch, rows, arrow::compute::TakeOptions::NoBoundsCheck()),
                            "take rows of a batch");
  return taken.record_batch();
}

const arrow::Int32Array* FilesOf(const arrow::RecordBatch& batch) {
  auto column = batch.GetColumnByName(std::string(kFileColumn));
  return column && column->type_id() == arrow::Type::INT32 ? static_cast<const arrow::Int32Array*>(column.get()) : nullptr;
}

const arrow::Int64Array* RowsOf(const arrow::RecordBatch& batch) {
  auto column = batch.GetColumnByName(std::string(kRowColumn));
  return column && column->type_id() == arrow::Type::INT64 ? static_cast<const arrow::Int64Array*>(column.get()) : nullptr;
}

}  // namespace

Status CannotDo(const arrow::Status& status, std::string_view doing) {
  if (status.ok()) return Status::Ok();
  Code code = status.IsOutOfMemory() ? Code::kFull : status.IsIOError() ? Code::kUnavailable : Code::kInvalidArgument;
  return Status(code, Cat("cannot ", doing, ": ", status.message()));
}

std::string ColumnNames(const arrow::RecordBatch& batch) {
  std::string names;
  for (int i = 0; i < batch.num_columns(); i++) names += Cat(i == 0 ? "" : ", ", batch.schema()->field(i)->name());
  return names.empty() ? "none" : names;
}

Result<BatchPointer> TakeRows(const BatchPointer& batch, const std::vector<int64_t>& rows) {
  auto indices = std::make_shared<arrow::Int64Array>(static_cast<int64_t>(rows.size()), arrow::Buffer::Wrap(rows));
  return Take(batch, indices);
}

Result<BatchPointer> WithoutRows(const BatchPointer& batch, const std::vector<BadRow>& bad) {
  if (bad.empty()) return batch;
  std::vector<int64_t> rows;
  rows.reserve(batch->num_rows() - bad.size());
  size_t next = 0;
  for (int64_t row = 0; row < batch->num_rows(); row++) {
    if (next < bad.size() && bad[next].row == row) {
      next++;
    } else {
      rows.push_back(row);
    }
  }
  return TakeRows(batch, rows);
}

BatchPointer AllBad(const BatchPointer& batch, const std::string& why, std::vector<BadRow>& bad) {
  for (int64_t row = 0; row < batch->num_rows(); row++) bad.push_back({row, why});
  return batch->Slice(0, 0);
}

Result<BatchPointer> WithColumn(const BatchPointer& batch, const std::string& name, std::shared_ptr<arrow::Array> column) {
  auto field = arrow::field(name, column->type(), column->null_count() > 0);
  int index = batch->schema()->GetFieldIndex(name);
  if (index >= 0) {
    HR_ASSIGN_OR_RETURN_ARROW(auto changed, batch->SetColumn(index, field, column), Cat("replace the column ", name));
    return changed;
  }
  HR_ASSIGN_OR_RETURN_ARROW(auto changed, batch->AddColumn(batch->num_columns(), field, column), Cat("add the column ", name));
  return changed;
}

Result<BatchPointer> WithoutColumn(const BatchPointer& batch, const std::string& name) {
  int index = batch->schema()->GetFieldIndex(name);
  if (index < 0) return batch;
  HR_ASSIGN_OR_RETURN_ARROW(auto changed, batch->RemoveColumn(index), Cat("leave out the column ", name));
  return changed;
}

std::string OriginOf(const arrow::RecordBatch& batch, int64_t row) {
  const auto* files = FilesOf(batch);
  const auto* rows = RowsOf(batch);
  if (files == nullptr || rows == nullptr || row >= batch.num_rows()) return Cat("row ", row, " of the batch");
  return Cat("file ", files->Value(row), ", row ", rows->Value(row));
}

int64_t RowWithOrigin(const arrow::RecordBatch& batch, const arrow::RecordBatch& later, int64_t row) {
  const auto *files = FilesOf(batch), *later_files = FilesOf(later);
  const auto *rows = RowsOf(batch), *later_rows = RowsOf(later);
  if (files == nullptr || rows == nullptr || later_files == nullptr || later_rows == nullptr) return 0;
  for (int64_t i = 0; i < batch.num_rows(); i++) {
    if (files->Value(i) == later_files->Value(row) && rows->Value(i) == later_rows->Value(row)) return i;
  }
  return 0;
}

Result<BatchPointer> WithOrigins(const BatchPointer& before, const BatchPointer& after) {
  const std::string file_column(kFileColumn), row_column(kRowColumn);
  std::set<std::string> names;
  for (const auto& field : after->schema()->fields()) {
    if (!names.insert(field->name()).second) {
      return Status(Code::kInvalidArgument, Cat("the returned batch has two columns named ", field->name()));
    }
  }
  if (names.contains(file_column) && names.contains(row_column)) {
    const auto* files = FilesOf(*after);
    const auto* rows = RowsOf(*after);
    if (files == nullptr || rows == nullptr || files->null_count() > 0 || rows->null_count() > 0) {
      return Status(Code::kInvalidArgument,
                    "the returned batch has other types or nulls in __file (int32) and __row (int64), which say where a row "
                    "comes from: return them as they came");
    }
    const auto* known_files = FilesOf(*before);
    const auto* known_rows = RowsOf(*before);
    if (known_files == nullptr || known_rows == nullptr) return after;
    std::set<std::pair<int32_t, int64_t>> known;
    for (int64_t i = 0; i < before->num_rows(); i++) known.emplace(known_files->Value(i), known_rows->Value(i));
    for (int64_t i = 0; i < after->num_rows(); i++) {
      if (!known.contains({files->Value(i), rows->Value(i)})) {
        return Status(Code::kInvalidArgument, Cat("row ", i, " of the returned batch says that it comes from ",
                                                  OriginOf(*after, i), ", which was not in the batch"));
      }
    }
    return after;
  }
  if (after->num_rows() != before->num_rows()) {
    return Status(
        Code::kInvalidArgument,
        Cat("it returned ", after->num_rows(), " rows for ", before->num_rows(),
            " without the columns __file and __row, so nobody can tell which rows they are: keep these two columns with the rows"));
  }
  BatchPointer batch = after;
  for (const auto& name : {file_column, row_column}) {
    if (auto column = before->GetColumnByName(name)) {
      HR_ASSIGN_OR_RETURN(batch, WithColumn(batch, name, column));
    }
  }
  return batch;
}

}  // namespace headrace
