#include "cli/step_columns.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/number.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

Status Wrong(std::string why) { return Status(Code::kInvalidArgument, std::move(why)); }

std::string Known(const std::vector<Column>& columns) {
  std::string names;
  for (const Column& column : columns) names += (names.empty() ? "" : ", ") + column.name;
  return names;
}

Result<Number> ReadNumber(const json& value) {
  if (value.is_boolean()) return Number(value.get<bool>());
  if (value.is_number_unsigned()) return Number(value.get<uint64_t>());
  if (value.is_number_integer()) return Number(value.get<int64_t>());
  if (value.is_number_float()) return Number(value.get<double>());
  return Wrong(fmt::format("{} is not a number", value.dump().substr(0, 40)));
}

// Fills an array from lists in lists, all of one shape.
class NestedList {
 public:
  explicit NestedList(Array& array) : array_(array) {}

  Status Read(const json& value) {
    for (const json* level = &value; level->is_array(); level = &level->front()) {
      array_.shape.push_back(level->size());
      if (array_.shape.size() > Array::kMaxDims) return Wrong(fmt::format("lists are nested more than {} deep", Array::kMaxDims));
      if (level->empty()) break;
    }
    HR_RETURN_IF_ERROR(ReadLevel(value, 0));
    array_.bytes = Bytes::FromString(std::move(bytes_));
    return {};
  }

 private:
  Status ReadLevel(const json& value, size_t depth) {
    if (depth == array_.shape.size()) {
      HR_ASSIGN_OR_RETURN(Number number, ReadNumber(value));
      size_t at = bytes_.size();
      bytes_.resize(at + DtypeBytes(array_.dtype));
      std::string why = StoreAs(number, array_.dtype, reinterpret_cast<std::byte*>(bytes_.data()) + at);
      return why.empty() ? Status() : Wrong(why);
    }
    if (!value.is_array() || value.size() != array_.shape[depth]) {
      return Wrong(fmt::format("lists of one level must be equally long: one has {} elements, another {}", array_.shape[depth],
                               value.is_array() ? std::to_string(value.size()) : "none, it is " + value.dump().substr(0, 40)));
    }
    for (const json& element : value) HR_RETURN_IF_ERROR(ReadLevel(element, depth + 1));
    return {};
  }

  Array& array_;
  std::string bytes_;
};

Status ReadRagged(const json& value, StepColumn& column) {
  if (!value.is_array()) return Wrong("a ragged column is a list of lists");
  json flat = json::array();
  column.offsets.push_back(0);
  for (const json& row : value) {
    if (!row.is_array())
      return Wrong(fmt::format("a ragged column is a list of lists, and one row is {}", row.dump().substr(0, 40)));
    for (const json& element : row) {
      if (element.is_array()) return Wrong("a row of a ragged column holds numbers, not lists");
      flat.push_back(element);
    }
    column.offsets.push_back(static_cast<int64_t>(flat.size()));
  }
  return NestedList(column.values).Read(flat);
}

Status ReadTexts(const json& value, StepColumn& column) {
  if (!value.is_array()) return Wrong("a bytes column is a list of texts");
  std::string joined;
  column.offsets.push_back(0);
  for (const json& row : value) {
    if (!row.is_string())
      return Wrong(fmt::format("a bytes column is a list of texts, and one of them is {}", row.dump().substr(0, 40)));
    joined += row.get_ref<const std::string&>();
    column.offsets.push_back(static_cast<int64_t>(joined.size()));
  }
  column.values.shape = {joined.size()};
  column.values.bytes = Bytes::FromString(std::move(joined));
  return {};
}

Result<Array> Converted(const NpyArray& from, Dtype dtype) {
  if (from.kind != NpyArray::kNumbers) return Wrong("it holds texts, not numbers");
  return cli::Converted(Array{from.dtype, from.shape, from.bytes}, dtype);
}

void AppendUtf8(uint32_t point, std::string& out) {
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))};
  } else if (point < 0x10000) {
    out += {static_cast<char>(0xE0 | (point >> 12)), static_cast<char>(0x80 | ((point >> 6) & 0x3F)),
            static_cast<char>(0x80 | (point & 0x3F))};
  } else {
    out += {static_cast<char>(0xF0 | ((point >> 18) & 7)), static_cast<char>(0x80 | ((point >> 12) & 0x3F)),
            static_cast<char>(0x80 | ((point >> 6) & 0x3F)), static_cast<char>(0x80 | (point & 0x3F))};
  }
}

// numpy's texts of fixed width: zeros at the end are no part of them.
Status ReadFixedTexts(const NpyArray& from, StepColumn& column) {
  if (from.shape.size() != 1) return Wrong("texts must stand in an array of one dimension");
  std::string joined;
  column.offsets.push_back(0);
  for (uint64_t row = 0; row < from.shape[0]; ++row) {
    std::string_view cell = from.bytes.AsText().substr(row * from.width, from.width);
    if (from.kind == NpyArray::kBytes) {
      joined += cell.substr(0, cell.find_last_not_of('\0') + 1);
    } else {
      for (size_t at = 0; at < cell.size(); at += 4) {
        uint32_t point = 0;
        std::memcpy(&point, cell.data() + at, 4);
        if (point == 0 && cell.find_first_not_of('\0', at) == std::string_view::npos) break;
        AppendUtf8(point, joined);
      }
    }
    column.offsets.push_back(static_cast<int64_t>(joined.size()));
  }
  column.values.shape = {joined.size()};
  column.values.bytes = Bytes::FromString(std::move(joined));
  return {};
}

Status ReadOffsets(const NpyArray& from, StepColumn& column) {
  HR_ASSIGN_OR_RETURN(Array offsets, Converted(from, Dtype::kI64));
  if (offsets.shape.size() != 1 || offsets.shape[0] == 0) return Wrong("its offsets must be a list with at least the number 0");
  column.offsets.resize(offsets.shape[0]);
  std::memcpy(column.offsets.data(), offsets.bytes.data(), offsets.bytes.size());
  bool rising = column.offsets.front() == 0 && std::ranges::is_sorted(column.offsets);
  if (column.values.shape.empty() || !rising || static_cast<uint64_t>(column.offsets.back()) != column.values.shape[0]) {
    return Wrong("its offsets must begin at 0, rise, and end at the number of values");
  }
  return {};
}

const NpyArray* FindArray(const std::vector<NpyArray>& arrays, const std::string& name) {
  auto found = std::ranges::find(arrays, name, &NpyArray::name);
  return found == arrays.end() ? nullptr : &*found;
}

Status ReadColumn(const std::vector<NpyArray>& arrays, const Column& column, StepColumn& out, std::vector<std::string>& used) {
  const NpyArray* plain = FindArray(arrays, column.name);
  bool texts = column.kind == Column::kBytes && plain != nullptr && plain->kind != NpyArray::kNumbers;
  if (column.kind == Column::kArray || texts) {
    if (plain == nullptr) return Wrong("it is missing");
    used.push_back(column.name);
    if (texts) return ReadFixedTexts(*plain, out);
    HR_ASSIGN_OR_RETURN(out.values, Converted(*plain, column.dtype));
    return {};
  }
  const NpyArray* values = FindArray(arrays, column.name + ".values");
  const NpyArray* offsets = FindArray(arrays, column.name + ".offsets");
  if (values == nullptr || offsets == nullptr) {
    return Wrong(fmt::format("its rows have different lengths: the file must have the arrays \"{0}.values\" and \"{0}.offsets\"",
                             column.name));
  }
  used.insert(used.end(), {values->name, offsets->name});
  HR_ASSIGN_OR_RETURN(out.values, Converted(*values, column.dtype));
  return ReadOffsets(*offsets, out);
}

}  // namespace

Status InColumn(const Column& column, std::string_view why) { return Wrong(fmt::format("column \"{}\": {}", column.name, why)); }

Status NoSuchColumn(std::string_view name, const std::vector<Column>& columns) {
  return Wrong(fmt::format("there is no column \"{}\"; the stream has {}", name, Known(columns)));
}

Result<Array> Converted(const Array& from, Dtype dtype) {
  if (from.shape.size() > Array::kMaxDims) return Wrong(fmt::format("it has more than {} dimensions", Array::kMaxDims));
  if (from.dtype == dtype) return from;
  std::string bytes(from.elements() * DtypeBytes(dtype), '\0');
  for (uint64_t i = 0; i < from.elements(); ++i) {
    std::string why = StoreAs(ElementOf(from, i), dtype, reinterpret_cast<std::byte*>(bytes.data()) + i * DtypeBytes(dtype));
    if (!why.empty()) return Wrong(fmt::format("element {}: {}", i, why));
  }
  return Array{dtype, from.shape, Bytes::FromString(std::move(bytes))};
}

Result<std::vector<StepColumn>> StepFromJson(const json& object, const std::vector<Column>& columns) {
  if (!object.is_object())
    return Wrong(fmt::format("a step is an object {{\"column\": [...], …}}, not {}", object.dump().substr(0, 40)));
  for (const auto& item : object.items()) {
    if (std::ranges::find(columns, item.key(), &Column::name) == columns.end()) return NoSuchColumn(item.key(), columns);
  }
  std::vector<StepColumn> step;
  for (const Column& column : columns) {
    StepColumn& out = step.emplace_back();
    out.values.dtype = column.dtype;
    auto value = object.find(column.name);
    if (value == object.end()) return InColumn(column, "it is missing");
    Status read;
    switch (column.kind) {
      case Column::kArray: read = NestedList(out.values).Read(*value); break;
      case Column::kRagged: read = ReadRagged(*value, out); break;
      case Column::kBytes: read = ReadTexts(*value, out); break;
    }
    if (!read.ok()) return InColumn(column, read.message());
  }
  return step;
}

Result<std::vector<StepColumn>> StepFromNpz(const std::vector<NpyArray>& arrays, const std::vector<Column>& columns) {
  std::vector<StepColumn> step;
  std::vector<std::string> used;
  for (const Column& column : columns) {
    StepColumn& out = step.emplace_back();
    out.values.dtype = column.dtype;
    Status read = ReadColumn(arrays, column, out, used);
    if (!read.ok()) return InColumn(column, read.message());
  }
  for (const NpyArray& array : arrays) {
    if (std::ranges::find(used, array.name) == used.end()) return NoSuchColumn(array.name, columns);
  }
  return step;
}

Result<std::vector<Body>> SplitOverLanes(const std::vector<StepColumn>& step, const StreamInfo& info) {
  for (size_t c = 0; c < step.size(); ++c) {
    const StepColumn& column = step[c];
    if (column.offsets.empty() && column.values.shape.empty()) {
      return InColumn(info.columns[c], "a single number cannot be split over the lanes: it needs a leading dimension");
    }
    uint64_t rows = column.offsets.empty() ? column.values.shape[0] : column.offsets.size() - 1;
    if (rows % info.lanes != 0) {
      return InColumn(info.columns[c],
                      fmt::format("{} rows cannot be split evenly over the {} lanes of the stream", rows, info.lanes));
    }
  }
  std::vector<Body> cells;
  for (uint32_t lane = 0; lane < info.lanes; ++lane) {
    std::vector<Array> arrays;
    for (const StepColumn& column : step) {
      uint64_t rows = (column.offsets.empty() ? column.values.shape[0] : column.offsets.size() - 1) / info.lanes;
      uint64_t first = lane * rows;
      uint64_t begin = column.offsets.empty() ? first : static_cast<uint64_t>(column.offsets[first]);
      uint64_t end = column.offsets.empty() ? first + rows : static_cast<uint64_t>(column.offsets[first + rows]);
      uint64_t row_bytes = column.values.shape[0] == 0 ? 0 : column.values.bytes.size() / column.values.shape[0];
      Array& values = arrays.emplace_back(column.values);
      values.shape[0] = end - begin;
      values.bytes = column.values.bytes.Slice(begin * row_bytes, (end - begin) * row_bytes);
      if (column.offsets.empty()) continue;
      std::string offsets;
      for (uint64_t row = first; row <= first + rows; ++row) {
        int64_t offset = column.offsets[row] - static_cast<int64_t>(begin);
        offsets.append(reinterpret_cast<const char*>(&offset), sizeof(offset));
      }
      arrays.push_back({Dtype::kI64, {rows + 1}, Bytes::FromString(std::move(offsets))});
    }
    HR_ASSIGN_OR_RETURN(Body cell, BuildCell(arrays, info.columns));
    cells.push_back(std::move(cell));
  }
  return cells;
}

}  // namespace headrace::cli
