#include "transform/filter.h"

#include <arrow/array.h>
#include <arrow/compute/cast.h>
#include <arrow/compute/initialize.h>
#include <arrow/util/float16.h>

#include <functional>
#include <utility>

#include "base/text.h"
#include "transform/batch.h"

namespace headrace {
namespace {

using Read = std::function<Value(int64_t)>;

template <typename ArrayType>
Read Numbers(const arrow::Array& column) {
  const auto& typed = static_cast<const ArrayType&>(column);
  return [&typed](int64_t row) -> Value { return static_cast<double>(typed.Value(row)); };
}

template <typename ArrayType>
Read Texts(const arrow::Array& column) {
  const auto& typed = static_cast<const ArrayType&>(column);
  return [&typed](int64_t row) -> Value { return std::string_view(typed.GetView(row)); };
}

template <typename ArrayType>
Read Lengths(const arrow::Array& column) {
  const auto& typed = static_cast<const ArrayType&>(column);
  return [&typed](int64_t row) -> Value { return static_cast<double>(typed.value_length(row)); };
}

// How to read a value of the column, or its length; nothing for a type that an expression cannot use so.
Read ReaderOf(const arrow::Array& column, bool length) {
  switch (column.type_id()) {
    case arrow::Type::STRING: return Texts<arrow::StringArray>(column);
    case arrow::Type::LARGE_STRING: return Texts<arrow::LargeStringArray>(column);
    case arrow::Type::STRING_VIEW: return Texts<arrow::StringViewArray>(column);
    case arrow::Type::BINARY: return Texts<arrow::BinaryArray>(column);
    case arrow::Type::LARGE_BINARY: return Texts<arrow::LargeBinaryArray>(column);
    case arrow::Type::NA: return [](int64_t) -> Value { return std::monostate(); };
    default: break;
  }
  if (length) {
    switch (column.type_id()) {
      case arrow::Type::LIST: return Lengths<arrow::ListArray>(column);
      case arrow::Type::LARGE_LIST: return Lengths<arrow::LargeListArray>(column);
      case arrow::Type::FIXED_SIZE_LIST: return Lengths<arrow::FixedSizeListArray>(column);
      case arrow::Type::MAP: return Lengths<arrow::MapArray>(column);
      default: return nullptr;
    }
  }
  switch (column.type_id()) {
    case arrow::Type::BOOL: {
      const auto& typed = static_cast<const arrow::BooleanArray&>(column);
      return [&typed](int64_t row) -> Value { return typed.Value(row); };
    }
    case arrow::Type::INT8: return Numbers<arrow::Int8Array>(column);
    case arrow::Type::INT16: return Numbers<arrow::Int16Array>(column);
    case arrow::Type::INT32: return Numbers<arrow::Int32Array>(column);
    case arrow::Type::INT64: return Numbers<arrow::Int64Array>(column);
    case arrow::Type::UINT8: return Numbers<arrow::UInt8Array>(column);
    case arrow::Type::UINT16: return Numbers<arrow::UInt16Array>(column);
    case arrow::Type::UINT32: return Numbers<arrow::UInt32Array>(column);
    case arrow::Type::UINT64: return Numbers<arrow::UInt64Array>(column);
    case arrow::Type::FLOAT: return Numbers<arrow::FloatArray>(column);
    case arrow::Type::DOUBLE: return Numbers<arrow::DoubleArray>(column);
    case arrow::Type::HALF_FLOAT: {
      const auto& typed = static_cast<const arrow::HalfFloatArray&>(column);
      return [&typed](int64_t row) -> Value {
        return static_cast<double>(arrow::util::Float16::FromBits(typed.Value(row)).ToFloat());
      };
    }
    default: return nullptr;
  }
}

class Filter final : public Transform {
 public:
  explicit Filter(Expression expression) : expression_(std::move(expression)) {}

  Result<BatchPointer> Apply(const BatchPointer& batch, uint64_t, std::vector<BadRow>& bad) override {
    std::vector<std::shared_ptr<arrow::Array>> columns;
    std::vector<Read> readers;
    for (size_t i = 0; i < expression_.columns().size(); i++) {
      const std::string& name = expression_.columns()[i];
      auto column = batch->GetColumnByName(name);
      if (!column)
        return AllBad(batch, Cat("has no column '", name, "', which the filter asks for; it has ", ColumnNames(*batch)), bad);
      if (column->type_id() == arrow::Type::DICTIONARY) {
        HR_ASSIGN_OR_RETURN_ARROW(
            column, arrow::compute::Cast(*column, static_cast<const arrow::DictionaryType&>(*column->type()).value_type()),
            Cat("read the column ", name));
      }
      Read reader = ReaderOf(*column, expression_.is_length(i));
      if (!reader) {
        return Status(Code::kInvalidArgument,
                      Cat("the filter \"", expression_.text(), "\" cannot use the column '", name, "', which is ",
                          column->type()->ToString(),
                          expression_.is_length(i) ? ": it has no length"
                                                   : ": it is no truth, number or text; `length(…)` is one of a list"));
      }
      columns.push_back(std::move(column));
      readers.push_back(std::move(reader));
    }
    std::vector<int64_t> rows;
    int64_t row = 0;
    Expression::Row values = [&](size_t i) -> Value {
      if (columns[i]->IsNull(row)) return std::monostate();
      return readers[i](row);
    };
    for (; row < batch->num_rows(); row++) {
      auto stays = expression_.Test(values);
      if (!stays.ok()) {
        // A column has one type in all rows: it is the expression that is wrong.
        std::string types;
        for (size_t i = 0; i < columns.size(); i++)
          types += Cat(i == 0 ? "" : ", ", expression_.columns()[i], " is ", columns[i]->type()->ToString());
        return Status(Code::kInvalidArgument,
                      Cat("the filter \"", expression_.text(), "\" does not fit the types of its columns (", types,
                          "): ", stays.status().message(), ". `cast` changes a column's type"));
      } else if (*stays) {
        rows.push_back(row);
      }
    }
    if (static_cast<int64_t>(rows.size()) == batch->num_rows()) return batch;
    return TakeRows(batch, rows);
  }

 private:
  Expression expression_;
};

}  // namespace

std::unique_ptr<Transform> MakeFilter(Expression expression) { return std::make_unique<Filter>(std::move(expression)); }

}  // namespace headrace
