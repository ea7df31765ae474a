#include "produce/nulls.h"

#include <arrow/array.h>

#include <functional>
#include <map>
#include <utility>

#include "base/text.h"
#include "plan/cost.h"
#include "transform/batch.h"

namespace headrace {
namespace {

// What is stored, and what the plan works with.
std::vector<std::string> Used(const Recipe& recipe, const arrow::RecordBatch& rows) {
  std::vector<std::string> names;
  if (recipe.keep.empty() && !recipe.pack) {
    for (const auto& field : rows.schema()->fields()) {
      if (!field->name().starts_with("__")) names.push_back(field->name());
    }
    return names;
  }
  names = {"tokens", "loss_mask"};
  names.insert(names.end(), recipe.keep.begin(), recipe.keep.end());
  for (std::string& name : CostColumns(recipe.cost)) names.push_back(std::move(name));
  return names;
}

// The elements of lists, and where those of a row lie.
struct Elements {
  std::shared_ptr<arrow::Array> values;  // nullptr: these are no lists
  std::function<std::pair<int64_t, int64_t>(int64_t)> of;
};

template <typename List>
Elements ElementsOf(const arrow::Array& array) {
  const auto& list = static_cast<const List&>(array);
  return {list.values(), [&list](int64_t row) {
            const auto first = static_cast<int64_t>(list.value_offset(row));
            return std::pair(first, first + static_cast<int64_t>(list.value_length(row)));
          }};
}

Elements ElementsOf(const arrow::Array& array) {
  switch (array.type_id()) {
    case arrow::Type::LIST: return ElementsOf<arrow::ListArray>(array);
    case arrow::Type::LARGE_LIST: return ElementsOf<arrow::LargeListArray>(array);
    case arrow::Type::FIXED_SIZE_LIST: return ElementsOf<arrow::FixedSizeListArray>(array);
    default: return {};
  }
}

void FindNulls(const arrow::Array& column, const std::string& name, std::map<int64_t, std::string>& found) {
  // All rows of a column of the type null are, and have no bits that say so.
  if (column.null_count() > 0) {
    for (int64_t row = 0; row < column.length(); ++row) {
      if (column.type_id() == arrow::Type::NA || column.IsNull(row))
        found.emplace(row, Cat("its \"", name, "\" is null, and a stream holds no nulls; `- filter: \"", name,
                               " is not null\"` in `transform` leaves such rows out on purpose"));
    }
  }
  const Elements elements = ElementsOf(column);
  if (elements.values == nullptr || elements.values->null_count() == 0) return;
  for (int64_t row = 0; row < column.length(); ++row) {
    if (column.IsNull(row)) continue;
    const auto [first, last] = elements.of(row);
    for (int64_t i = first; i < last; ++i) {
      if (!elements.values->IsNull(i)) continue;
      found.emplace(row, Cat("element ", i - first, " of its \"", name, "\" is null, and a stream holds no nulls"));
      break;
    }
  }
}

template <typename ArrayType>
void FindNoTokens(const arrow::Array& column, const Elements& elements, std::map<int64_t, std::string>& found) {
  const auto& values = static_cast<const ArrayType&>(*elements.values);
  const auto good = [](auto value) { return std::in_range<uint32_t>(value) && std::in_range<int32_t>(value); };
  for (int64_t row = 0; row < column.length(); ++row) {
    if (column.IsNull(row)) continue;
    const auto [first, last] = elements.of(row);
    bool fits = true;
    for (int64_t i = first; i < last; ++i) fits &= good(values.Value(i));
    for (int64_t i = first; !fits && i < last; ++i) {
      if (good(values.Value(i))) continue;
      found.emplace(row,
                    Cat("token ", i - first, " of its \"tokens\" is ", +values.Value(i),
                        std::cmp_less(values.Value(i), 0) ? ", and a token is not negative" : ", and a token is below 2^31"));
      break;
    }
  }
}

// Numbers that are no tokens.
void FindNoTokens(const arrow::Array& column, std::map<int64_t, std::string>& found) {
  const Elements elements = ElementsOf(column);
  if (elements.values == nullptr) return;
  switch (elements.values->type_id()) {
    case arrow::Type::INT8: return FindNoTokens<arrow::Int8Array>(column, elements, found);
    case arrow::Type::INT16: return FindNoTokens<arrow::Int16Array>(column, elements, found);
    case arrow::Type::INT32: return FindNoTokens<arrow::Int32Array>(column, elements, found);
    case arrow::Type::UINT32: return FindNoTokens<arrow::UInt32Array>(column, elements, found);
    case arrow::Type::INT64: return FindNoTokens<arrow::Int64Array>(column, elements, found);
    case arrow::Type::UINT64: return FindNoTokens<arrow::UInt64Array>(column, elements, found);
    default: return;
  }
}

}  // namespace

Result<std::shared_ptr<arrow::RecordBatch>> WithoutNulls(const Recipe& recipe, const arrow::RecordBatch& batch,
                                                         const std::shared_ptr<arrow::RecordBatch>& rows,
                                                         std::vector<BadRow>& bad) {
  std::map<int64_t, std::string> found;
  for (const std::string& name : Used(recipe, *rows)) {
    if (auto column = rows->GetColumnByName(name)) FindNulls(*column, name, found);
  }
  if (auto tokens = rows->GetColumnByName("tokens")) FindNoTokens(*tokens, found);
  if (found.empty()) return rows;
  using Place = std::pair<int32_t, int64_t>;
  const auto place = [](const arrow::RecordBatch& of, int64_t row) {
    return Place(static_cast<const arrow::Int32Array&>(*of.GetColumnByName(std::string(kFileColumn))).Value(row),
                 static_cast<const arrow::Int64Array&>(*of.GetColumnByName(std::string(kRowColumn))).Value(row));
  };
  std::map<Place, int64_t> numbers;
  for (int64_t row = 0; row < batch.num_rows(); ++row) numbers.emplace(place(batch, row), row);
  std::map<int64_t, std::string> of_batch;
  std::vector<int64_t> whole;
  for (int64_t row = 0; row < rows->num_rows(); ++row) {
    auto why = found.find(row);
    if (why == found.end())
      whole.push_back(row);
    else
      of_batch.emplace(numbers.at(place(*rows, row)), std::move(why->second));
  }
  for (auto& [row, why] : of_batch) bad.push_back({row, std::move(why)});
  return TakeRows(rows, whole);
}

}  // namespace headrace
