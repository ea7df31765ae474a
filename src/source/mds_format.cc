// MosaicML's shards (MDS): index.json says what columns and how many samples each shard has; a shard begins with the places of its samples. A row is a sample.
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/util/compression.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "source/byte_source.h"
#include "source/run_reader.h"

namespace headrace {
namespace {

constexpr std::string_view kIndex = "index.json";

enum class Kind : uint8_t { kText, kBytes, kJson, kNumber, kTextInt, kTextFloat, kArray };

struct MdsColumn {
  std::string name;
  Kind kind = Kind::kBytes;
  std::string dtype;  // of a number or of an array's elements; an array without one says it in every sample
  bool shaped = false;  // an array whose shape is fixed, and not stored
  uint64_t size = 0;  // 0: in every sample
};

struct MdsShard {
  std::vector<MdsColumn> columns;
  uint64_t samples = 0, raw_bytes = 0;
  bool compressed = false;
};

const std::map<std::string, std::shared_ptr<arrow::DataType>>& Types() {
  static const auto& types = *new std::map<std::string, std::shared_ptr<arrow::DataType>>{
      {"uint8", arrow::uint8()},     {"uint16", arrow::uint16()},   {"uint32", arrow::uint32()},  {"uint64", arrow::uint64()},
      {"int8", arrow::int8()},       {"int16", arrow::int16()},     {"int32", arrow::int32()},    {"int64", arrow::int64()},
      {"float16", arrow::float16()}, {"float32", arrow::float32()}, {"float64", arrow::float64()}};
  return types;
}

// How arrays say their type, where it is not fixed.
std::string_view DtypeOfCode(uint8_t code) {
  switch (code) {
    case 8: return "uint8";
    case 9: return "int8";
    case 16: return "uint16";
    case 17: return "int16";
    case 18: return "float16";
    case 32: return "uint32";
    case 33: return "int32";
    case 34: return "float32";
    case 64: return "uint64";
    case 65: return "int64";
    case 66: return "float64";
    default: return "";
  }
}

MdsColumn ColumnOf(const std::string& name, const std::string& encoding, uint64_t size) {
  MdsColumn column{.name = name, .kind = Kind::kBytes, .dtype = {}, .shaped = false, .size = size};
  const std::vector<std::string> words = Split(encoding, ':');
  if (encoding == "str" || encoding == "str_decimal") column.kind = Kind::kText;
  if (encoding == "json") column.kind = Kind::kJson;
  if (encoding == "str_int") column.kind = Kind::kTextInt;
  if (encoding == "str_float") column.kind = Kind::kTextFloat;
  if (encoding == "int" || Types().contains(encoding)) {
    column.kind = Kind::kNumber;
    column.dtype = encoding == "int" ? "int64" : encoding;
  }
  if (words.front() == "ndarray") {
    column.kind = Kind::kArray;
    if (words.size() > 1) column.dtype = words[1];
    column.shaped = words.size() > 2;
  }
  return column;
}

std::shared_ptr<arrow::Field> FieldOf(const MdsColumn& column) {
  switch (column.kind) {
    case Kind::kText: return arrow::field(column.name, arrow::utf8());
    case Kind::kJson: return arrow::field(column.name, arrow::utf8(), true, arrow::key_value_metadata({"headrace"}, {"json"}));
    case Kind::kNumber: return arrow::field(column.name, Types().at(column.dtype));
    case Kind::kTextInt: return arrow::field(column.name, arrow::int64());
    case Kind::kTextFloat: return arrow::field(column.name, arrow::float64());
    case Kind::kArray: {
      const auto type = Types().find(column.dtype);
      return arrow::field(column.name, arrow::list(arrow::field("item", type == Types().end() ? arrow::int64() : type->second)));
    }
    case Kind::kBytes: break;
  }
  return arrow::field(column.name, arrow::binary());
}

double HalfToDouble(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const double fraction = half & 1023;
  const double size = exponent == 31
                          ? (fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity())
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(fraction + 1024, exponent - 25);
  return half & 0x8000 ? -size : size;
}

// A row's value of one column, appended to a builder of the type in the inventory. Not empty: why it cannot be.
class Appender {
 public:
  static std::string Array(arrow::ListBuilder& list, std::string_view data, const MdsColumn& column) {
    std::string dtype = column.dtype;
    if (dtype.empty()) {
      if (data.empty()) return "an array is cut short";
      dtype = DtypeOfCode(static_cast<uint8_t>(data[0]));
      data.remove_prefix(1);
    }
    const auto type = Types().find(dtype);
    if (type == Types().end()) return "an array has a type that is not known";
    if (!column.shaped) {
      if (data.empty()) return "an array is cut short";
      const auto head = static_cast<uint8_t>(data[0]);
      const size_t shape = static_cast<size_t>(head >> 2) << (head & 3);
      if (data.size() < 1 + shape) return "an array is cut short";
      data.remove_prefix(1 + shape);
    }
    const auto width = static_cast<size_t>(type->second->bit_width() / 8);
    if (data.size() % width != 0) return "an array is cut short";
    const arrow::DataType& wanted = *list.value_builder()->type();
    if (!list.Append().ok()) return "it cannot be held";
    if (wanted.Equals(*type->second)) return Same(*list.value_builder(), data, wanted.id(), width);
    auto* numbers = dynamic_cast<arrow::Int64Builder*>(list.value_builder());
    if (!numbers || dtype.starts_with("float"))
      return Cat("an array is of type ", dtype, ", and ", wanted.ToString(), " is expected");
    for (size_t i = 0; i < data.size(); i += width) {
      if (!numbers->Append(Whole(data.substr(i, width), dtype)).ok()) return "it cannot be held";
    }
    return "";
  }

  static std::string Number(arrow::ArrayBuilder& builder, std::string_view data, const MdsColumn& column) {
    const auto width = static_cast<size_t>(Types().at(column.dtype)->bit_width() / 8);
    if (data.size() != width) return "a number has the wrong size";
    if (builder.type()->Equals(*Types().at(column.dtype))) return Same(builder, data, builder.type()->id(), width);
    if (auto* numbers = dynamic_cast<arrow::Int64Builder*>(&builder); numbers && !column.dtype.starts_with("float")) {
      return numbers->Append(Whole(data, column.dtype)).ok() ? "" : "it cannot be held";
    }
    if (auto* numbers = dynamic_cast<arrow::DoubleBuilder*>(&builder))
      return numbers->Append(Any(data, column.dtype)).ok() ? "" : "it cannot be held";
    return Cat("it is ", column.dtype, " where ", builder.type()->ToString(), " is expected");
  }

 private:
  static int64_t Whole(std::string_view data, std::string_view dtype) {
    uint64_t bits = 0;
    std::memcpy(&bits, data.data(), data.size());
    if (dtype.starts_with('u')) return static_cast<int64_t>(bits);
    const int unused = static_cast<int>(64 - 8 * data.size());
    return static_cast<int64_t>(bits << unused) >> unused;
  }
  static double Any(std::string_view data, std::string_view dtype) {
    if (dtype == "float64") return Copy<double>(data);
    if (dtype == "float32") return Copy<float>(data);
    if (dtype == "float16") return HalfToDouble(Copy<uint16_t>(data));
    return static_cast<double>(Whole(data, dtype));
  }
  template <typename T>
  static T Copy(std::string_view data) {
    T value;
    std::memcpy(&value, data.data(), sizeof(T));
    return value;
  }
  template <typename Builder, typename T>
  static std::string Values(arrow::ArrayBuilder& builder, std::string_view data) {
    std::vector<T> values(data.size() / sizeof(T));
    if (!data.empty()) std::memcpy(values.data(), data.data(), values.size() * sizeof(T));
    return static_cast<Builder&>(builder).AppendValues(values.data(), static_cast<int64_t>(values.size())).ok()
               ? ""
               : "it cannot be held";
  }
  static std::string Same(arrow::ArrayBuilder& builder, std::string_view data, arrow::Type::type type, size_t) {
    switch (type) {
      case arrow::Type::UINT8: return Values<arrow::UInt8Builder, uint8_t>(builder, data);
      case arrow::Type::UINT16: return Values<arrow::UInt16Builder, uint16_t>(builder, data);
      case arrow::Type::UINT32: return Values<arrow::UInt32Builder, uint32_t>(builder, data);
      case arrow::Type::UINT64: return Values<arrow::UInt64Builder, uint64_t>(builder, data);
      case arrow::Type::INT8: return Values<arrow::Int8Builder, int8_t>(builder, data);
      case arrow::Type::INT16: return Values<arrow::Int16Builder, int16_t>(builder, data);
      case arrow::Type::INT32: return Values<arrow::Int32Builder, int32_t>(builder, data);
      case arrow::Type::INT64: return Values<arrow::Int64Builder, int64_t>(builder, data);
      case arrow::Type::HALF_FLOAT: return Values<arrow::HalfFloatBuilder, uint16_t>(builder, data);
      case arrow::Type::FLOAT: return Values<arrow::FloatBuilder, float>(builder, data);
      case arrow::Type::DOUBLE: return Values<arrow::DoubleBuilder, double>(builder, data);
      default: return "it is of a type that is not known";
    }
  }
};

std::string_view FolderOf(std::string_view uri) { return uri.substr(0, uri.rfind('/')); }

class MdsFormat final : public Format {
 public:
  using Format::Format;

  bool HasRows(const LakeFile& file) const override { return !file.uri.ends_with(Cat("/", kIndex)); }

  Result<std::vector<LakeFile>> Choose(std::vector<LakeFile> files, const Deadline& deadline) override {
    std::map<std::string, LakeFile> known;
    std::set<std::string> folders;
    for (LakeFile& file : files) {
      const std::string_view name = std::string_view(file.uri).substr(file.uri.rfind('/') + 1);
      if (name == kIndex || name.find(".mds") != std::string_view::npos) folders.insert(std::string(FolderOf(file.uri)));
      known.emplace(file.uri, std::move(file));
    }
    std::map<std::string, LakeFile> chosen;
    for (const std::string& folder : folders) {
      const std::string index = Cat(folder, "/", kIndex);
      if (!known.contains(index)) {
        HR_ASSIGN_OR_RETURN(std::vector<LakeFile> below, lake_->Below(folder, deadline));
        for (LakeFile& file : below) known.emplace(file.uri, std::move(file));
      }
      if (!known.contains(index)) return Status(Code::kNotFound, Cat(index, " is not there; MDS shards need it"));
      Result<std::map<std::string, MdsShard>> shards =
          ReadIndex(known.at(index), [&](const std::string& uri) { return known.contains(uri); }, deadline);
      if (!shards.ok()) return shards.status();
      bool listed = false;
      for (const auto& [uri, shard] : *shards) {
        if (!known.contains(uri) && !listed) {
          HR_ASSIGN_OR_RETURN(std::vector<LakeFile> below, lake_->Below(folder, deadline));
          for (LakeFile& file : below) known.emplace(file.uri, std::move(file));
          listed = true;
          HR_ASSIGN_OR_RETURN(
              *shards, ReadIndex(known.at(index), [&](const std::string& name) { return known.contains(name); }, deadline));
          break;
        }
      }
      for (const auto& [uri, shard] : *shards) {
        if (!known.contains(uri)) return Status(Code::kNotFound, Cat(uri, " is not there, though ", index, " names it"));
        chosen.emplace(uri, known.at(uri));
      }
      chosen.emplace(index, known.at(index));
    }
    std::vector<LakeFile> all;
    for (auto& [uri, file] : chosen) all.push_back(std::move(file));
    if (all.empty()) return Status(Code::kNotFound, "none of its files is a shard (.mds) or an index.json of shards");
    return all;
  }

  Result<FileFacts> Scan(const LakeFile& file, const ScanPlan&, const Deadline& deadline) override {
    HR_ASSIGN_OR_RETURN(MdsShard shard, ShardOf(file.uri, nullptr, deadline));
    FileFacts facts{.parts = {}, .schema = nullptr, .seekable = !shard.compressed};
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const MdsColumn& column : shard.columns) fields.push_back(FieldOf(column));
    facts.schema = arrow::schema(fields);
    if (shard.samples > 0) {
      facts.parts.push_back({.part = 0,
                             .first = 0,
                             .count = shard.samples,
                             .rows = shard.samples,
                             .bytes = std::max<uint64_t>(1, shard.raw_bytes)});
    }
    return facts;
  }

  Result<std::unique_ptr<GranuleReader>> Open(const Inventory& inventory, const Granule& granule, uint64_t, const ReadPlan& plan,
                                              const Deadline& deadline) override {
    const LakeFile& file = inventory.files[granule.file];
    HR_ASSIGN_OR_RETURN(MdsShard shard, ShardOf(file.uri, &inventory, deadline));
    std::shared_ptr<const Bytes> raw;
    if (shard.compressed) {
      HR_ASSIGN_OR_RETURN(raw, Decompressed(file, shard, deadline));
    }
    return std::make_unique<RunReader>(
        granule.first, granule.count,
        [this, file, shard, raw, plan](uint64_t first, uint64_t count, const Deadline& until) {
          return Samples(file, shard, raw, plan, first, count, until);
        },
        raw ? raw->size() : 4096);
  }

 private:
  using Exists = std::function<bool(const std::string&)>;

  // Shards by the URI of the file that there is: the raw one, or the compressed one.
  Result<std::map<std::string, MdsShard>> ReadIndex(const LakeFile& index, const Exists& exists, const Deadline& deadline) const {
    const auto wrong = [&](std::string_view why) { return Status(Code::kCorrupt, Cat("cannot read ", index.uri, ": ", why)); };
    HR_ASSIGN_OR_RETURN(Bytes text, lake_->Read(index, ByteRange::All(), deadline));
    const auto json = nlohmann::json::parse(text.AsText(), nullptr, false);
    if (!json.is_object() || !json.contains("shards") || !json["shards"].is_array()) return wrong("it is no index of shards");
    std::map<std::string, MdsShard> shards;
    const std::string folder(FolderOf(index.uri));
    try {
      for (const auto& entry : json["shards"]) {
        if (const auto format = entry.value("format", "mds"); format != "mds")
          return wrong(Cat("its shards are of format ", format, ", and only mds is known"));
        MdsShard shard;
        shard.samples = entry.at("samples").get<uint64_t>();
        shard.raw_bytes = entry.at("raw_data").at("bytes").get<uint64_t>();
        const auto& names = entry.at("column_names");
        for (size_t i = 0; i < names.size(); ++i) {
          const auto& size = entry.at("column_sizes").at(i);
          shard.columns.push_back(ColumnOf(names[i].get<std::string>(), entry.at("column_encodings").at(i).get<std::string>(),
                                           size.is_null() ? 0 : size.get<uint64_t>()));
          if (shard.columns.back().kind == Kind::kArray && !shard.columns.back().dtype.empty() &&
              !Types().contains(shard.columns.back().dtype)) {
            return wrong(Cat("its column ", names[i].get<std::string>(), " has a type that is not known"));
          }
        }
        std::string uri = Cat(folder, "/", entry.at("raw_data").at("basename").get<std::string>());
        if (!exists(uri) && entry.contains("zip_data") && entry["zip_data"].is_object()) {
          uri = Cat(folder, "/", entry["zip_data"].at("basename").get<std::string>());
          shard.compressed = true;
        }
        shards.emplace(uri, std::move(shard));
      }
    } catch (const nlohmann::json::exception& failure) {
      return wrong(failure.what());
    }
    return shards;
  }

  // From the index beside it, read once. With an inventory, it must be the same index.
  Result<MdsShard> ShardOf(const std::string& uri, const Inventory* inventory, const Deadline& deadline) {
    const std::string folder(FolderOf(uri));
    {
      std::lock_guard lock(mutex_);
      if (auto known = shards_.find(folder); known != shards_.end()) {
        if (auto shard = known->second.find(uri); shard != known->second.end()) return shard->second;
      }
    }
    const std::string name = Cat(folder, "/", kIndex);
    LakeFile index;
    if (inventory) {
      const auto known = std::ranges::lower_bound(inventory->files, name, {}, &LakeFile::uri);
      if (known == inventory->files.end() || known->uri != name)
        return Status(Code::kCorrupt, Cat("the inventory does not know ", name));
      index = *known;
    } else {
      HR_ASSIGN_OR_RETURN(std::optional<LakeFile> there, lake_->Look(name, deadline));
      if (!there) return Status(Code::kNotFound, Cat(name, " is not there; MDS shards need it"));
      index = *there;
    }
    HR_ASSIGN_OR_RETURN(auto shards,
                        ReadIndex(index, [&](const std::string& other) { return !IsZip(uri) || other == uri; }, deadline));
    auto shard = shards.find(uri);
    if (shard == shards.end()) return Status(Code::kCorrupt, Cat(name, " does not name ", uri));
    MdsShard found = shard->second;
    std::lock_guard lock(mutex_);
    for (auto& [known, of] : shards) shards_[folder].emplace(known, std::move(of));
    return found;
  }
  static bool IsZip(const std::string& uri) { return !uri.ends_with(".mds"); }

  Result<std::shared_ptr<const Bytes>> Decompressed(const LakeFile& file, const MdsShard& shard, const Deadline& deadline) {
    {
      std::lock_guard lock(mutex_);
      if (auto raw = raw_[file.uri].lock()) return raw;
    }
    if (!IsCompressed(file.uri)) {
      return Status(Code::kUnsupported, Cat("cannot decompress ", file.uri, ": only zstd, gz, bz2 and lz4 are known"));
    }
    HR_ASSIGN_OR_RETURN(ByteSource source, CompressedBytes(lake_, file));
    std::string whole;
    whole.reserve(shard.raw_bytes);
    while (true) {
      HR_ASSIGN_OR_RETURN(Bytes block, source(deadline));
      if (block.empty()) break;
      whole.append(block.AsText());
    }
    auto raw = std::make_shared<const Bytes>(Bytes::FromString(std::move(whole)));
    std::lock_guard lock(mutex_);
    std::erase_if(raw_, [](const auto& entry) { return entry.second.expired(); });
    raw_[file.uri] = raw;
    return raw;
  }

  Result<Bytes> Part(const LakeFile& file, const std::shared_ptr<const Bytes>& raw, uint64_t at, uint64_t size,
                     const Deadline& deadline) const {
    if (size == 0) return Bytes();
    Bytes part;
    if (raw) {
      part = raw->Slice(at, size);
    } else {
      HR_ASSIGN_OR_RETURN(part, lake_->Read(file, ByteRange::At(at, size), deadline));
    }
    if (part.size() != size) return Status(Code::kCorrupt, Cat("cannot read ", file.uri, ": it is shorter than its index says"));
    return part;
  }

  Result<RowRun> Samples(const LakeFile& file, const MdsShard& shard, const std::shared_ptr<const Bytes>& raw,
                         const ReadPlan& plan, uint64_t first, uint64_t count, const Deadline& deadline) const {
    const auto wrong = [&](std::string_view why) { return Status(Code::kCorrupt, Cat("cannot read ", file.uri, ": ", why)); };
    std::vector<uint32_t> places(count + 1);
    HR_ASSIGN_OR_RETURN(Bytes head, Part(file, raw, 4 * (first + 1), 4 * (count + 1), deadline));
    std::memcpy(places.data(), head.data(), head.size());
    if (!std::ranges::is_sorted(places)) return wrong("its samples are out of order");
    HR_ASSIGN_OR_RETURN(Bytes body, Part(file, raw, places.front(), places.back() - places.front(), deadline));

    std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders;
    std::vector<int> from;  // column of the shard for every column that is wanted; -1: it has none
    for (const auto& field : plan.schema->fields()) {
      builders.push_back(*arrow::MakeBuilder(field->type()));
      const auto column = std::ranges::find(shard.columns, field->name(), &MdsColumn::name);
      from.push_back(column == shard.columns.end() ? -1 : static_cast<int>(column - shard.columns.begin()));
    }
    RowRun run;
    std::vector<int64_t> numbers;
    std::vector<std::string_view> values(shard.columns.size());
    for (uint64_t i = 0; i < count; ++i, ++run.consumed) {
      const auto number = static_cast<int64_t>(first + i);
      std::string why = Take(shard, body.AsText().substr(places[i] - places.front(), places[i + 1] - places[i]), values);
      for (size_t c = 0; why.empty() && c < builders.size(); ++c) {
        if (from[c] < 0) {
          if (!builders[c]->AppendNull().ok()) why = "it cannot be held";
          continue;
        }
        why = Append(*builders[c], shard.columns[from[c]], values[from[c]]);
        if (!why.empty()) why = Cat(shard.columns[from[c]].name, ": ", why);
      }
      if (why.empty()) {
        numbers.push_back(number);
        continue;
      }
      run.bad.push_back({number, why});
      // Columns that took a value already hold one row too many: all rows until here are handed out first.
      if (std::ranges::any_of(builders,
                              [&](const auto& builder) { return builder->length() != static_cast<int64_t>(numbers.size()); })) {
        ++run.consumed;
        return Finish(std::move(run), builders, std::move(numbers), plan);
      }
    }
    return Finish(std::move(run), builders, std::move(numbers), plan);
  }

  static Result<RowRun> Finish(RowRun run, std::vector<std::unique_ptr<arrow::ArrayBuilder>>& builders,
                               std::vector<int64_t> numbers, const ReadPlan& plan) {
    if (numbers.empty()) return run;
    const auto count = static_cast<int64_t>(numbers.size());
    std::vector<std::shared_ptr<arrow::Array>> columns;
    for (auto& builder : builders) {
      HR_ARROW_ASSIGN(std::shared_ptr<arrow::Array> column, builder->Finish(), "cannot hold samples");
      columns.push_back(column->length() > count ? column->Slice(0, count) : column);
    }
    run.rows = WithRowNumbers(arrow::RecordBatch::Make(plan.schema, count, std::move(columns)),
                              std::make_shared<arrow::Int64Array>(count, arrow::Buffer::FromVector(std::move(numbers))));
    return run;
  }

  static std::string Take(const MdsShard& shard, std::string_view sample, std::vector<std::string_view>& values) {
    size_t at = 0;
    std::vector<uint64_t> sizes;
    for (const MdsColumn& column : shard.columns) {
      uint32_t size = 0;
      if (column.size == 0) {
        if (at + sizeof(size) > sample.size()) return "it is cut short";
        std::memcpy(&size, sample.data() + at, sizeof(size));
        at += sizeof(size);
      }
      sizes.push_back(column.size ? column.size : size);
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] > sample.size() - at) return "it is cut short";
      values[i] = sample.substr(at, sizes[i]);
      at += sizes[i];
    }
    return "";
  }

  static std::string Append(arrow::ArrayBuilder& builder, const MdsColumn& column, std::string_view data) {
    const auto done = [](const arrow::Status& status) { return status.ok() ? std::string() : "it cannot be held"; };
    switch (column.kind) {
      case Kind::kBytes: return done(static_cast<arrow::BinaryBuilder&>(builder).Append(data));
      case Kind::kText:
      case Kind::kJson:
        if (!IsUtf8(data)) return "it is no UTF-8";
        return done(static_cast<arrow::StringBuilder&>(builder).Append(data));
      case Kind::kNumber: return Appender::Number(builder, data, column);
      case Kind::kTextInt: {
        int64_t number = 0;
        auto [end, error] = std::from_chars(data.data(), data.data() + data.size(), number);
        if (error != std::errc() || end != data.data() + data.size()) return "it is no whole number below 2^63";
        return done(static_cast<arrow::Int64Builder&>(builder).Append(number));
      }
      case Kind::kTextFloat: {
        double number = 0;
        auto [end, error] = std::from_chars(data.data(), data.data() + data.size(), number);
        if (error != std::errc() || end != data.data() + data.size()) return "it is no number";
        return done(static_cast<arrow::DoubleBuilder&>(builder).Append(number));
      }
      case Kind::kArray: return Appender::Array(static_cast<arrow::ListBuilder&>(builder), data, column);
    }
    return "it is of a kind that is not known";
  }

  std::mutex mutex_;
  std::map<std::string, std::map<std::string, MdsShard>> shards_;  // by folder
  std::map<std::string, std::weak_ptr<const Bytes>> raw_;  // decompressed shards that somebody reads
};

}  // namespace

std::unique_ptr<Format> MakeMdsFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake) {
  return std::make_unique<MdsFormat>(spec, std::move(lake));
}

}  // namespace headrace
