#include "produce/lineage.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

#include "base/text.h"

namespace headrace {
namespace {

Status From(const arrow::Status& status, std::string_view what) {
  return Status(Code::kInternal, Cat(what, ": ", status.ToString()));
}

std::shared_ptr<arrow::Schema> LineageSchema() {
  return arrow::schema({arrow::field("block_step", arrow::uint32()), arrow::field("lane", arrow::uint32()),
                        arrow::field("sequence", arrow::uint32()), arrow::field("position", arrow::uint32()),
                        arrow::field("source", arrow::utf8()), arrow::field("file", arrow::utf8()),
                        arrow::field("row", arrow::int64()), arrow::field("start", arrow::uint32()),
                        arrow::field("length", arrow::uint32()), arrow::field("mixture", arrow::uint32())});
}

template <typename T>
std::shared_ptr<arrow::Array> Numbers(const std::shared_ptr<arrow::DataType>& type, size_t count,
                                      const std::function<T(size_t)>& value) {
  std::shared_ptr<arrow::Buffer> buffer = arrow::AllocateBuffer(static_cast<int64_t>(count * sizeof(T))).ValueOrDie();
  T* out = reinterpret_cast<T*>(buffer->mutable_data());
  for (size_t i = 0; i < count; ++i) out[i] = value(i);
  return arrow::MakeArray(arrow::ArrayData::Make(type, static_cast<int64_t>(count), {nullptr, buffer}, 0));
}

}  // namespace

std::string LineageKey(const ChunkName& name) { return "lineage/" + name.Key().substr(std::string_view("data/").size()); }

Result<std::string> EncodeLineage(std::span<const LineageRow> rows, const std::vector<std::string>& sources, uint32_t mixture,
                                  const std::function<const std::string&(uint16_t source, uint32_t file)>& file) {
  const auto number = [&](uint32_t LineageRow::* member) {
    return Numbers<uint32_t>(arrow::uint32(), rows.size(), [&, member](size_t i) { return rows[i].*member; });
  };
  arrow::StringBuilder source_names, files;
  for (const LineageRow& row : rows) {
    if (arrow::Status added = source_names.Append(sources[row.source]); !added.ok()) return From(added, "lineage");
    if (arrow::Status added = files.Append(file(row.source, row.file)); !added.ok()) return From(added, "lineage");
  }
  auto names = source_names.Finish();
  auto uris = files.Finish();
  if (!names.ok()) return From(names.status(), "lineage");
  if (!uris.ok()) return From(uris.status(), "lineage");
  auto batch = arrow::Table::Make(
      LineageSchema(),
      {number(&LineageRow::step), number(&LineageRow::lane), number(&LineageRow::sequence), number(&LineageRow::position), *names,
       *uris, Numbers<int64_t>(arrow::int64(), rows.size(), [&](size_t i) { return rows[i].row; }), number(&LineageRow::start),
       number(&LineageRow::length), Numbers<uint32_t>(arrow::uint32(), rows.size(), [&](size_t) { return mixture; })});
  auto out = arrow::io::BufferOutputStream::Create();
  if (!out.ok()) return From(out.status(), "lineage");
  auto properties = parquet::WriterProperties::Builder().compression(parquet::Compression::ZSTD)->build();
  arrow::Status written =
      parquet::arrow::WriteTable(*batch, arrow::default_memory_pool(), *out, std::max<int64_t>(1, batch->num_rows()), properties);
  if (!written.ok()) return From(written, "lineage");
  auto bytes = (*out)->Finish();
  if (!bytes.ok()) return From(bytes.status(), "lineage");
  return (*bytes)->ToString();
}

Result<std::vector<LineageSample>> DecodeLineage(const Bytes& bytes, std::string_view what) {
  const auto broken = [&](const arrow::Status& status) {
    return Status(Code::kCorrupt, Cat(what, " is damaged: ", status.ToString()));
  };
  auto buffer =
      std::make_shared<arrow::Buffer>(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int64_t>(bytes.size()));
  auto reader = parquet::arrow::OpenFile(std::make_shared<arrow::io::BufferReader>(buffer), arrow::default_memory_pool());
  if (!reader.ok()) return broken(reader.status());
  std::shared_ptr<arrow::Table> table;
  auto read = (*reader)->ReadTable();
  if (!read.ok()) return broken(read.status());
  table = *read;
  auto whole = table->CombineChunksToBatch();
  if (!whole.ok()) return broken(whole.status());
  const arrow::RecordBatch& batch = **whole;
  const auto numbers = [&](const char* name) {
    return std::dynamic_pointer_cast<arrow::UInt32Array>(batch.GetColumnByName(name));
  };
  const auto texts = [&](const char* name) { return std::dynamic_pointer_cast<arrow::StringArray>(batch.GetColumnByName(name)); };
  auto step = numbers("block_step"), lane = numbers("lane"), sequence = numbers("sequence"), position = numbers("position"),
       start = numbers("start"), length = numbers("length"), mixture = numbers("mixture");
  auto source = texts("source"), file = texts("file");
  auto row = std::dynamic_pointer_cast<arrow::Int64Array>(batch.GetColumnByName("row"));
  if (!step || !lane || !sequence || !position || !start || !length || !mixture || !source || !file || !row)
    return Status(Code::kCorrupt, Cat(what, " is damaged: it has other columns than lineage has"));
  std::vector<LineageSample> samples;
  samples.reserve(static_cast<size_t>(batch.num_rows()));
  for (int64_t i = 0; i < batch.num_rows(); ++i) {
    samples.push_back({step->Value(i), lane->Value(i), sequence->Value(i), position->Value(i), source->GetString(i),
                       file->GetString(i), row->Value(i), start->Value(i), length->Value(i), mixture->Value(i)});
  }
  return samples;
}

}  // namespace headrace
