// One source, in the order of every strand: any window of it, from any instance, at any time.
//
// A window is a pure function of the inventory, the seed, the strand and the position, so that a second instance is a hot spare without further
// protocol, and one that was forgotten can be loaded again. One loader per source and process serves all strands of that process; what it
// keeps counts against one memory budget over all loaders.
//
// Thread-safe.
#pragma once

#include <arrow/record_batch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "recipe/position.h"
#include "source/inventory.h"
#include "source/order.h"

namespace headrace {

// A row that cannot be used, and why.
struct BadRow {
  int64_t row;  // of the batch
  std::string why;
  bool skip = false;  // the transform's own on_error says so: it is dropped whatever bad_samples says
  bool failed = false;  // the whole transform failed, and here: its Status says why
};

// What happens to rows before they are planned (transform/). Batches carry the columns `__file` (int32, index into the inventory's files) and
// `__row` (int64, in that file), which stay with their rows. Rows named in `bad` are dropped by the caller or end it, as the recipe says.
// `seed` is a pure function of the place of the batch in the source.
using RowTransform = std::function<Result<std::shared_ptr<arrow::RecordBatch>>(const std::shared_ptr<arrow::RecordBatch>& batch,
                                                                               uint64_t seed, std::vector<BadRow>& bad)>;

struct Window {
  // The rows, transformed, in file order, with __file and __row, as they were decoded: they are copied only where something needs them in one batch. Never
  // empty; if there are no rows, one batch that has none and is not transformed.
  std::vector<std::shared_ptr<arrow::RecordBatch>> parts;
  // By part: as long as somebody has this, its memory counts as used.
  std::vector<std::shared_ptr<const void>> counted;
  std::vector<uint32_t>
      order;  // shuffled: sample i of the piece is row order[i], counted through the parts; with groups, neighbours stay together
  bool last_of_group = false;
  std::string first_bad;  // for people: its first bad row and why, if it has any
  uint64_t skipped = 0;  // bad rows; counting them against a limit over all windows is the strand's
  uint64_t bytes = 0;  // in memory
};

// Memory that all loaders of a process share, in bytes; the least recently used windows are forgotten beyond it. What is in use all the same makes it
// tight: see WindowBudget::Tight.
class WindowBudget;
std::shared_ptr<WindowBudget> MakeWindowBudget(uint64_t bytes);

struct SourceLoaderOptions {
  uint64_t seed = 0;
  uint32_t strands = 1;
  bool shuffle = true;
  uint32_t group_size = 1;
  double holdout_fraction = 0;  // rows whose hash of `holdout_by` (or file and row, if empty) falls below are left out
  std::string holdout_by;
  bool holdout_split = false;  // the other way round: only those
  uint64_t limit = 0;
  BadSamples bad_samples;
  std::vector<std::string> columns;  // that are read at all; empty: all
  std::map<std::string, std::string> asked_by;  // which words of the recipe want a column, for the message that it is not there
  bool quiet = false;  // says nothing about bad samples that are left out: somebody reads them again
  bool row_by_row = false;  // the transform makes the same of a row whatever batch it comes in
  std::shared_ptr<WindowBudget> budget;
};

class SourceLoader {
 public:
  static Result<std::unique_ptr<SourceLoader>> Open(const SourceSpec& spec, std::shared_ptr<const Inventory> inventory,
                                                    SourceLoaderOptions options, RowTransform transform);
  virtual ~SourceLoader() = default;

  // How many groups the strand has in an epoch: its share of the shuffled granules. 0: the source is too small for this strand.
  virtual uint32_t Groups(uint16_t strand, uint32_t epoch) const = 0;
  // Where `share` (0 to 1) of the epoch ends for this strand.
  virtual EpochCut Cut(uint16_t strand, uint32_t epoch, double share) = 0;
  // The window at `at` (its index does not matter). An empty one past the end of the group is an error: ask `last_of_group`.
  virtual Result<std::shared_ptr<const Window>> Load(uint16_t strand, const Position& at, const Deadline& deadline) = 0;
  // Begins to load it in the background, if there is room.
  virtual void Prefetch(uint16_t strand, const Position& at) = 0;
  // The strand is through with it: its memory is better used for the next one. Who wants it all the same loads it again.
  virtual void Forget(uint16_t strand, const Position& at) = 0;

  virtual const Inventory& inventory() const = 0;
  // The columns that are read, before the transform and without __file and __row.
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
};

}  // namespace headrace
