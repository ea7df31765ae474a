#include "cli/lake/arrow_ipc_steps.h"

#include <arrow/buffer.h>
#include <arrow/io/file.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/reader.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/input_descriptor.h"
#include "cli/lake/arrow_columns.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kMagic = "ARROW1";
constexpr size_t kMagicBytes = 8;  // with its padding

// A descriptor as Arrow reads it, in order. What went wrong with reading itself is kept, since Arrow's words for it say less.
class OrderedInput final : public arrow::io::InputStream {
 public:
  OrderedInput(int descriptor, std::stop_token stop) : descriptor_(descriptor), stop_(std::move(stop)) {}

  const Status& failure() const { return failure_; }
  // The last bytes that were read.
  const std::string& last() const { return last_; }

  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    std::span<char> into(static_cast<char*>(out), static_cast<size_t>(bytes));
    size_t filled = 0;
    while (filled < into.size()) {
      Result<size_t> got = ReadWhenReady(descriptor_, into.subspan(filled), "it", stop_);
      if (!got.ok()) {
        failure_ = got.status();
        return arrow::Status::IOError(failure_.message());
      }
      if (*got == 0) break;
      filled += *got;
    }
    at_ += static_cast<int64_t>(filled);
    last_.append(into.data() + filled - std::min(filled, kMagic.size()), std::min(filled, kMagic.size()));
    last_.erase(0, last_.size() - std::min(last_.size(), kMagic.size()));
    return static_cast<int64_t>(filled);
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(std::unique_ptr<arrow::ResizableBuffer> buffer, arrow::AllocateResizableBuffer(bytes));
    ARROW_ASSIGN_OR_RAISE(int64_t got, Read(bytes, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(got, /*shrink_to_fit=*/false));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return at_; }

 private:
  const int descriptor_;
  const std::stop_token stop_;
  Status failure_;
  std::string last_;
  int64_t at_ = 0;
  bool closed_ = false;
};

Status Damaged(const arrow::Status& status) {
  return Status(Code::kInvalidArgument, fmt::format("it is damaged, cut short or no Arrow IPC: {}", status.message()));
}

arrow::ipc::IpcReadOptions ReadOptions() {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  return options;
}

// What both kinds of reading share: the number of the batch, and what its columns are.
class BatchSteps : public ArrowSteps {
 public:
  explicit BatchSteps(const std::vector<Column>& columns) : columns_(columns) {}

  Result<std::optional<std::vector<StepColumn>>> Next() override {
    using Step = std::optional<std::vector<StepColumn>>;
    ++at_;
    HR_ASSIGN_OR_RETURN(std::shared_ptr<arrow::RecordBatch> batch, Read(at_));
    if (!batch) return Step();
    HR_ASSIGN_OR_RETURN(std::vector<StepColumn> step, StepFromArrow(*batch, columns_));
    return Step(std::move(step));
  }
  Result<bool> Skip() override { return PassOver(++at_); }
  // As pyarrow's get_batch counts.
  std::string where() const override { return fmt::format("record batch {}", at_); }

 protected:
  // Nothing at the end. Numbers rise by one, from 0.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Read(int number) = 0;
  virtual Result<bool> PassOver(int number) = 0;

 private:
  const std::vector<Column>& columns_;
  int at_ = -1;
};

class SoughtSteps final : public BatchSteps {
 public:
  SoughtSteps(std::shared_ptr<arrow::ipc::RecordBatchFileReader> file, const std::vector<Column>& columns)
      : BatchSteps(columns), file_(std::move(file)) {}

 private:
  Result<std::shared_ptr<arrow::RecordBatch>> Read(int number) override {
    if (number >= file_->num_record_batches()) return std::shared_ptr<arrow::RecordBatch>();
    arrow::Result<std::shared_ptr<arrow::RecordBatch>> batch = file_->ReadRecordBatch(number);
    if (!batch.ok()) return Damaged(batch.status());
    return *batch;
  }
  Result<bool> PassOver(int number) override { return number < file_->num_record_batches(); }

  const std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
};

class OrderedSteps final : public BatchSteps {
 public:
  OrderedSteps(std::shared_ptr<OrderedInput> input, bool is_file, const std::vector<Column>& columns)
      : BatchSteps(columns), input_(std::move(input)), is_file_(is_file) {}

 private:
  Status Explain(const arrow::Status& status) const { return input_->failure().ok() ? Damaged(status) : input_->failure(); }

  Result<std::shared_ptr<arrow::RecordBatch>> Read(int) override {
    // Opened late, because a pipe may take its time to say what its columns are.
    if (!reader_) {
      auto opened = arrow::ipc::RecordBatchStreamReader::Open(input_, ReadOptions());
      if (!opened.ok()) return Explain(opened.status());
      reader_ = *opened;
    }
    std::shared_ptr<arrow::RecordBatch> batch;
    if (arrow::Status status = reader_->ReadNext(&batch); !status.ok()) return Explain(status);
    if (!batch && is_file_) HR_RETURN_IF_ERROR(CheckEnd());
    return batch;
  }
  Result<bool> PassOver(int number) override {
    HR_ASSIGN_OR_RETURN(std::shared_ptr<arrow::RecordBatch> batch, Read(number));
    return batch != nullptr;
  }

  // After the batches a file has a footer, and at its very end the magic again.
  Status CheckEnd() {
    std::string rest(1 << 16, '\0');
    while (true) {
      arrow::Result<int64_t> got = input_->Read(static_cast<int64_t>(rest.size()), rest.data());
      if (!got.ok()) return Explain(got.status());
      if (*got == 0) break;
    }
    if (input_->last() == kMagic) return {};
    return Status(Code::kInvalidArgument, "the file is cut short: its end is missing");
  }

  const std::shared_ptr<OrderedInput> input_;
  const bool is_file_;
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> reader_;
};

}  // namespace

Result<std::unique_ptr<ArrowSteps>> OpenArrowIpcSteps(int descriptor, const std::vector<Column>& columns,
                                                      const std::stop_token& stop) {
  struct stat facts{};
  const bool can_seek = fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) && lseek(descriptor, 0, SEEK_CUR) == 0;
  char head[kMagicBytes] = {};
  if (can_seek && pread(descriptor, head, sizeof(head), 0) == sizeof(head) && std::string_view(head, kMagic.size()) == kMagic) {
    auto input = arrow::io::ReadableFile::Open(dup(descriptor));
    if (!input.ok()) return Status(Code::kUnavailable, input.status().message());
    auto file = arrow::ipc::RecordBatchFileReader::Open(*input, ReadOptions());
    if (!file.ok()) return Damaged(file.status());
    return std::make_unique<SoughtSteps>(*file, columns);
  }
  HR_ASSIGN_OR_RETURN(std::string begin, PeekWhenReady(descriptor, kMagic.size(), stop));
  auto input = std::make_shared<OrderedInput>(descriptor, stop);
  const bool is_file = BeginsLikeArrow(begin) && begin.starts_with('A');
  // Between its magic and its footer a file is a stream.
  if (is_file && !input->Read(kMagicBytes, head).ok()) return input->failure();
  return std::make_unique<OrderedSteps>(std::move(input), is_file, columns);
}

}  // namespace headrace::cli
