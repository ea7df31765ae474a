// JSON objects as rows: what types their values have, and how they become Arrow columns.
//
// Types are inferred once, from a sample, and kept with the inventory; a later row that does not fit them is a bad row. Whole numbers and others
// together are doubles; a whole number that its column cannot hold exactly makes a bad row, never another number. A list of objects is a list of structs (the `messages` of a chat); any other object, and values of several kinds, are kept as JSON
// text, except that a string among them stays the string that it is.
#pragma once

#include <arrow/array/builder_base.h>
#include <arrow/record_batch.h>
#include <arrow/status.h>
#include <arrow/type.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headrace/result.h"

namespace headrace {

class JsonTypes {
 public:
  JsonTypes();
  ~JsonTypes();
  JsonTypes(JsonTypes&&) noexcept;
  JsonTypes& operator=(JsonTypes&&) noexcept;

  // One row more of the sample. Text that is no JSON object is left out. Uses the text up, which a zero byte must follow.
  void Add(std::span<char> text);
  std::shared_ptr<arrow::Schema> Schema() const;

  struct Node;

 private:
  std::unique_ptr<Node> root_;
};

// Fills columns of one schema. Not thread-safe.
class JsonRows {
 public:
  explicit JsonRows(std::shared_ptr<arrow::Schema> schema);
  ~JsonRows();

  // Empty if the row was taken, else why not; then nothing was added. Uses the text up, which a zero byte must follow.
  std::string Add(std::span<char> text);
  int64_t rows() const { return rows_; }
  // About the memory that the rows take until now.
  uint64_t bytes() const { return bytes_; }
  Result<std::shared_ptr<arrow::RecordBatch>> Finish();

 private:
  const std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders_;
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
  arrow::Status failure_;  // no memory: told at the end
  int64_t rows_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace headrace
