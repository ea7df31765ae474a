// Rows of tokens: one column `tokens`, a list of int32, from any integer type.
#pragma once

#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>

#include <cstring>
#include <limits>
#include <vector>

#include "base/text.h"
#include "source/format.h"

namespace headrace {

inline constexpr std::string_view kTokenColumn = "tokens";

inline std::shared_ptr<arrow::Schema> TokenSchema() {
  return arrow::schema({arrow::field(std::string(kTokenColumn), arrow::list(arrow::field("item", arrow::int32())))});
}

bool IsTokenType(Dtype dtype);
int64_t TokenAt(const std::byte* bytes, Dtype dtype);

// Not thread-safe.
class TokenRows {
 public:
  explicit TokenRows(const ReadPlan& plan) : wanted_(plan.schema->num_fields() > 0) {}

  // One row more, numbered `row`; goes to `bad` if a token does not fit.
  void Begin(int64_t row);
  void Add(std::span<const std::byte> bytes, Dtype dtype);
  void End();
  uint64_t rows() const { return consumed_; }
  uint64_t tokens() const { return values_.size(); }
  Result<RowRun> Finish();

 private:
  const bool wanted_;
  std::vector<int32_t> values_, offsets_ = {0};
  std::vector<int64_t> numbers_;
  std::vector<RowFailure> bad_;
  int64_t row_ = 0;
  std::string why_;
  uint64_t consumed_ = 0;
};

}  // namespace headrace
