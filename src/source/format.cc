#include "source/format.h"

#include <arrow/array/builder_primitive.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/compute/cast.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/type.h>

#include <algorithm>

#include "base/text.h"

namespace headrace {

Result<std::unique_ptr<Format>> Format::Make(const SourceSpec& spec, std::shared_ptr<const Lake> lake) {
  if (spec.format == "parquet") return MakeParquetFormat(spec, std::move(lake));
  if (spec.format == "jsonl") return MakeJsonlFormat(spec, std::move(lake));
  if (spec.format == "webdataset") return MakeWebdatasetFormat(spec, std::move(lake));
  if (spec.format == "mds") return MakeMdsFormat(spec, std::move(lake));
  if (spec.format == "arrow") return MakeArrowFormat(spec, std::move(lake));
  if (spec.format == "megatron") return MakeMegatronFormat(spec, std::move(lake));
  if (spec.format == "tokens") return MakeTokensFormat(spec, std::move(lake));
  return Status(Code::kUnsupported, Cat("source ", spec.name, ": the format ", spec.format, " cannot be read yet"));
}

Result<SampleFacts> Format::Sample(const std::vector<LakeFile>&, const std::vector<FileFacts>& facts, const Deadline&) {
  std::vector<std::shared_ptr<arrow::Schema>> schemas;
  for (const FileFacts& fact : facts) {
    if (fact.schema) schemas.push_back(fact.schema);
  }
  if (schemas.empty()) return SampleFacts{arrow::schema({}), 0};
  HR_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Schema> schema, CommonSchema(schemas, Cat("source ", spec_.name)));
  return SampleFacts{std::move(schema), 0};
}

Status FromArrow(const arrow::Status& status, std::string_view what) {
  if (status.ok()) return {};
  const Code code = status.IsOutOfMemory() ? Code::kFull : status.IsNotImplemented() ? Code::kUnsupported : Code::kCorrupt;
  return Status(code, Cat(what, ": ", status.message()));
}

std::shared_ptr<arrow::DataType> SimpleType(const std::shared_ptr<arrow::DataType>& type) {
  const auto simple_field = [](const std::shared_ptr<arrow::Field>& field) {
    return arrow::field(field->name(), SimpleType(field->type()), true);
  };
  switch (type->id()) {
    case arrow::Type::DICTIONARY: return SimpleType(static_cast<const arrow::DictionaryType&>(*type).value_type());
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW: return arrow::utf8();
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::BINARY_VIEW: return arrow::binary();
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST: return arrow::list(arrow::field("item", SimpleType(type->field(0)->type()), true));
    case arrow::Type::STRUCT: {
      std::vector<std::shared_ptr<arrow::Field>> fields;
      for (const auto& field : type->fields()) fields.push_back(simple_field(field));
      return arrow::struct_(fields);
    }
    case arrow::Type::EXTENSION: return SimpleType(static_cast<const arrow::ExtensionType&>(*type).storage_type());
    default: return type;
  }
}

Result<std::shared_ptr<arrow::Schema>> CommonSchema(const std::vector<std::shared_ptr<arrow::Schema>>& schemas,
                                                    std::string_view what) {
  std::vector<std::shared_ptr<arrow::Schema>> simple;
  for (const auto& schema : schemas) {
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const auto& field : schema->fields()) {
      fields.push_back(arrow::field(field->name(), SimpleType(field->type()), true, field->metadata()));
    }
    auto one = arrow::schema(fields);
    if (std::ranges::none_of(simple, [&](const auto& known) { return known->Equals(*one, true); }))
      simple.push_back(std::move(one));
  }
  HR_ARROW_ASSIGN(
      auto common, arrow::UnifySchemas(simple, arrow::Field::MergeOptions::Permissive()),
      Cat(what, ": its files have columns of the same name and types that do not go together; make two sources of them"));
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (const auto& field : common->fields()) {
    if (field->name().starts_with("__") && (field->name() == kRowColumn || field->name() == kFileColumn)) continue;
    fields.push_back(field->WithNullable(true));
  }
  return arrow::schema(fields);
}

std::shared_ptr<arrow::Array> RowNumbers(uint64_t first, int64_t count) {
  std::shared_ptr<arrow::Buffer> buffer = *arrow::AllocateBuffer(count * static_cast<int64_t>(sizeof(int64_t)));
  auto* numbers = reinterpret_cast<int64_t*>(buffer->mutable_data());
  for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<int64_t>(first) + i;
  return std::make_shared<arrow::Int64Array>(count, std::move(buffer));
}

std::shared_ptr<arrow::RecordBatch> WithRowNumbers(const std::shared_ptr<arrow::RecordBatch>& batch,
                                                   std::shared_ptr<arrow::Array> numbers) {
  std::vector<std::shared_ptr<arrow::Field>> fields = batch->schema()->fields();
  std::vector<std::shared_ptr<arrow::Array>> columns = batch->columns();
  fields.push_back(arrow::field(std::string(kRowColumn), arrow::int64(), false));
  columns.push_back(std::move(numbers));
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), batch->num_rows(), std::move(columns));
}

Result<std::shared_ptr<arrow::RecordBatch>> Conform(const std::shared_ptr<arrow::RecordBatch>& batch,
                                                    const std::shared_ptr<arrow::Schema>& schema, uint64_t first_row,
                                                    std::string_view what) {
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (const auto& field : schema->fields()) {
    std::shared_ptr<arrow::Array> column = batch->GetColumnByName(field->name());
    if (!column) {
      HR_ARROW_ASSIGN(column, arrow::MakeArrayOfNull(field->type(), batch->num_rows()), what);
    } else if (!column->type()->Equals(*field->type())) {
      if (column->type_id() == arrow::Type::EXTENSION) column = static_cast<const arrow::ExtensionArray&>(*column).storage();
      HR_ARROW_ASSIGN(column, arrow::compute::Cast(*column, field->type()),
                      Cat(what, ": column ", field->name(), " cannot be read as ", field->type()->ToString()));
    }
    columns.push_back(std::move(column));
  }
  return WithRowNumbers(arrow::RecordBatch::Make(schema, batch->num_rows(), std::move(columns)),
                        RowNumbers(first_row, batch->num_rows()));
}

Result<std::string> EncodeSchema(const arrow::Schema& schema) {
  HR_ARROW_ASSIGN(std::shared_ptr<arrow::Buffer> buffer, arrow::ipc::SerializeSchema(schema), "cannot write a schema");
  return buffer->ToString();
}

Result<std::shared_ptr<arrow::Schema>> DecodeSchema(const std::string& bytes, std::string_view what) {
  arrow::io::BufferReader reader(arrow::Buffer::FromString(bytes));
  arrow::ipc::DictionaryMemo memo;
  HR_ARROW_ASSIGN(std::shared_ptr<arrow::Schema> schema, arrow::ipc::ReadSchema(&reader, &memo), what);
  return schema;
}

}  // namespace headrace
