#include "transform/columns.h"

#include <arrow/array.h>
#include <arrow/compute/cast.h>
#include <arrow/compute/initialize.h>

#include <set>
#include <utility>

#include "base/text.h"
#include "transform/batch.h"

namespace headrace {
namespace {

std::string Missing(const std::string& column, const arrow::RecordBatch& batch) {
  return Cat("has no column '", column, "'; it has ", ColumnNames(batch));
}

bool IsOrigin(const std::string& name) { return name == kFileColumn || name == kRowColumn; }

class Select final : public Transform {
 public:
  explicit Select(std::vector<std::string> columns) : columns_(std::move(columns)) {}

  Result<BatchPointer> Apply(const BatchPointer& batch, uint64_t, std::vector<BadRow>& bad) override {
    std::vector<int> indices;
    for (const auto& name : columns_) {
      int index = batch->schema()->GetFieldIndex(name);
      if (index < 0) return AllBad(batch, Missing(name, *batch), bad);
      indices.push_back(index);
    }
    for (auto name : {kFileColumn, kRowColumn}) {
      if (int index = batch->schema()->GetFieldIndex(std::string(name)); index >= 0) indices.push_back(index);
    }
    HR_ASSIGN_OR_RETURN_ARROW(auto selected, batch->SelectColumns(indices), "select columns");
    return selected;
  }

 private:
  std::vector<std::string> columns_;
};

class Rename final : public Transform {
 public:
  explicit Rename(std::map<std::string, std::string> names) : names_(std::move(names)) {}

  Result<BatchPointer> Apply(const BatchPointer& batch, uint64_t, std::vector<BadRow>& bad) override {
    for (const auto& [old_name, _] : names_) {
      if (batch->schema()->GetFieldIndex(old_name) < 0) return AllBad(batch, Missing(old_name, *batch), bad);
    }
    std::vector<std::string> renamed;
    std::set<std::string> seen;
    for (const auto& field : batch->schema()->fields()) {
      auto found = names_.find(field->name());
      renamed.push_back(found == names_.end() ? field->name() : found->second);
      if (!seen.insert(renamed.back()).second) {
        return Status(Code::kInvalidArgument, Cat("cannot rename: there would be two columns named '", renamed.back(),
                                                  "'; leave one of them out by `select` before"));
      }
    }
    HR_ASSIGN_OR_RETURN_ARROW(auto changed, batch->RenameColumns(renamed), "rename columns");
    return changed;
  }

 private:
  std::map<std::string, std::string> names_;
};

class CastColumns final : public Transform {
 public:
  explicit CastColumns(std::map<std::string, std::shared_ptr<arrow::DataType>> types) : types_(std::move(types)) {}

  Result<BatchPointer> Apply(const BatchPointer& batch, uint64_t, std::vector<BadRow>& bad) override {
    for (const auto& [name, _] : types_) {
      if (batch->schema()->GetFieldIndex(name) < 0) return AllBad(batch, Missing(name, *batch), bad);
    }
    std::map<int64_t, std::string> misfits;
    for (const auto& [name, type] : types_) FindMisfits(*batch->GetColumnByName(name), name, *type, 0, misfits);
    for (const auto& [row, why] : misfits) bad.push_back({row, why});
    HR_ASSIGN_OR_RETURN(BatchPointer changed, WithoutRows(batch, bad));
    for (const auto& [name, type] : types_) {
      auto column = changed->GetColumnByName(name);
      if (column->type()->Equals(*type)) continue;
      HR_ASSIGN_OR_RETURN_ARROW(auto cast, arrow::compute::Cast(*column, type), Cat("cast the column ", name));
      HR_ASSIGN_OR_RETURN(changed, WithColumn(changed, name, cast));
    }
    return changed;
  }

 private:
  // A cast fails as a whole: halves tell which rows it was.
  void FindMisfits(const arrow::Array& column, const std::string& name, const arrow::DataType& type, int64_t first,
                   std::map<int64_t, std::string>& misfits) const {
    if (column.type()->Equals(type) || column.length() == 0) return;
    auto cast = arrow::compute::Cast(column, types_.at(name));
    if (cast.ok()) return;
    if (column.length() == 1) {
      misfits.emplace(first, Cat("the value of '", name, "' cannot be cast from ", column.type()->ToString(), " to ",
                                 type.ToString(), ": ", cast.status().message()));
      return;
    }
    int64_t half = column.length() / 2;
    FindMisfits(*column.Slice(0, half), name, type, first, misfits);
    FindMisfits(*column.Slice(half), name, type, first + half, misfits);
  }

  std::map<std::string, std::shared_ptr<arrow::DataType>> types_;
};

}  // namespace

std::shared_ptr<arrow::DataType> TypeNamed(std::string_view name) {
  static const std::map<std::string_view, std::shared_ptr<arrow::DataType>> types = {
      {"bool", arrow::boolean()},      {"int8", arrow::int8()},       {"int16", arrow::int16()},
      {"int32", arrow::int32()},       {"int64", arrow::int64()},     {"uint8", arrow::uint8()},
      {"uint16", arrow::uint16()},     {"uint32", arrow::uint32()},   {"uint64", arrow::uint64()},
      {"float16", arrow::float16()},   {"float32", arrow::float32()}, {"float64", arrow::float64()},
      {"halffloat", arrow::float16()}, {"float", arrow::float32()},   {"double", arrow::float64()},
      {"string", arrow::utf8()},       {"binary", arrow::binary()}};
  name = Trim(name);
  if (name.starts_with("list<") && name.ends_with(">")) {
    auto values = TypeNamed(name.substr(5, name.size() - 6));
    return values ? arrow::list(values) : nullptr;
  }
  auto found = types.find(name);
  return found == types.end() ? nullptr : found->second;
}

std::unique_ptr<Transform> MakeSelect(std::vector<std::string> columns) {
  std::erase_if(columns, IsOrigin);
  return std::make_unique<Select>(std::move(columns));
}

std::unique_ptr<Transform> MakeRename(std::map<std::string, std::string> names) {
  return std::make_unique<Rename>(std::move(names));
}

Result<std::unique_ptr<Transform>> MakeCast(const std::map<std::string, std::string>& types) {
  HR_RETURN_IF_ERROR(CannotDo(arrow::compute::Initialize(), "start Arrow's compute kernels"));
  std::map<std::string, std::shared_ptr<arrow::DataType>> named;
  for (const auto& [column, name] : types) {
    auto type = TypeNamed(name);
    if (!type) {
      return Status(Code::kInvalidArgument,
                    Cat("cannot cast '", column, "' to '", name,
                        "': there is no such type. It is one of bool, int8 … int64, "
                        "uint8 … uint64, float16, float32, float64, string, binary, or list<…> of one of them"));
    }
    if (IsOrigin(column))
      return Status(Code::kInvalidArgument, Cat("cannot cast '", column, "': it says where a row comes from"));
    named.emplace(column, type);
  }
  return std::unique_ptr<Transform>(std::make_unique<CastColumns>(std::move(named)));
}

}  // namespace headrace
