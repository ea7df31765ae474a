#include "produce/rows.h"

#include <arrow/type.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/text.h"

namespace headrace {

std::optional<Dtype> DtypeOf(arrow::Type::type type) {
  switch (type) {
    case arrow::Type::UINT8: return Dtype::kU8;
    case arrow::Type::INT8: return Dtype::kI8;
    case arrow::Type::UINT16: return Dtype::kU16;
    case arrow::Type::INT16: return Dtype::kI16;
    case arrow::Type::UINT32: return Dtype::kU32;
    case arrow::Type::INT32: return Dtype::kI32;
    case arrow::Type::UINT64: return Dtype::kU64;
    case arrow::Type::INT64: return Dtype::kI64;
    case arrow::Type::HALF_FLOAT: return Dtype::kF16;
    case arrow::Type::FLOAT: return Dtype::kF32;
    case arrow::Type::DOUBLE: return Dtype::kF64;
    case arrow::Type::BOOL: return Dtype::kBool;
    default: return std::nullopt;
  }
}

namespace {

Result<Dtype> DtypeOfColumn(const arrow::DataType& type, const std::string& column) {
  if (std::optional<Dtype> dtype = DtypeOf(type.id())) return *dtype;
  return Status(Code::kUnsupported, Cat("column ", column, " holds ", type.ToString(),
                                        ", which a stream cannot; cast or drop it in `transform`, or leave it out of `keep`"));
}

std::shared_ptr<const std::vector<uint8_t>> Truths(const arrow::Array& array) {
  const auto& bits = static_cast<const arrow::BooleanArray&>(array);
  std::vector<uint8_t> bytes(static_cast<size_t>(bits.length()));
  for (int64_t i = 0; i < bits.length(); ++i) bytes[static_cast<size_t>(i)] = bits.Value(i) ? 1 : 0;
  return std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
}

const std::byte* Values(const arrow::Array& array, size_t width) {
  const auto& buffer = array.data()->buffers[1];
  if (buffer == nullptr) return nullptr;
  return reinterpret_cast<const std::byte*>(buffer->data()) + array.data()->offset * static_cast<int64_t>(width);
}

template <typename From, typename To>
bool Narrow(const std::byte* from, int64_t count, std::byte* to) {
  const From* in = reinterpret_cast<const From*>(from);
  To* out = reinterpret_cast<To*>(to);
  bool fits = true;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<To>(in[i]);
    fits &= std::in_range<To>(in[i]);
  }
  return fits;
}

template <typename From>
bool NarrowTo(Dtype to, const std::byte* from, int64_t count, std::byte* out) {
  switch (to) {
    case Dtype::kU8: return Narrow<From, uint8_t>(from, count, out);
    case Dtype::kI8: return Narrow<From, int8_t>(from, count, out);
    case Dtype::kU16: return Narrow<From, uint16_t>(from, count, out);
    case Dtype::kI16: return Narrow<From, int16_t>(from, count, out);
    case Dtype::kU32: return Narrow<From, uint32_t>(from, count, out);
    case Dtype::kI32: return Narrow<From, int32_t>(from, count, out);
    case Dtype::kU64: return Narrow<From, uint64_t>(from, count, out);
    case Dtype::kI64: return Narrow<From, int64_t>(from, count, out);
    default: return false;
  }
}

}  // namespace

Result<RowColumn> RowColumn::Of(const arrow::RecordBatch& batch, const std::string& name) {
  RowColumn column;
  column.array_ = batch.GetColumnByName(name);
  if (column.array_ == nullptr) {
    std::string there;
    for (const auto& field : batch.schema()->fields()) {
      if (!field->name().starts_with("__")) there += Cat(there.empty() ? "" : ", ", field->name());
    }
    return Status(Code::kInvalidArgument, Cat("there is no column ", name, " after the transforms; there are ", there));
  }
  const arrow::Array& array = *column.array_;
  const auto elements = [&](const arrow::Array& values) -> Status {
    HR_ASSIGN_OR_RETURN(column.dtype_, DtypeOfColumn(*values.type(), name));
    if (column.dtype_ == Dtype::kBool) {
      column.truths_ = Truths(values);
      column.values_ = reinterpret_cast<const std::byte*>(column.truths_->data());
    } else {
      column.values_ = Values(values, column.width());
    }
    return {};
  };
  const auto lists = [&](const arrow::Array& values) -> Status {
    column.kind_ = Column::kRagged;
    return elements(values);
  };
  switch (array.type_id()) {
    case arrow::Type::LIST: {
      const auto& list = static_cast<const arrow::ListArray&>(array);
      HR_RETURN_IF_ERROR(lists(*list.values()));
      column.offsets32_ = list.raw_value_offsets();
      return column;
    }
    case arrow::Type::LARGE_LIST: {
      const auto& list = static_cast<const arrow::LargeListArray&>(array);
      HR_RETURN_IF_ERROR(lists(*list.values()));
      column.offsets64_ = list.raw_value_offsets();
      return column;
    }
    case arrow::Type::FIXED_SIZE_LIST: {
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(array);
      HR_RETURN_IF_ERROR(lists(*list.values()));
      column.fixed_ = list.value_length();
      column.shift_ = list.value_offset(0);
      return column;
    }
    case arrow::Type::STRING:
    case arrow::Type::BINARY: {
      const auto& text = static_cast<const arrow::BinaryArray&>(array);
      column.kind_ = Column::kBytes;
      column.dtype_ = Dtype::kU8;
      column.values_ = text.value_data() ? reinterpret_cast<const std::byte*>(text.value_data()->data()) : nullptr;
      column.offsets32_ = text.raw_value_offsets();
      return column;
    }
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY: {
      const auto& text = static_cast<const arrow::LargeBinaryArray&>(array);
      column.kind_ = Column::kBytes;
      column.dtype_ = Dtype::kU8;
      column.values_ = text.value_data() ? reinterpret_cast<const std::byte*>(text.value_data()->data()) : nullptr;
      column.offsets64_ = text.raw_value_offsets();
      return column;
    }
    default: break;
  }
  HR_RETURN_IF_ERROR(elements(array));
  return column;
}

int64_t RowColumn::begin(int64_t row) const {
  if (offsets32_ != nullptr) return offsets32_[row];
  if (offsets64_ != nullptr) return offsets64_[row];
  return shift_ + row * fixed_;
}

int64_t RowColumn::length(int64_t row) const {
  if (array_->IsNull(row)) return 0;
  if (offsets32_ != nullptr) return offsets32_[row + 1] - offsets32_[row];
  if (offsets64_ != nullptr) return offsets64_[row + 1] - offsets64_[row];
  return fixed_;
}

double RowColumn::Number(int64_t row) const {
  if (kind_ != Column::kArray || array_->IsNull(row)) return std::numeric_limits<double>::quiet_NaN();
  const std::byte* at = values_ + row * static_cast<int64_t>(width());
  const auto read = [&]<typename T>(T) {
    T value;
    std::memcpy(&value, at, sizeof(value));
    return static_cast<double>(value);
  };
  switch (dtype_) {
    case Dtype::kBool:
    case Dtype::kU8: return read(uint8_t{});
    case Dtype::kI8: return read(int8_t{});
    case Dtype::kU16: return read(uint16_t{});
    case Dtype::kI16: return read(int16_t{});
    case Dtype::kU32: return read(uint32_t{});
    case Dtype::kI32: return read(int32_t{});
    case Dtype::kU64: return read(uint64_t{});
    case Dtype::kI64: return read(int64_t{});
    case Dtype::kF32: return read(float{});
    case Dtype::kF64: return read(double{});
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

bool RowColumn::CopyIntegers(int64_t row, int64_t start, int64_t count, Dtype to, std::byte* out) const {
  const std::byte* from = values_ + (begin(row) + start) * static_cast<int64_t>(width());
  if (dtype_ == to) {
    std::memcpy(out, from, static_cast<size_t>(count) * width());
    return true;
  }
  switch (dtype_) {
    case Dtype::kBool:
    case Dtype::kU8: return NarrowTo<uint8_t>(to, from, count, out);
    case Dtype::kI8: return NarrowTo<int8_t>(to, from, count, out);
    case Dtype::kU16: return NarrowTo<uint16_t>(to, from, count, out);
    case Dtype::kI16: return NarrowTo<int16_t>(to, from, count, out);
    case Dtype::kU32: return NarrowTo<uint32_t>(to, from, count, out);
    case Dtype::kI32: return NarrowTo<int32_t>(to, from, count, out);
    case Dtype::kU64: return NarrowTo<uint64_t>(to, from, count, out);
    case Dtype::kI64: return NarrowTo<int64_t>(to, from, count, out);
    default: return false;
  }
}

}  // namespace headrace
