// Arrow IPC. A part of a file is a record batch; a stream (as Hugging Face's `datasets` leaves it) is one part, read from its beginning: where files are
// mapped, batches that are left out cost only the look at their headers.
#include <arrow/ipc/reader.h>

#include <algorithm>

#include "base/text.h"
#include "source/batch_reader.h"

namespace headrace {
namespace {

constexpr std::string_view kFileMagic = "ARROW1";

struct OpenArrow {
  std::shared_ptr<LakeInput> input;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file;
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> stream;
  std::shared_ptr<arrow::Schema> schema;
};

class ArrowReader final : public BatchReader {
 public:
  // `batches` batches of the file from `batch` on, or the stream; `left` rows, of which the first has the number `row`.
  ArrowReader(OpenArrow open, int batch, int batches, const ReadPlan& plan, uint64_t row, uint64_t left, std::string what)
      : BatchReader(plan.schema, row, left, std::move(what)), open_(std::move(open)), next_(batch), end_(batch + batches) {}

 private:
  Result<std::shared_ptr<arrow::RecordBatch>> Next(const Deadline& deadline) override {
    open_.input->SetDeadline(deadline);
    std::shared_ptr<arrow::RecordBatch> batch;
    if (!open_.file) {
      if (arrow::Status status = open_.stream->ReadNext(&batch); !status.ok()) return open_.input->Explain(status, what());
      return batch;
    }
    if (next_ == end_) return batch;
    auto read = open_.file->ReadRecordBatch(next_++);
    if (!read.ok()) return open_.input->Explain(read.status(), what());
    return *std::move(read);
  }

  OpenArrow open_;
  int next_;
  const int end_;
};

class ArrowFormat final : public Format {
 public:
  using Format::Format;

  bool CountsByReading(const LakeFile&) const override { return true; }

  Result<FileFacts> Scan(const LakeFile& file, const ScanPlan& plan, const Deadline& deadline) override {
    const std::string what = Cat("cannot read ", file.uri);
    HR_ASSIGN_OR_RETURN(OpenArrow open, OpenIpc(file, {}, deadline));
    FileFacts facts{.parts = {}, .schema = open.schema->RemoveMetadata(), .seekable = true};
    if (facts.schema->num_fields() > 0) {
      // One column is enough to know how long batches are.
      HR_ASSIGN_OR_RETURN(open, OpenIpc(file, {0}, deadline));
    }
    uint64_t rows = 0;
    if (open.file) {
      std::vector<uint64_t> batches;
      for (int i = 0; i < open.file->num_record_batches(); ++i) {
        auto batch = open.file->ReadRecordBatch(i);
        if (!batch.ok()) return open.input->Explain(batch.status(), what);
        batches.push_back(static_cast<uint64_t>((*batch)->num_rows()));
        rows += batches.back();
      }
      if (plan.group_size == 1) {
        for (size_t i = 0; i < batches.size(); ++i) {
          if (batches[i] == 0) continue;
          facts.parts.push_back({.part = static_cast<uint32_t>(i),
                                 .first = 0,
                                 .count = batches[i],
                                 .rows = batches[i],
                                 .bytes = std::max<uint64_t>(1, file.bytes * batches[i] / rows)});
        }
        return facts;
      }
    } else {
      facts.seekable = lake_->local(file.uri);
      std::shared_ptr<arrow::RecordBatch> batch;
      while (true) {
        if (arrow::Status status = open.stream->ReadNext(&batch); !status.ok()) return open.input->Explain(status, what);
        if (!batch) break;
        rows += static_cast<uint64_t>(batch->num_rows());
      }
    }
    if (rows > 0) facts.parts.push_back({.part = kAllParts, .first = 0, .count = rows, .rows = rows, .bytes = file.bytes});
    return facts;
  }

  Result<std::unique_ptr<GranuleReader>> Open(const Inventory& inventory, const Granule& granule, uint64_t first_row,
                                              const ReadPlan& plan, const Deadline& deadline) override {
    const LakeFile& file = inventory.files[granule.file];
    const std::string what = Cat("cannot read ", file.uri);
    HR_ASSIGN_OR_RETURN(OpenArrow open, OpenIpc(file, {}, deadline));
    std::vector<int> wanted;
    for (const auto& field : plan.schema->fields()) {
      if (int at = open.schema->GetFieldIndex(field->name()); at >= 0) wanted.push_back(at);
    }
    if (!wanted.empty() && static_cast<int>(wanted.size()) < open.schema->num_fields()) {
      HR_ASSIGN_OR_RETURN(open, OpenIpc(file, wanted, deadline));
    }
    int batch = 0, batches = 1;
    if (open.file) {
      batches = granule.part == kAllParts ? open.file->num_record_batches() : 1;
      batch = granule.part == kAllParts ? 0 : static_cast<int>(granule.part);
      if (batch >= open.file->num_record_batches())
        return Status(Code::kCorrupt, Cat(what, ": it has fewer batches than the inventory says"));
    }
    // Of one batch, the first row's number comes from the batches before it.
    const uint64_t row = granule.part == kAllParts ? 0 : first_row - granule.first;
    auto reader = std::make_unique<ArrowReader>(std::move(open), batch, batches, plan, row, granule.first + granule.count, what);
    HR_ASSIGN_OR_RETURN(uint64_t skipped, reader->Skip(granule.first, deadline));
    if (skipped != granule.first) return Status(Code::kCorrupt, Cat(what, ": it has fewer rows than the inventory says"));
    return reader;
  }

 private:
  Result<OpenArrow> OpenIpc(const LakeFile& file, std::vector<int> columns, const Deadline& deadline) const {
    OpenArrow open;
    open.input = std::make_shared<LakeInput>(lake_, file);
    open.input->SetDeadline(deadline);
    arrow::ipc::IpcReadOptions options;
    options.use_threads = false;
    options.included_fields = std::move(columns);
    const std::string what = "cannot open an Arrow file";
    auto head = open.input->ReadAt(0, static_cast<int64_t>(kFileMagic.size()));
    if (!head.ok()) return open.input->Explain(head.status(), what);
    if ((*head)->ToString() == kFileMagic) {
      auto made = arrow::ipc::RecordBatchFileReader::Open(open.input, options);
      if (!made.ok()) return open.input->Explain(made.status(), what);
      open.file = *made;
      open.schema = open.file->schema();
    } else {
      auto made = arrow::ipc::RecordBatchStreamReader::Open(open.input, options);
      if (!made.ok()) return open.input->Explain(made.status(), what);
      open.stream = *made;
      open.schema = open.stream->schema();
    }
    return open;
  }
};

}  // namespace

std::unique_ptr<Format> MakeArrowFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake) {
  return std::make_unique<ArrowFormat>(spec, std::move(lake));
}

}  // namespace headrace
