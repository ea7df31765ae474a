#include "source/json_rows.h"

#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/util/key_value_metadata.h>
#include <arrow/util/utf8.h>

#include <algorithm>

// Under a name of our own: libraries that Arrow brings along may carry another version of it.
#define RAPIDJSON_NAMESPACE headrace_rapidjson
#define RAPIDJSON_NAMESPACE_BEGIN namespace headrace_rapidjson {
#define RAPIDJSON_NAMESPACE_END }
#include <rapidjson/document.h>
#include <rapidjson/error/en.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "base/text.h"
#include "source/format.h"

namespace headrace {

namespace json = headrace_rapidjson;

namespace {

constexpr size_t kMaxFields = 64;  // of a struct: beyond it keys are data rather than names
constexpr int kMaxDepth = 8;
constexpr size_t kPoolBytes = 16 << 20;

// Text that may hold any value, in JSON.
std::shared_ptr<arrow::Field> JsonField(const std::string& name) {
  return arrow::field(name, arrow::utf8(), true, arrow::key_value_metadata({"headrace"}, {"json"}));
}
bool IsJson(const arrow::Field& field) {
  return field.type()->id() == arrow::Type::STRING && field.metadata() && field.metadata()->Contains("headrace");
}

// What Python writes, Python's NaN included; no recursion, so that deep nesting is no danger; numbers as exact as Python has them.
constexpr unsigned kParsing =
    json::kParseInsituFlag | json::kParseIterativeFlag | json::kParseFullPrecisionFlag | json::kParseNanAndInfFlag;

std::string_view TextOf(const json::Value& value) { return {value.GetString(), value.GetStringLength()}; }

std::string_view KindName(const json::Value& value) {
  switch (value.GetType()) {
    case json::kArrayType: return "a list";
    case json::kObjectType: return "an object";
    case json::kNumberType: return value.IsInt64() ? "a whole number" : "a number";
    case json::kStringType: return "a string";
    case json::kNullType: return "null";
    default: return "true or false";
  }
}

// Empty if `text` was an object; `row` holds it then.
std::string Parse(std::span<char> text, json::Document& row) {
  if (std::string_view(text.data(), text.size()).starts_with("\xEF\xBB\xBF"))
    text = text.subspan(3);  // some editors mark a file as UTF-8 by these
  static const bool initialized = (arrow::util::InitializeUTF8(), true);
  static_cast<void>(initialized);
  if (!arrow::util::ValidateUTF8(reinterpret_cast<const uint8_t*>(text.data()), static_cast<int64_t>(text.size())))
    return "it is no valid UTF-8";
  // What one row took is used again for the next, unless it was very much.
  row.SetNull();
  if (row.GetAllocator().Capacity() > kPoolBytes) {
    json::Document fresh;
    row.Swap(fresh);
  } else {
    row.GetAllocator().Clear();
  }
  row.ParseInsitu<kParsing>(text.data());
  if (row.HasParseError())
    return Cat("it is no valid JSON: ", json::GetParseError_En(row.GetParseError()), " (at byte ", row.GetErrorOffset(), ")");
  if (!row.IsObject()) return Cat("it is ", KindName(row), " instead of an object");
  return "";
}

// Rounding an id makes another id of it, so a column's type must hold a whole number exactly.
std::string TooExact(const arrow::Field& field, const json::Value& value) {
  return Cat("the whole number ", value.IsInt64() ? Cat(value.GetInt64()) : Cat(value.GetUint64()), " cannot be held exactly as ",
             field.type()->ToString(),
             ", which other rows of the source make of this column; write such numbers as strings, in quotes, in all rows");
}

bool Exact(const json::Value& value) {
  if (value.IsInt64()) return static_cast<long double>(value.GetDouble()) == static_cast<long double>(value.GetInt64());
  if (value.IsUint64()) return static_cast<long double>(value.GetDouble()) == static_cast<long double>(value.GetUint64());
  return true;
}

// Empty if `value` can be appended to a builder of this field.
std::string Misfit(const arrow::Field& field, const json::Value& value) {
  if (value.IsNull() || IsJson(field)) return "";
  switch (field.type()->id()) {
    case arrow::Type::BOOL:
      if (value.IsBool()) return "";
      break;
    case arrow::Type::INT64:
      if (value.IsInt64()) return "";
      if (value.IsUint64()) return TooExact(field, value);
      break;
    case arrow::Type::UINT64:
      if (value.IsUint64()) return "";
      if (value.IsInt64()) return TooExact(field, value);
      break;
    case arrow::Type::DOUBLE:
      if (value.IsNumber()) return Exact(value) ? "" : TooExact(field, value);
      break;
    case arrow::Type::STRING:
      if (value.IsString()) return "";
      break;
    case arrow::Type::LIST:
      if (value.IsArray()) {
        const arrow::Field& item = *field.type()->field(0);
        for (const json::Value& child : value.GetArray()) {
          if (std::string why = Misfit(item, child); !why.empty()) return why;
        }
        return "";
      }
      break;
    case arrow::Type::STRUCT:
      if (value.IsObject()) {
        for (const auto& member : value.GetObject()) {
          const int at = static_cast<const arrow::StructType&>(*field.type()).GetFieldIndex(std::string(TextOf(member.name)));
          if (at < 0) continue;
          if (std::string why = Misfit(*field.type()->field(at), member.value); !why.empty())
            return Cat(TextOf(member.name), ": ", why);
        }
        return "";
      }
      break;
    default: break;
  }
  return Cat("it is ", KindName(value), " where the first rows of the source have ", field.type()->ToString());
}

// Of a name that comes twice the last counts, as in Python.
const json::Value* Find(const json::Value& object, std::string_view name) {
  const json::Value* found = nullptr;
  for (const auto& member : object.GetObject()) {
    if (TextOf(member.name) == name) found = &member.value;
  }
  return found;
}

arrow::Status Append(arrow::ArrayBuilder& builder, const arrow::Field& field, const json::Value& value) {
  if (value.IsNull()) return builder.AppendNull();
  switch (field.type()->id()) {
    case arrow::Type::BOOL: return static_cast<arrow::BooleanBuilder&>(builder).Append(value.GetBool());
    case arrow::Type::INT64: return static_cast<arrow::Int64Builder&>(builder).Append(value.GetInt64());
    case arrow::Type::UINT64: return static_cast<arrow::UInt64Builder&>(builder).Append(value.GetUint64());
    case arrow::Type::DOUBLE: return static_cast<arrow::DoubleBuilder&>(builder).Append(value.GetDouble());
    case arrow::Type::STRING: {
      auto& text = static_cast<arrow::StringBuilder&>(builder);
      if (value.IsString()) return text.Append(TextOf(value));
      json::StringBuffer buffer;
      json::Writer<json::StringBuffer, json::UTF8<>, json::UTF8<>, json::CrtAllocator, json::kWriteNanAndInfFlag> writer(buffer);
      value.Accept(writer);
      return text.Append(std::string_view(buffer.GetString(), buffer.GetSize()));
    }
    case arrow::Type::LIST: {
      auto& list = static_cast<arrow::ListBuilder&>(builder);
      ARROW_RETURN_NOT_OK(list.Append());
      const arrow::Field& item = *field.type()->field(0);
      for (const json::Value& child : value.GetArray()) ARROW_RETURN_NOT_OK(Append(*list.value_builder(), item, child));
      return arrow::Status::OK();
    }
    case arrow::Type::STRUCT: {
      auto& object = static_cast<arrow::StructBuilder&>(builder);
      ARROW_RETURN_NOT_OK(object.Append());
      for (int i = 0; i < field.type()->num_fields(); ++i) {
        const arrow::Field& inner = *field.type()->field(i);
        const json::Value* found = Find(value, inner.name());
        ARROW_RETURN_NOT_OK(found ? Append(*object.field_builder(i), inner, *found) : object.field_builder(i)->AppendNull());
      }
      return arrow::Status::OK();
    }
    default: return arrow::Status::NotImplemented("JSON as ", field.type()->ToString());
  }
}

}  // namespace

struct JsonTypes::Node {
  enum Kind { kNothing, kBool, kInt, kDouble, kString, kList, kObject, kAny };
  Kind kind = kNothing;
  bool negative = false, large = false;  // whole numbers below 0, and of 2^63 and above
  std::unique_ptr<Node> item;
  std::vector<std::pair<std::string, std::unique_ptr<Node>>> fields;  // in the order in which they came up

  void Add(const json::Value& value, int depth) {
    switch (value.GetType()) {
      case json::kNullType: return;
      case json::kTrueType:
      case json::kFalseType: return Become(kBool);
      case json::kNumberType:
        if (value.IsInt64() || value.IsUint64()) {
          large |= !value.IsInt64();
          negative |= value.IsInt64() && value.GetInt64() < 0;
          return Become(kind == kDouble ? kDouble : kInt);
        }
        if (kind == kInt) kind = kDouble;
        return Become(kDouble);
      case json::kStringType: return Become(kString);
      case json::kArrayType:
        Become(depth < kMaxDepth ? kList : kAny);
        if (kind != kList) return;
        if (!item) item = std::make_unique<Node>();
        for (const json::Value& child : value.GetArray()) item->Add(child, depth + 1);
        return;
      case json::kObjectType:
        Become(depth < kMaxDepth ? kObject : kAny);
        if (kind != kObject) return;
        for (const auto& member : value.GetObject()) {
          const std::string_view key = TextOf(member.name);
          auto field = std::ranges::find(fields, key, [](const auto& known) { return std::string_view(known.first); });
          if (field == fields.end()) {
            // So many names are data rather than names.
            if (depth > 0 && fields.size() > kMaxFields) continue;
            field = fields.emplace(fields.end(), std::string(key), std::make_unique<Node>());
          }
          field->second->Add(member.value, depth + 1);
        }
        return;
    }
  }

  // `in_list`: an object here is a struct.
  std::shared_ptr<arrow::Field> Field(const std::string& name, bool in_list) const {
    switch (kind) {
      case kBool: return arrow::field(name, arrow::boolean());
      case kInt: return arrow::field(name, large && !negative ? arrow::uint64() : arrow::int64());
      case kDouble: return arrow::field(name, arrow::float64());
      case kString: return arrow::field(name, arrow::utf8());
      case kList: return arrow::field(name, arrow::list(item->Field("item", true)));
      case kObject: {
        if (!in_list || fields.size() > kMaxFields || fields.empty()) break;
        std::vector<std::shared_ptr<arrow::Field>> inner;
        for (const auto& [key, node] : fields) inner.push_back(node->Field(key, false));
        return arrow::field(name, arrow::struct_(inner));
      }
      default: break;
    }
    return JsonField(name);
  }

 private:
  void Become(Kind wanted) { kind = kind == kNothing || kind == wanted ? wanted : kAny; }
};

JsonTypes::JsonTypes() : root_(std::make_unique<Node>()) {}
JsonTypes::~JsonTypes() = default;
JsonTypes::JsonTypes(JsonTypes&&) noexcept = default;
JsonTypes& JsonTypes::operator=(JsonTypes&&) noexcept = default;

void JsonTypes::Add(std::span<char> text) {
  json::Document row;
  if (Parse(text, row).empty()) root_->Add(row, 0);
}

std::shared_ptr<arrow::Schema> JsonTypes::Schema() const {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (const auto& [key, node] : root_->fields) {
    if (key != kRowColumn && key != kFileColumn) fields.push_back(node->Field(key, false));
  }
  return arrow::schema(fields);
}

struct JsonRows::Parsed {
  json::Document row;
  std::vector<const json::Value*> values;  // of the columns; nothing where the row has none
};

JsonRows::JsonRows(std::shared_ptr<arrow::Schema> schema) : schema_(std::move(schema)), parsed_(std::make_unique<Parsed>()) {
  for (const auto& field : schema_->fields()) {
    builders_.push_back(*arrow::MakeBuilder(field->type()));
  }
  parsed_->values.resize(builders_.size());
}

JsonRows::~JsonRows() = default;

std::string JsonRows::Add(std::span<char> text) {
  if (std::string why = Parse(text, parsed_->row); !why.empty()) return why;
  std::vector<const json::Value*>& values = parsed_->values;
  std::ranges::fill(values, nullptr);
  for (const auto& member : parsed_->row.GetObject()) {
    for (size_t i = 0; i < builders_.size(); ++i) {
      if (schema_->field(static_cast<int>(i))->name() == TextOf(member.name)) values[i] = &member.value;
    }
  }
  for (size_t i = 0; i < builders_.size(); ++i) {
    if (!values[i]) continue;
    const arrow::Field& field = *schema_->field(static_cast<int>(i));
    if (std::string why = Misfit(field, *values[i]); !why.empty()) return Cat(field.name(), ": ", why);
  }
  for (size_t i = 0; i < builders_.size(); ++i) {
    arrow::Status status =
        values[i] ? Append(*builders_[i], *schema_->field(static_cast<int>(i)), *values[i]) : builders_[i]->AppendNull();
    if (!status.ok()) failure_ = status;
  }
  ++rows_;
  bytes_ += text.size();
  return "";
}

Result<std::shared_ptr<arrow::RecordBatch>> JsonRows::Finish() {
  HR_RETURN_IF_ERROR(FromArrow(failure_, "cannot hold rows of JSON"));
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (auto& builder : builders_) {
    HR_ARROW_ASSIGN(std::shared_ptr<arrow::Array> column, builder->Finish(), "cannot finish rows of JSON");
    columns.push_back(std::move(column));
  }
  auto batch = arrow::RecordBatch::Make(schema_, rows_, std::move(columns));
  rows_ = 0;
  bytes_ = 0;
  return batch;
}

}  // namespace headrace
