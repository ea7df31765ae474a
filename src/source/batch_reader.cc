#include "source/batch_reader.h"

#include <algorithm>

namespace headrace {

Result<RowRun> BatchReader::Read(uint64_t rows, const Deadline& deadline) {
  HR_RETURN_IF_ERROR(Fill(deadline));
  RowRun run;
  if (!batch_) return run;
  run.consumed = std::min<uint64_t>({rows, left_, static_cast<uint64_t>(batch_->num_rows())});
  HR_ASSIGN_OR_RETURN(run.rows, Conform(batch_->Slice(0, static_cast<int64_t>(run.consumed)), schema_, row_, what_));
  Advance(run.consumed);
  return run;
}

Result<uint64_t> BatchReader::Skip(uint64_t rows, const Deadline& deadline) {
  uint64_t skipped = 0;
  while (skipped < rows) {
    HR_RETURN_IF_ERROR(Fill(deadline));
    if (!batch_) break;
    const uint64_t count = std::min<uint64_t>({rows - skipped, left_, static_cast<uint64_t>(batch_->num_rows())});
    Advance(count);
    skipped += count;
  }
  return skipped;
}

void BatchReader::Advance(uint64_t count) {
  row_ += count;
  left_ -= count;
  batch_ = static_cast<int64_t>(count) < batch_->num_rows() ? batch_->Slice(static_cast<int64_t>(count)) : nullptr;
}

Status BatchReader::Fill(const Deadline& deadline) {
  if (left_ == 0) batch_ = nullptr;
  while (left_ > 0 && !batch_) {
    HR_ASSIGN_OR_RETURN(batch_, Next(deadline));
    if (!batch_) return {};
    if (batch_->num_rows() == 0) batch_ = nullptr;
  }
  return {};
}

}  // namespace headrace
