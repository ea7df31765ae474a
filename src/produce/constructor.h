// Puts the samples of a planned step into cells.
//
// Packed: tokens [sequences, length], cu_seqlens and source of every segment (padding is a segment of its own, source −1), loss_mask where some
// tokens are not trained on, kept columns with a row for each segment. Not packed: ragged columns with a row for each sample. Every cell also
// carries `step_stats`, facts about the whole step that each rank needs: label tokens, sequences, then samples and tokens of each source.
//
// Thread-safe: holds nothing but what it was told.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "headrace/store.h"
#include "plan/planner.h"
#include "produce/strand_feed.h"

namespace headrace {

// Where a run of elements in a cell came from.
struct LineageRow {
  uint32_t step = 0;  // of the chunk
  uint32_t lane = 0;
  uint32_t sequence = 0;  // of the lane
  uint32_t position = 0;  // in the sequence
  uint16_t source = 0;
  uint32_t file = 0;  // of the source's inventory
  int64_t row = 0;
  uint32_t start = 0;
  uint32_t length = 0;
};

// What a stream made by this recipe holds, as found in one window of each source: fixed when the stream is created.
struct CellLayout {
  std::vector<Column> columns;  // of the stream
  std::vector<std::string> kept;  // columns of samples that are carried through
  bool tokens = false;
  bool loss_mask = false;
};
// `schemas`: rows of each source after the transforms. `vocabulary`: the largest token is below, if anybody knows.
Result<CellLayout> LayoutFor(const Recipe& recipe, const std::vector<std::shared_ptr<arrow::RecordBatch>>& samples,
                             const std::vector<std::string>& sources, std::optional<uint64_t> vocabulary);
// The same from a stream's columns.
CellLayout LayoutOf(const std::vector<Column>& columns);
// Whether a source that gives such rows can be drawn from by a stream that was begun without it; if not, says which column of it does not fit and why.
Status CheckFits(const Recipe& recipe, const std::shared_ptr<arrow::RecordBatch>& rows, const std::string& source,
                 std::optional<uint64_t> vocabulary, const CellLayout& stream);

class Constructor {
 public:
  using Find = std::function<const HeldSample&(const Sequence&, const SampleRef&)>;

  Constructor(const Recipe& recipe, CellLayout layout) : recipe_(recipe), layout_(std::move(layout)) {}

  // One cell per lane. `step`: its place in the chunk.
  Result<std::vector<Body>> Build(const StepPlan& plan, const Find& find, uint32_t step, std::vector<LineageRow>& lineage) const;

 private:
  Result<std::vector<Array>> Packed(const StepPlan& plan, size_t lane, const Find& find, uint32_t step, const Array& stats,
                                    std::vector<LineageRow>& lineage) const;
  Result<std::vector<Array>> Ragged(const StepPlan& plan, size_t lane, const Find& find, uint32_t step, const Array& stats,
                                    std::vector<LineageRow>& lineage) const;
  Result<std::vector<Array>> Kept(const std::vector<const HeldSample*>& samples) const;

  const Recipe& recipe_;
  const CellLayout layout_;
};

}  // namespace headrace
