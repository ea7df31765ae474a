#include "cli/lake/arrow_columns.h"

#include <arrow/array.h>
#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/type.h>
#include <fmt/core.h>

#include <algorithm>

#include "produce/rows.h"

namespace headrace::cli {
namespace {

using ArrayPointer = std::shared_ptr<arrow::Array>;

Status Wrong(std::string why) { return Status(Code::kInvalidArgument, std::move(why)); }

// `length` elements of `width` bytes from `first` on. The buffer stays alive as long as the bytes.
Bytes View(const std::shared_ptr<arrow::Buffer>& buffer, int64_t first, int64_t length, size_t width) {
  if (!buffer || length == 0) return {};
  std::span<const std::byte> all = std::as_bytes(std::span(buffer->data(), static_cast<size_t>(buffer->size())));
  return Bytes(all, buffer).Slice(static_cast<size_t>(first) * width, static_cast<size_t>(length) * width);
}

Status CheckNoNulls(const arrow::Array& array) {
  if (array.null_count() == 0) return {};
  int64_t row = 0;
  while (row < array.length() && array.IsValid(row)) ++row;
  return Wrong(fmt::format("element {} of {} is null, and a step has no nulls: fill them in", row, array.length()));
}

Result<Array> Numbers(const arrow::Array& array, std::vector<uint64_t> shape, Dtype wanted) {
  if (array.type_id() == arrow::Type::BOOL) {  // bits there, bytes here
    const auto& bits = static_cast<const arrow::BooleanArray&>(array);
    std::string bytes(static_cast<size_t>(array.length()), '\0');
    for (int64_t i = 0; i < array.length(); ++i) bytes[static_cast<size_t>(i)] = bits.Value(i) ? 1 : 0;
    return Array{Dtype::kBool, std::move(shape), Bytes::FromString(std::move(bytes))};
  }
  std::optional<Dtype> dtype = DtypeOf(array.type_id());
  // Arrow has no bfloat16; two bytes are what is left of one.
  if (array.type_id() == arrow::Type::FIXED_SIZE_BINARY && array.type()->byte_width() == 2 && wanted == Dtype::kBf16)
    dtype = wanted;
  if (!dtype) return Wrong(fmt::format("it holds {}, not numbers of {}", array.type()->ToString(), DtypeName(wanted)));
  return Array{*dtype, std::move(shape), View(array.data()->buffers[1], array.offset(), array.length(), DtypeBytes(*dtype))};
}

// Rows of different lengths: where each of them begins, and what is in them one after another.
struct Rows {
  std::vector<int64_t> offsets;
  ArrayPointer values;
};

template <typename ListArray>
Rows RowsOf(const ListArray& lists) {
  Rows rows;
  const int64_t first = lists.value_offset(0);
  for (int64_t row = 0; row <= lists.length(); ++row) rows.offsets.push_back(lists.value_offset(row) - first);
  rows.values = lists.values()->Slice(first, rows.offsets.back());
  return rows;
}

// Nothing if it is no list.
std::optional<Rows> RowsOfList(const arrow::Array& array) {
  switch (array.type_id()) {
    case arrow::Type::LIST: return RowsOf(static_cast<const arrow::ListArray&>(array));
    case arrow::Type::LARGE_LIST: return RowsOf(static_cast<const arrow::LargeListArray&>(array));
    case arrow::Type::FIXED_SIZE_LIST: return RowsOf(static_cast<const arrow::FixedSizeListArray&>(array));
    default: return std::nullopt;
  }
}

// How long the lists are, which must be the same for all.
Result<uint64_t> LengthOfAll(const arrow::Array& array, const std::vector<int64_t>& offsets) {
  if (array.type_id() == arrow::Type::FIXED_SIZE_LIST)
    return static_cast<uint64_t>(static_cast<const arrow::FixedSizeListType&>(*array.type()).list_size());
  const int64_t length = offsets.size() > 1 ? offsets[1] : 0;
  for (size_t row = 1; row + 1 < offsets.size(); ++row) {
    if (int64_t other = offsets[row + 1] - offsets[row]; other != length)
      return Wrong(fmt::format("lists of one level must be equally long: one has {} elements, another {}", length, other));
  }
  return static_cast<uint64_t>(length);
}

// Numbers, in lists of any depth that are equally long.
Result<Array> ReadArray(ArrayPointer array, Dtype dtype) {
  std::vector<uint64_t> shape = {static_cast<uint64_t>(array->length())};
  std::vector<uint64_t> tensor;
  if (array->type_id() == arrow::Type::EXTENSION) {
    const auto& type = static_cast<const arrow::ExtensionType&>(*array->type());
    if (type.extension_name() == "arrow.fixed_shape_tensor") {
      const auto& fixed = static_cast<const arrow::extension::FixedShapeTensorType&>(type);
      if (!std::ranges::is_sorted(fixed.permutation())) return Wrong("its tensors are not stored row after row");
      tensor.assign(fixed.shape().begin(), fixed.shape().end());
    }
    HR_RETURN_IF_ERROR(CheckNoNulls(*array));
    array = static_cast<const arrow::ExtensionArray&>(*array).storage();
  }
  while (true) {
    HR_RETURN_IF_ERROR(CheckNoNulls(*array));
    std::optional<Rows> rows = RowsOfList(*array);
    if (!rows) break;
    HR_ASSIGN_OR_RETURN(uint64_t length, LengthOfAll(*array, rows->offsets));
    if (tensor.empty())
      shape.push_back(length);
    else
      shape.insert(shape.end(), tensor.begin(), tensor.end());
    tensor.clear();
    array = rows->values;
  }
  HR_ASSIGN_OR_RETURN(Array numbers, Numbers(*array, std::move(shape), dtype));
  return Converted(numbers, dtype);
}

Status ReadRagged(const arrow::Array& array, Dtype dtype, StepColumn& out) {
  HR_RETURN_IF_ERROR(CheckNoNulls(array));
  std::optional<Rows> rows = RowsOfList(array);
  if (!rows) return Wrong(fmt::format("a ragged column is a column of lists, not of {}", array.type()->ToString()));
  out.offsets = std::move(rows->offsets);
  HR_ASSIGN_OR_RETURN(out.values, ReadArray(rows->values, dtype));
  return {};
}

template <typename BinaryArray>
void ReadBinaries(const BinaryArray& array, StepColumn& out) {
  const int64_t first = array.value_offset(0);
  for (int64_t row = 0; row <= array.length(); ++row) out.offsets.push_back(array.value_offset(row) - first);
  out.values.bytes = View(array.value_data(), first, out.offsets.back(), 1);
}

// What has no offsets of its own.
template <typename BinaryArray>
void JoinBinaries(const BinaryArray& array, StepColumn& out) {
  std::string joined;
  out.offsets.push_back(0);
  for (int64_t row = 0; row < array.length(); ++row) {
    joined += array.GetView(row);
    out.offsets.push_back(static_cast<int64_t>(joined.size()));
  }
  out.values.bytes = Bytes::FromString(std::move(joined));
}

Status ReadBytes(const arrow::Array& array, StepColumn& out) {
  HR_RETURN_IF_ERROR(CheckNoNulls(array));
  switch (array.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY: ReadBinaries(static_cast<const arrow::BinaryArray&>(array), out); break;
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY: ReadBinaries(static_cast<const arrow::LargeBinaryArray&>(array), out); break;
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW: JoinBinaries(static_cast<const arrow::BinaryViewArray&>(array), out); break;
    case arrow::Type::FIXED_SIZE_BINARY: JoinBinaries(static_cast<const arrow::FixedSizeBinaryArray&>(array), out); break;
    case arrow::Type::DICTIONARY:
      return Wrong(
          fmt::format("it is {}: write the values themselves (pyarrow: column.dictionary_decode())", array.type()->ToString()));
    default:
      if (RowsOfList(array)) return ReadRagged(array, Dtype::kU8, out);
      return Wrong(fmt::format("a bytes column is a column of texts or binaries, not of {}", array.type()->ToString()));
  }
  out.values.shape = {out.values.bytes.size()};
  return {};
}

}  // namespace

Result<std::vector<StepColumn>> StepFromArrow(const arrow::RecordBatch& batch, const std::vector<Column>& columns) {
  for (const std::string& name : batch.schema()->field_names()) {
    if (std::ranges::find(columns, name, &Column::name) == columns.end()) return NoSuchColumn(name, columns);
  }
  std::vector<StepColumn> step;
  for (const Column& column : columns) {
    StepColumn& out = step.emplace_back();
    out.values.dtype = column.dtype;
    const std::vector<int> found = batch.schema()->GetAllFieldIndices(column.name);
    if (found.size() != 1) return InColumn(column, found.empty() ? "it is missing" : "it is there more than once");
    const ArrayPointer array = batch.column(found[0]);
    Status read;
    // Whoever wrote the file may have been wrong about its offsets.
    if (arrow::Status valid = array->ValidateFull(); !valid.ok()) {
      read = Wrong(fmt::format("it is damaged: {}", valid.message()));
    } else {
      switch (column.kind) {
        case Column::kArray: {
          Result<Array> values = ReadArray(array, column.dtype);
          read = values.status();
          if (values.ok()) out.values = *std::move(values);
          break;
        }
        case Column::kRagged: read = ReadRagged(*array, column.dtype, out); break;
        case Column::kBytes: read = ReadBytes(*array, out); break;
      }
    }
    if (!read.ok()) return InColumn(column, read.message());
  }
  return step;
}

}  // namespace headrace::cli
