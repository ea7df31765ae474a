#include "source/token_rows.h"

#include <arrow/array/array_nested.h>

#include <utility>

namespace headrace {
namespace {

template <typename T>
void Widen(std::span<const std::byte> bytes, std::vector<int32_t>& out, std::string& why) {
  const size_t count = bytes.size() / sizeof(T), begin = out.size();
  out.resize(begin + count);
  int32_t* to = out.data() + begin;
  bool fits = true;
  const auto at = [&](size_t i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return value;
  };
  const auto good = [](T value) { return std::in_range<uint32_t>(value) && std::in_range<int32_t>(value); };
  for (size_t i = 0; i < count; ++i) {
    const T value = at(i);
    to[i] = static_cast<int32_t>(value);
    fits &= good(value);
  }
  if (fits || !why.empty()) return;
  for (size_t i = 0; i < count; ++i) {
    if (const T value = at(i); !good(value)) {
      why = Cat("its token ", static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value),
                std::cmp_less(value, 0) ? " is negative" : " is larger than 2^31 - 1");
      return;
    }
  }
}

}  // namespace

bool IsTokenType(Dtype dtype) {
  switch (dtype) {
    case Dtype::kU8:
    case Dtype::kI8:
    case Dtype::kU16:
    case Dtype::kI16:
    case Dtype::kU32:
    case Dtype::kI32:
    case Dtype::kU64:
    case Dtype::kI64: return true;
    default: return false;
  }
}

int64_t TokenAt(const std::byte* bytes, Dtype dtype) {
  const auto as = [&](auto value) {
    std::memcpy(&value, bytes, sizeof(value));
    return static_cast<int64_t>(value);
  };
  switch (dtype) {
    case Dtype::kU8: return as(uint8_t{});
    case Dtype::kI8: return as(int8_t{});
    case Dtype::kU16: return as(uint16_t{});
    case Dtype::kI16: return as(int16_t{});
    case Dtype::kU32: return as(uint32_t{});
    case Dtype::kI32: return as(int32_t{});
    default: return as(int64_t{});
  }
}

void TokenRows::Begin(int64_t row) {
  row_ = row;
  why_.clear();
}

void TokenRows::Add(std::span<const std::byte> bytes, Dtype dtype) {
  switch (dtype) {
    case Dtype::kU8: return Widen<uint8_t>(bytes, values_, why_);
    case Dtype::kI8: return Widen<int8_t>(bytes, values_, why_);
    case Dtype::kU16: return Widen<uint16_t>(bytes, values_, why_);
    case Dtype::kI16: return Widen<int16_t>(bytes, values_, why_);
    case Dtype::kU32: return Widen<uint32_t>(bytes, values_, why_);
    case Dtype::kI32: return Widen<int32_t>(bytes, values_, why_);
    case Dtype::kU64: return Widen<uint64_t>(bytes, values_, why_);
    case Dtype::kI64: return Widen<int64_t>(bytes, values_, why_);
    default: why_ = "it has no whole numbers";
  }
}

void TokenRows::End() {
  ++consumed_;
  if (why_.empty() && values_.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    why_ = "it has more than 2^31 tokens";
  if (!why_.empty()) {
    values_.resize(offsets_.back());
    bad_.push_back({row_, std::move(why_)});
    return;
  }
  offsets_.push_back(static_cast<int32_t>(values_.size()));
  numbers_.push_back(row_);
}

Result<RowRun> TokenRows::Finish() {
  RowRun run{.rows = nullptr, .bad = std::move(bad_), .consumed = consumed_};
  const auto rows = static_cast<int64_t>(numbers_.size());
  if (rows > 0) {
    const auto count = static_cast<int64_t>(values_.size());
    auto values = std::make_shared<arrow::Int32Array>(count, arrow::Buffer::FromVector(std::move(values_)));
    auto numbers = std::make_shared<arrow::Int64Array>(rows, arrow::Buffer::FromVector(std::move(numbers_)));
    const auto schema = TokenSchema();
    auto lists = std::make_shared<arrow::ListArray>(schema->field(0)->type(), rows,
                                                    arrow::Buffer::FromVector(std::move(offsets_)), values);
    auto batch = wanted_ ? arrow::RecordBatch::Make(schema, rows, std::vector<std::shared_ptr<arrow::Array>>{lists})
                         : arrow::RecordBatch::Make(arrow::schema({}), rows, std::vector<std::shared_ptr<arrow::Array>>{});
    run.rows = WithRowNumbers(batch, numbers);
  }
  return run;
}

}  // namespace headrace
