// Parquet. A part is a row group; rows of a part are decoded from its beginning, in small batches and only the columns that are wanted.
#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>

#include "base/text.h"
#include "source/batch_reader.h"
#include "source/block_pool.h"
#include "source/run_reader.h"
#include "source/window_budget.h"

namespace headrace {
namespace {

constexpr int64_t kStreamBytes = 4 << 20;  // of one column's buffer where reads cost a request
constexpr size_t kFootersKept = 64;
// Of one batch, decoded: what Parquet writes on the way (levels, values, bitmaps) stays in the processor's cache then, and is written over by the next.
constexpr uint64_t kBatchBytes = 512 << 10;
// Row groups up to here are decoded once and kept for their other granules; above, each granule decodes what lies before it.
constexpr uint64_t kSharedBytes = 64 << 20;

// What its rows take in memory, about: dictionaries and runs make files much smaller than what comes out of them.
uint64_t DecodedBytes(const parquet::RowGroupMetaData& group, const std::vector<int>& columns) {
  uint64_t bytes = 0;
  for (int i : columns) {
    const auto column = group.ColumnChunk(i);
    uint64_t width = 8;
    if (column->type() == parquet::Type::INT32 || column->type() == parquet::Type::FLOAT) width = 4;
    if (column->type() == parquet::Type::BOOLEAN) width = 1;
    bytes += std::max<uint64_t>(column->total_uncompressed_size(), static_cast<uint64_t>(column->num_values()) * width);
  }
  return bytes;
}

// How many rows of these columns make a batch.
int64_t BatchRows(const parquet::FileMetaData& footer, const std::vector<int>& groups, const std::vector<int>& columns,
                  uint64_t most) {
  uint64_t rows = 0, bytes = 0;
  for (int i : groups) {
    const auto group = footer.RowGroup(i);
    rows += static_cast<uint64_t>(group->num_rows());
    bytes += DecodedBytes(*group, columns);
  }
  return static_cast<int64_t>(
      std::clamp<uint64_t>(kBatchBytes * rows / std::max<uint64_t>(1, bytes), 1, std::max<uint64_t>(1, most)));
}

uint64_t DecodedBytes(const parquet::RowGroupMetaData& group) {
  std::vector<int> all(static_cast<size_t>(group.num_columns()));
  std::iota(all.begin(), all.end(), 0);
  return DecodedBytes(group, all);
}

// Where these columns of a row group lie: from … to.
std::pair<int64_t, int64_t> Extent(const parquet::RowGroupMetaData& group, const std::vector<int>& columns) {
  int64_t from = INT64_MAX, to = 0;
  for (int i : columns) {
    const auto column = group.ColumnChunk(i);
    int64_t first = column->data_page_offset();
    if (column->has_dictionary_page() && column->dictionary_page_offset() > 0)
      first = std::min(first, column->dictionary_page_offset());
    from = std::min(from, first);
    to = std::max(to, first + column->total_compressed_size());
  }
  return {from, to};
}

struct OpenParquet {
  std::shared_ptr<LakeInput> input;
  std::unique_ptr<parquet::arrow::FileReader> reader;
};

// What is asked of a footer for each granule. A row group of a footer is made anew each time it is asked for: with thousands of row groups in a file, to ask
// all of them for each one of them would take longer than to read them.
struct Footer {
  std::shared_ptr<parquet::FileMetaData> metadata;
  std::vector<uint64_t> first_rows;  // by row group: rows of those before

  explicit Footer(std::shared_ptr<parquet::FileMetaData> of) : metadata(std::move(of)) {
    uint64_t rows = 0;
    for (int i = 0; i < metadata->num_row_groups(); ++i) {
      first_rows.push_back(rows);
      rows += static_cast<uint64_t>(metadata->RowGroup(i)->num_rows());
    }
  }
};

// Readers that nobody uses now, for the next granule of the same file: to make one takes longer than to read a small row group, and what it has read of the file may
// hold that too. Thread-safe; each of them has one user at a time.
class IdleReaders {
 public:
  std::optional<OpenParquet> Take(uint32_t file) {
    std::lock_guard lock(mutex_);
    for (auto idle = idle_.begin(); idle != idle_.end(); ++idle) {
      if (idle->first != file) continue;
      OpenParquet open = std::move(idle->second);
      idle_.erase(idle);
      return open;
    }
    return std::nullopt;
  }
  void Give(uint32_t file, OpenParquet open) {
    open.input->KeepLittle();
    std::list<std::pair<uint32_t, OpenParquet>> oldest;  // goes after the lock
    std::lock_guard lock(mutex_);
    idle_.emplace_front(file, std::move(open));
    if (idle_.size() > kMost) oldest.splice(oldest.begin(), idle_, std::prev(idle_.end()));
  }

 private:
  static constexpr size_t kMost = 2;  // of each source, and there may be hundreds of them
  std::mutex mutex_;
  std::list<std::pair<uint32_t, OpenParquet>> idle_;  // last used first
};

Result<OpenParquet> OpenFile(const std::shared_ptr<const Lake>& lake, const LakeFile& file,
                             std::shared_ptr<parquet::FileMetaData> footer, const Deadline& deadline) {
  OpenParquet open{.input = std::make_shared<LakeInput>(lake, file), .reader = nullptr};
  open.input->SetDeadline(deadline);
  parquet::ReaderProperties properties(BlockPool());
  if (!lake->local(file.uri)) {
    properties.enable_buffered_stream();
    properties.set_buffer_size(kStreamBytes);
  }
  parquet::ArrowReaderProperties arrow_properties(false);
  arrow_properties.set_pre_buffer(false);
  const std::string what = "cannot open a Parquet file";
  try {
    parquet::arrow::FileReaderBuilder builder;
    arrow::Status status = builder.Open(open.input, properties, std::move(footer));
    if (status.ok()) status = builder.memory_pool(BlockPool())->properties(arrow_properties)->Build(&open.reader);
    if (!status.ok()) return open.input->Explain(status, what);
  } catch (const std::exception& failure) {  // Parquet's own way to say that bytes are no Parquet
    return open.input->Explain(arrow::Status::Invalid(failure.what()), what);
  }
  return open;
}

class ParquetReader final : public BatchReader {
 public:
  ParquetReader(OpenParquet open, std::unique_ptr<arrow::RecordBatchReader> batches, const ReadPlan& plan, uint64_t first_row,
                uint64_t rows, std::string what, std::shared_ptr<IdleReaders> idle, uint32_t file)
      : BatchReader(plan.schema, first_row, rows, std::move(what)),
        open_(std::move(open)),
        batches_(std::move(batches)),
        idle_(std::move(idle)),
        file_(file) {}
  ~ParquetReader() override {
    batches_.reset();
    if (!failed_) idle_->Give(file_, std::move(open_));
  }

 private:
  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Deadline& deadline) override {
    open_.input->SetDeadline(deadline);
    std::shared_ptr<arrow::RecordBatch> batch;
    arrow::Status status;
    try {
      status = batches_->ReadNext(&batch);
    } catch (const std::exception& failure) {
      status = arrow::Status::Invalid(failure.what());
    }
    failed_ = !status.ok() || !batch;
    if (!status.ok()) return open_.input->Explain(status, what());
    if (!batch) return Status(Code::kCorrupt, Cat(what(), ": it ends ", left(), " rows before its footer says"));
    return batch;
  }

  OpenParquet open_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  const std::shared_ptr<IdleReaders> idle_;
  const uint32_t file_;
  bool failed_ = false;
};

class ParquetFormat final : public Format {
 public:
  using Format::Format;

  Result<FileFacts> Scan(const LakeFile& file, const ScanPlan& plan, const Deadline& deadline) override {
    HR_ASSIGN_OR_RETURN(OpenParquet open, OpenFile(lake_, file, nullptr, deadline));
    FileFacts facts{.parts = {}, .schema = nullptr, .seekable = false, .cheap_bytes = kSharedBytes};
    if (arrow::Status status = open.reader->GetSchema(&facts.schema); !status.ok())
      return open.input->Explain(status, "cannot read a schema");
    facts.schema = facts.schema->RemoveMetadata();
    const auto footer = open.reader->parquet_reader()->metadata();
    FilePart all{.part = kAllParts};
    for (int i = 0; i < footer->num_row_groups(); ++i) {
      const auto group = footer->RowGroup(i);
      const auto rows = static_cast<uint64_t>(group->num_rows()), bytes = DecodedBytes(*group);
      if (rows == 0) continue;
      all.count = all.rows += rows;
      all.bytes += bytes;
      if (plan.group_size == 1)
        facts.parts.push_back({.part = static_cast<uint32_t>(i), .count = rows, .rows = rows, .bytes = bytes});
    }
    // Groups of rows may lie across two row groups.
    if (plan.group_size > 1 && all.rows > 0) facts.parts.push_back(std::move(all));
    return facts;
  }

  Result<std::unique_ptr<GranuleReader>> Open(const Inventory& inventory, const Granule& granule, uint64_t, const ReadPlan& plan,
                                              const Deadline& deadline) override {
    const LakeFile& file = inventory.files[granule.file];
    const std::string what =
        granule.part == kAllParts ? Cat("cannot read ", file.uri) : Cat("cannot read row group ", granule.part, " of ", file.uri);
    std::shared_ptr<const Footer> known = FindFooter(granule.file);
    std::optional<OpenParquet> idle = idle_->Take(granule.file);
    if (idle) idle->input->SetDeadline(deadline);
    if (!idle) {
      HR_ASSIGN_OR_RETURN(idle, OpenFile(lake_, file, known ? known->metadata : nullptr, deadline));
    }
    OpenParquet open = *std::move(idle);
    if (!known) known = KeepFooter(granule.file, open.reader->parquet_reader()->metadata());
    const std::shared_ptr<parquet::FileMetaData>& footer = known->metadata;
    std::set<std::string> wanted;
    for (const auto& field : plan.schema->fields()) wanted.insert(field->name());
    std::vector<int> columns, groups;
    for (int i = 0; i < footer->num_columns(); ++i) {
      if (wanted.contains(footer->schema()->Column(i)->path()->ToDotVector().front())) columns.push_back(i);
    }
    uint64_t first_row = granule.first;
    if (granule.part == kAllParts) {
      groups.resize(known->first_rows.size());
      std::iota(groups.begin(), groups.end(), 0);
    } else if (granule.part < known->first_rows.size()) {
      groups.push_back(static_cast<int>(granule.part));
      first_row += known->first_rows[granule.part];
    }
    if (groups.empty())
      return Status(Code::kCorrupt, Cat(what, ": there is no such row group; the inventory is of another file"));
    if (groups.size() == 1 && !columns.empty()) {
      const auto [from, to] = Extent(*footer->RowGroup(groups.front()), columns);
      open.input->Expect(from, to - from);
    }
    std::unique_ptr<arrow::RecordBatchReader> batches;
    open.reader->set_batch_size(BatchRows(*footer, groups, columns, std::min<uint64_t>(plan.batch_rows, 8192)));
    try {
      auto made = open.reader->GetRecordBatchReader(groups, columns);
      if (!made.ok()) return open.input->Explain(made.status(), what);
      batches = std::move(made).ValueUnsafe();
    } catch (const std::exception& failure) {
      return open.input->Explain(arrow::Status::Invalid(failure.what()), what);
    }
    if (groups.size() == 1 && plan.budget) {
      const auto group = footer->RowGroup(groups.front());
      const uint64_t bytes = DecodedBytes(*group);
      if (granule.count < static_cast<uint64_t>(group->num_rows()) && bytes <= kSharedBytes && plan.budget->CanShare(bytes)) {
        auto part = plan.budget->Share({plan.loader, granule.file, granule.part}, bytes);
        HR_RETURN_IF_ERROR(Decode(*part, open, *batches, what));
        batches.reset();
        idle_->Give(granule.file, std::move(open));
        return std::make_unique<RunReader>(
            granule.first, granule.count,
            [part, plan, base = first_row - granule.first, what](uint64_t first, uint64_t count, const Deadline&) {
              return Slice(*part, plan, base, first, count, what);
            });
      }
    }
    // A reader of all columns' rows from the beginning of the part; its own first rows are left out here.
    auto reader = std::make_unique<ParquetReader>(std::move(open), std::move(batches), plan, first_row - granule.first,
                                                  granule.first + granule.count, what, idle_, granule.file);
    HR_ASSIGN_OR_RETURN(uint64_t skipped, reader->Skip(granule.first, deadline));
    if (skipped != granule.first) return Status(Code::kCorrupt, Cat(what, ": it has fewer rows than the inventory says"));
    return reader;
  }

 private:
  static Status Decode(SharedPart& part, OpenParquet& open, arrow::RecordBatchReader& batches, const std::string& what) {
    std::lock_guard lock(part.mutex);
    if (part.filled) return {};
    part.batches.clear();
    while (true) {
      std::shared_ptr<arrow::RecordBatch> batch;
      arrow::Status status;
      try {
        status = batches.ReadNext(&batch);
      } catch (const std::exception& failure) {
        status = arrow::Status::Invalid(failure.what());
      }
      if (!status.ok()) return open.input->Explain(status, what);
      if (!batch) break;
      part.batches.push_back(std::move(batch));
    }
    part.filled = true;
    return {};
  }

  static Result<RowRun> Slice(const SharedPart& part, const ReadPlan& plan, uint64_t base, uint64_t first, uint64_t count,
                              const std::string& what) {
    uint64_t begin = 0;
    for (const auto& batch : part.batches) {
      const auto rows = static_cast<uint64_t>(batch->num_rows());
      if (first < begin + rows) {
        RowRun run;
        run.consumed = std::min(count, begin + rows - first);
        HR_ASSIGN_OR_RETURN(
            run.rows, Conform(batch->Slice(static_cast<int64_t>(first - begin), static_cast<int64_t>(run.consumed)), plan.schema,
                              base + first, what));
        return run;
      }
      begin += rows;
    }
    return Status(Code::kCorrupt, Cat(what, ": it ends before its footer says"));
  }

  std::shared_ptr<const Footer> FindFooter(uint32_t file) {
    std::lock_guard lock(mutex_);
    for (auto footer = footers_.begin(); footer != footers_.end(); ++footer) {
      if (footer->first != file) continue;
      footers_.splice(footers_.begin(), footers_, footer);
      return footers_.front().second;
    }
    return nullptr;
  }
  std::shared_ptr<const Footer> KeepFooter(uint32_t file, std::shared_ptr<parquet::FileMetaData> metadata) {
    auto footer = std::make_shared<const Footer>(std::move(metadata));
    std::lock_guard lock(mutex_);
    footers_.emplace_front(file, footer);
    if (footers_.size() > kFootersKept) footers_.pop_back();
    return footer;
  }

  std::mutex mutex_;
  std::list<std::pair<uint32_t, std::shared_ptr<const Footer>>> footers_;  // last used first
  const std::shared_ptr<IdleReaders> idle_ = std::make_shared<IdleReaders>();
};

}  // namespace

std::unique_ptr<Format> MakeParquetFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake) {
  return std::make_unique<ParquetFormat>(spec, std::move(lake));
}

}  // namespace headrace
