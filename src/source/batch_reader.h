// A granule that comes as record batches, one after the other.
#pragma once

#include <memory>
#include <string>

#include "source/format.h"

namespace headrace {

class BatchReader : public GranuleReader {
 public:
  // Of `left` rows the first has the number `row`.
  BatchReader(std::shared_ptr<arrow::Schema> schema, uint64_t row, uint64_t left, std::string what)
      : schema_(std::move(schema)), row_(row), left_(left), what_(std::move(what)) {}

  Result<RowRun> Read(uint64_t rows, const Deadline& deadline) final;
  Result<uint64_t> Skip(uint64_t rows, const Deadline& deadline) final;

 protected:
  // The next one, or nothing at the end. An empty one is passed over.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Next(const Deadline& deadline) = 0;

  uint64_t left() const { return left_; }
  const std::string& what() const { return what_; }

 private:
  // `batch_` is the rest of a batch that has rows, or nothing at the end.
  Status Fill(const Deadline& deadline);
  void Advance(uint64_t count);

  const std::shared_ptr<arrow::Schema> schema_;
  uint64_t row_, left_;
  const std::string what_;
  std::shared_ptr<arrow::RecordBatch> batch_;
};

}  // namespace headrace
