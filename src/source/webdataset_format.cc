// WebDataset: tar archives in which neighbouring members with the same name up to the first dot are one sample. A column for each extension, and `__key__`.
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/text.h"
#include "source/format.h"
#include "source/tar.h"

namespace headrace {
namespace {

constexpr std::string_view kKeyColumn = "__key__";
constexpr uint64_t kBatchBytes = 16 << 20;
constexpr size_t kSampleRows = 200;
constexpr size_t kSampleFiles = 8;
constexpr uint32_t kCompressed = 1;

// What the library `webdataset` decodes these to.
std::shared_ptr<arrow::Field> FieldOf(const std::string& extension) {
  const std::string last = extension.substr(extension.rfind('.') + 1);
  static constexpr std::array kTexts = {"txt", "text", "transcript", "caption", "md", "html"};
  static constexpr std::array kNumbers = {"cls", "cls2", "class", "count", "index", "inx", "id"};
  static constexpr std::array kJson = {"json", "jsn"};
  if (std::ranges::count(kTexts, last)) return arrow::field(extension, arrow::utf8());
  if (std::ranges::count(kNumbers, last)) return arrow::field(extension, arrow::int64());
  if (std::ranges::count(kJson, last))
    return arrow::field(extension, arrow::utf8(), true, arrow::key_value_metadata({"headrace"}, {"json"}));
  return arrow::field(extension, arrow::binary());
}

struct Name {
  std::string key, extension;
};
// "folder/000123.seg.png" is seg.png of folder/000123. Nothing: no part of a sample.
std::optional<Name> Split(const TarReader::Member& member) {
  if (!member.regular) return std::nullopt;
  std::string_view name = member.name;
  if (name.starts_with("./")) name.remove_prefix(2);
  const size_t base = name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1;
  const size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base || name.starts_with("__")) return std::nullopt;
  return Name{std::string(name.substr(0, dot)), Lower(name.substr(dot + 1))};
}

// The samples of an archive, member by member.
class SampleReader final : public GranuleReader {
 public:
  SampleReader(TarReader tar, uint64_t end, uint64_t rows, uint64_t row, const ReadPlan& plan)
      : tar_(std::move(tar)), end_(end), left_(rows), row_(row), schema_(plan.schema) {
    for (int i = 0; i < schema_->num_fields(); ++i) places_[schema_->field(i)->name()] = i;
  }

  Result<RowRun> Read(uint64_t rows, const Deadline& deadline) override {
    std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders;
    for (const auto& field : schema_->fields()) builders.push_back(*arrow::MakeBuilder(field->type()));
    RowRun run;
    std::vector<int64_t> numbers;
    uint64_t bytes = 0;
    while (run.consumed < rows && bytes < kBatchBytes) {
      HR_ASSIGN_OR_RETURN(bool there, NextSample(true, deadline));
      if (!there) break;
      ++run.consumed;
      const auto number = static_cast<int64_t>(row_++);
      std::string why = why_;
      for (int i = 0; why.empty() && i < schema_->num_fields(); ++i) why = Misfit(i);
      if (!why.empty()) {
        run.bad.push_back({number, std::move(why)});
        continue;
      }
      for (int i = 0; i < schema_->num_fields(); ++i) {
        if (arrow::Status status = Append(*builders[i], i); !status.ok()) return FromArrow(status, "cannot hold a sample");
        bytes += values_[i] ? values_[i]->size() : 0;
      }
      numbers.push_back(number);
    }
    if (numbers.empty()) return run;
    std::vector<std::shared_ptr<arrow::Array>> columns;
    for (auto& builder : builders) {
      HR_ARROW_ASSIGN(std::shared_ptr<arrow::Array> column, builder->Finish(), "cannot hold samples");
      columns.push_back(std::move(column));
    }
    const auto count = static_cast<int64_t>(numbers.size());
    run.rows = WithRowNumbers(arrow::RecordBatch::Make(schema_, count, std::move(columns)),
                              std::make_shared<arrow::Int64Array>(count, arrow::Buffer::FromVector(std::move(numbers))));
    return run;
  }

  Result<uint64_t> Skip(uint64_t rows, const Deadline& deadline) override {
    uint64_t skipped = 0;
    for (; skipped < rows; ++skipped, ++row_) {
      HR_ASSIGN_OR_RETURN(bool there, NextSample(false, deadline));
      if (!there) break;
    }
    return skipped;
  }

  uint64_t bytes() const override { return tar_.bytes() + (64 << 10); }

 private:
  // The next member that belongs to a sample, into `next_` and `name_`.
  Status Peek(const Deadline& deadline) {
    while (!over_ && !name_) {
      HR_ASSIGN_OR_RETURN(std::optional<TarReader::Member> member, tar_.Next(deadline));
      over_ = !member || member->offset >= end_;
      if (!over_) name_ = Split(*member);
    }
    return {};
  }

  Result<bool> NextSample(bool load, const Deadline& deadline) {
    HR_RETURN_IF_ERROR(Peek(deadline));
    if (over_ || left_ == 0) return false;
    --left_;
    key_ = name_->key;
    why_.clear();
    values_.assign(schema_->num_fields(), std::nullopt);
    while (!over_ && name_->key == key_) {
      auto place = places_.find(name_->extension);
      if (load && place != places_.end()) {
        if (values_[place->second])
          why_ = Cat("its key ", key_, " has two members ", name_->extension, "; two samples may have the same name");
        HR_ASSIGN_OR_RETURN(values_[place->second], tar_.Content(deadline));
      }
      name_.reset();
      HR_RETURN_IF_ERROR(Peek(deadline));
    }
    return true;
  }

  std::string Misfit(int column) const {
    if (!values_[column]) return "";
    const std::string_view text = values_[column]->AsText();
    const arrow::Field& field = *schema_->field(column);
    if (field.type()->id() == arrow::Type::STRING && !IsUtf8(text)) return Cat(key_, ".", field.name(), " is no UTF-8");
    int64_t number = 0;
    if (field.type()->id() == arrow::Type::INT64 && !ParseWhole(text, number))
      return Cat(key_, ".", field.name(), " is no whole number");
    return "";
  }

  static bool ParseWhole(std::string_view text, int64_t& number) {
    text = Trim(text);
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
  }

  arrow::Status Append(arrow::ArrayBuilder& builder, int column) const {
    const arrow::Field& field = *schema_->field(column);
    if (field.name() == kKeyColumn) return static_cast<arrow::StringBuilder&>(builder).Append(key_);
    if (!values_[column]) return builder.AppendNull();
    const std::string_view text = values_[column]->AsText();
    switch (field.type()->id()) {
      case arrow::Type::INT64: {
        int64_t number = 0;
        ParseWhole(text, number);
        return static_cast<arrow::Int64Builder&>(builder).Append(number);
      }
      case arrow::Type::STRING: return static_cast<arrow::StringBuilder&>(builder).Append(text);
      default: return static_cast<arrow::BinaryBuilder&>(builder).Append(text);
    }
  }

  TarReader tar_;
  const uint64_t end_;
  uint64_t left_, row_;
  const std::shared_ptr<arrow::Schema> schema_;
  std::map<std::string, int> places_;
  std::optional<Name> name_;  // of the member that the archive stands at
  bool over_ = false;
  std::string key_, why_;
  std::vector<std::optional<Bytes>> values_;
};

class WebdatasetFormat final : public Format {
 public:
  using Format::Format;

  bool CountsByReading(const LakeFile&) const override { return true; }

  Result<std::vector<LakeFile>> Choose(std::vector<LakeFile> files, const Deadline&) override {
    std::erase_if(files, [](const LakeFile& file) {
      return Lower(file.uri).find(".tar") == std::string::npos && !Lower(file.uri).ends_with(".tgz");
    });
    if (files.empty()) return Status(Code::kNotFound, "none of its files is a .tar");
    return files;
  }

  Result<FileFacts> Scan(const LakeFile& file, const ScanPlan& plan, const Deadline& deadline) override {
    const bool compressed = IsCompressed(file.uri);
    FileFacts facts{.parts = {}, .schema = nullptr, .seekable = !compressed};
    FilePart part{
        .part = compressed ? kCompressed : 0, .first = 0, .count = compressed ? 0 : file.bytes, .rows = 0, .bytes = file.bytes};
    if (plan.count) {
      HR_ASSIGN_OR_RETURN(TarReader tar, TarReader::Open(lake_, file, 0));
      std::string key;
      while (true) {
        HR_ASSIGN_OR_RETURN(std::optional<TarReader::Member> member, tar.Next(deadline));
        if (!member) break;
        std::optional<Name> name = Split(*member);
        if (!name || (part.rows > 0 && name->key == key)) continue;
        key = name->key;
        if (!compressed && part.rows % plan.group_size == 0 &&
            (part.marks.empty() || member->offset - part.marks.back().second >= plan.mark_bytes)) {
          part.marks.emplace_back(part.rows, member->offset);
        }
        ++part.rows;
      }
      if (part.rows == 0) return facts;
      if (compressed) part.count = part.rows;
    } else {
      facts.seekable = false;  // nobody can tell where a member begins without having read all before it
    }
    facts.parts.push_back(std::move(part));
    return facts;
  }

  Result<SampleFacts> Sample(const std::vector<LakeFile>& files, const std::vector<FileFacts>&,
                             const Deadline& deadline) override {
    std::map<std::string, std::shared_ptr<arrow::Field>> fields;
    const size_t step = std::max<size_t>(1, files.size() / kSampleFiles);
    uint64_t bytes = 0, rows = 0;
    for (size_t i = 0; i < files.size(); i += step) {
      HR_ASSIGN_OR_RETURN(TarReader tar, TarReader::Open(lake_, files[i], 0));
      std::string key;
      for (size_t seen = 0; seen < kSampleRows;) {
        HR_ASSIGN_OR_RETURN(std::optional<TarReader::Member> member, tar.Next(deadline));
        if (!member) break;
        std::optional<Name> name = Split(*member);
        if (!name) continue;
        const bool fresh = seen == 0 || name->key != key;
        seen += fresh;
        rows += fresh;
        key = name->key;
        bytes += member->size;
        fields.emplace(name->extension, FieldOf(name->extension));
      }
    }
    std::vector<std::shared_ptr<arrow::Field>> all = {arrow::field(std::string(kKeyColumn), arrow::utf8())};
    for (auto& [extension, field] : fields) all.push_back(field);
    return SampleFacts{arrow::schema(all), rows ? std::max<uint64_t>(1, bytes / rows) : 0};
  }

  Result<std::unique_ptr<GranuleReader>> Open(const Inventory& inventory, const Granule& granule, uint64_t first_row,
                                              const ReadPlan& plan, const Deadline& deadline) override {
    const LakeFile& file = inventory.files[granule.file];
    const uint64_t rows = granule.rows ? granule.rows : UINT64_MAX;
    const bool compressed = granule.part == kCompressed;
    HR_ASSIGN_OR_RETURN(TarReader tar, TarReader::Open(lake_, file, compressed ? 0 : granule.first));
    auto reader = std::make_unique<SampleReader>(std::move(tar), compressed ? UINT64_MAX : granule.first + granule.count,
                                                 compressed && granule.rows ? granule.first + rows : rows,
                                                 compressed ? 0 : first_row, plan);
    if (compressed && granule.first > 0) {
      HR_ASSIGN_OR_RETURN(uint64_t skipped, reader->Skip(granule.first, deadline));
      if (skipped != granule.first)
        return Status(Code::kCorrupt, Cat("cannot read ", file.uri, ": it has fewer samples than the inventory says"));
    }
    return reader;
  }
};

}  // namespace

std::unique_ptr<Format> MakeWebdatasetFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake) {
  return std::make_unique<WebdatasetFormat>(spec, std::move(lake));
}

}  // namespace headrace
