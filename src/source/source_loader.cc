#include "source/source_loader.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/initialize.h>
#include <arrow/datum.h>
#include <arrow/scalar.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "base/log.h"
#include "base/nearest.h"
#include "base/text.h"
#include "source/block_pool.h"
#include "source/format.h"
#include "source/lake.h"
#include "source/order.h"
#include "source/window_budget.h"
#include "store/open.h"

namespace headrace {
namespace {

constexpr uint64_t kDefaultBudget = uint64_t{1} << 30;
constexpr size_t kEpochsKept = 4;
constexpr size_t kMostWarned = 10000;
// Batches of a window from here on are not worth a copy.
constexpr uint64_t kPartBytes = 128 << 10;

using Batch = std::shared_ptr<arrow::RecordBatch>;

struct BadPlace {
  uint32_t file;
  int64_t row;
  std::string why;
};

// The rows of a piece as the files have them.
struct Piece {
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;  // with __row and __file
  std::vector<BadPlace> bad;
  uint64_t consumed = 0;
  bool last = false;
};

std::shared_ptr<arrow::RecordBatch> WithFile(const std::shared_ptr<arrow::RecordBatch>& batch, uint32_t file) {
  std::shared_ptr<arrow::Buffer> buffer = *arrow::AllocateBuffer(batch->num_rows() * static_cast<int64_t>(sizeof(int32_t)));
  std::fill_n(reinterpret_cast<int32_t*>(buffer->mutable_data()), batch->num_rows(), static_cast<int32_t>(file));
  std::vector<std::shared_ptr<arrow::Field>> fields = batch->schema()->fields();
  std::vector<std::shared_ptr<arrow::Array>> columns = batch->columns();
  fields.push_back(arrow::field(std::string(kFileColumn), arrow::int32(), false));
  columns.push_back(std::make_shared<arrow::Int32Array>(batch->num_rows(), std::move(buffer)));
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), batch->num_rows(), std::move(columns));
}

// Reads the granules of a group one after the other.
class GranuleCursor final : public GroupCursor {
 public:
  GranuleCursor(Format& format, const Inventory& inventory, const std::vector<uint64_t>& first_rows,
                std::vector<uint32_t> granules, ReadPlan plan)
      : format_(format), inventory_(inventory), first_rows_(first_rows), granules_(std::move(granules)), plan_(std::move(plan)) {
    for (uint32_t granule : granules_) {
      known_ &= inventory_.granules[granule].rows > 0;
      rows_ += inventory_.granules[granule].rows;
    }
  }

  uint64_t row() const { return row_; }  // of the group: the next one

  uint64_t bytes() const override { return (reader_ ? reader_->bytes() : 0) + (peeked_ ? 64 << 10 : 0) + 1024; }

  // False: the group is over before.
  Result<bool> SkipTo(uint64_t row, const Deadline& deadline) {
    if (peeked_ && row > row_) {
      row_ += peeked_->consumed;
      peeked_.reset();
    }
    while (row_ < row) {
      // Granules that lie before it are not even opened.
      if (!reader_ && at_ < granules_.size()) {
        const uint64_t rows = inventory_.granules[granules_[at_]].rows;
        if (rows > 0 && row_ + rows <= row) {
          row_ += rows;
          ++at_;
          continue;
        }
      }
      HR_ASSIGN_OR_RETURN(bool there, Reader(deadline));
      if (!there) return false;
      HR_ASSIGN_OR_RETURN(uint64_t skipped, reader_->Skip(row - row_, deadline));
      row_ += skipped;
      if (row_ < row) NextGranule();
    }
    return true;
  }

  Result<Piece> Read(uint64_t rows, const Deadline& deadline) {
    Piece piece;
    while (piece.consumed < rows) {
      HR_ASSIGN_OR_RETURN(std::optional<RowRun> run, NextRun(rows - piece.consumed, deadline));
      if (!run) break;
      Take(piece, *std::move(run));
    }
    row_ += piece.consumed;
    if (known_) {
      piece.last = row_ >= rows_;
      if (piece.last && row_ != rows_) return Shorter();
      if (piece.consumed < rows && !piece.last) return Shorter();
    } else {
      HR_ASSIGN_OR_RETURN(peeked_, NextRun(1, deadline));
      piece.last = !peeked_;
    }
    return piece;
  }

 private:
  Status Shorter() const {
    return Status(Code::kCorrupt,
                  Cat("source ", inventory_.source, ": ", inventory_.files[inventory_.granules[granules_.back()].file].uri,
                      " or a file of the same group has other rows than the inventory says"));
  }

  void NextGranule() {
    reader_.reset();
    ++at_;
  }

  Result<bool> Reader(const Deadline& deadline) {
    if (reader_) return true;
    if (at_ >= granules_.size()) return false;
    const uint32_t granule = granules_[at_];
    HR_ASSIGN_OR_RETURN(reader_, format_.Open(inventory_, inventory_.granules[granule], first_rows_[granule], plan_, deadline));
    return true;
  }

  Result<std::optional<RowRun>> NextRun(uint64_t rows, const Deadline& deadline) {
    if (peeked_) return std::exchange(peeked_, std::nullopt);
    while (true) {
      HR_ASSIGN_OR_RETURN(bool there, Reader(deadline));
      if (!there) return std::optional<RowRun>();
      HR_ASSIGN_OR_RETURN(RowRun run, reader_->Read(rows, deadline));
      if (run.consumed == 0) {
        NextGranule();
        continue;
      }
      if (run.rows) run.rows = WithFile(run.rows, inventory_.granules[granules_[at_]].file);
      run_file_ = inventory_.granules[granules_[at_]].file;
      return std::optional(std::move(run));
    }
  }

  void Take(Piece& piece, RowRun run) {
    if (run.rows && run.rows->num_rows() > 0) piece.batches.push_back(std::move(run.rows));
    for (RowFailure& bad : run.bad) piece.bad.push_back({run_file_, bad.row, std::move(bad.why)});
    piece.consumed += run.consumed;
  }

  Format& format_;
  const Inventory& inventory_;
  const std::vector<uint64_t>& first_rows_;
  const std::vector<uint32_t> granules_;
  const ReadPlan plan_;
  bool known_ = true;  // how many rows the group has
  uint64_t rows_ = 0, row_ = 0;
  size_t at_ = 0;
  std::unique_ptr<GranuleReader> reader_;
  std::optional<RowRun> peeked_;  // its rows are not counted in row_ yet
  uint32_t run_file_ = 0;
};

class Loader final : public SourceLoader {
 public:
  Loader(std::shared_ptr<const Inventory> inventory, SourceLoaderOptions options, RowTransform transform,
         std::shared_ptr<Lake> lake, std::unique_ptr<Format> format, std::shared_ptr<arrow::Schema> schema)
      : inventory_(std::move(inventory)),
        options_(std::move(options)),
        transform_(std::move(transform)),
        lake_(std::move(lake)),
        format_(std::move(format)),
        schema_(std::move(schema)),
        order_{options_.seed, inventory_->source, options_.shuffle},
        budget_(options_.budget ? options_.budget : MakeWindowBudget(kDefaultBudget)),
        id_(budget_->NextLoader()) {
    uint32_t file = UINT32_MAX;
    uint64_t row = 0;
    for (const Granule& granule : inventory_->granules) {
      if (granule.file != file) row = 0;
      file = granule.file;
      first_rows_.push_back(row);
      row += granule.rows;
    }
  }

  ~Loader() override {
    stop_.request_stop();
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ahead_ == 0; });
    }
    budget_->Forget(id_);
  }

  uint32_t Groups(uint16_t strand, uint32_t) const override {
    return GroupsOfStrand(granules(), options_.strands, strand, inventory_->granules_per_group);
  }

  EpochCut Cut(uint16_t strand, uint32_t epoch, double share) override {
    std::vector<uint64_t> sizes;
    sizes.reserve(granules());
    // Where rows are not counted before they are read, bytes stand for them.
    for (const Granule& granule : inventory_->granules)
      sizes.push_back(std::max<uint64_t>(1, inventory_->exact ? granule.rows : granule.count));
    return CutOfStrand(sizes, *EpochOrder(epoch), options_.strands, strand, inventory_->granules_per_group, share);
  }

  Result<std::shared_ptr<const Window>> Load(uint16_t strand, const Position& at, const Deadline& deadline) override {
    const GroupKey key{id_, strand, at.epoch, at.group};
    if (at.group >= Groups(strand, at.epoch)) {
      return Status(Code::kInvalidArgument, Cat("source ", inventory_->source, " has no group ", at.group, " in strand ", strand,
                                                ", only ", Groups(strand, at.epoch)));
    }
    {
      std::unique_lock lock(mutex_);
      while (true) {
        if (auto window = budget_->Find(key, at.piece)) return window;
        if (busy_.insert(key).second) break;
        HR_RETURN_IF_ERROR(deadline.Check(RealClock(), Cat("reading source ", inventory_->source)));
        changed_.wait_for(lock, std::chrono::milliseconds(100));
      }
    }
    Result<std::shared_ptr<const Window>> window = Make(key, at.piece, deadline);
    Release(key);
    return window;
  }

  void Prefetch(uint16_t strand, const Position& at) override {
    const GroupKey key{id_, strand, at.epoch, at.group};
    if (at.group >= Groups(strand, at.epoch) || budget_->Find(key, at.piece)) return;
    const uint64_t bytes = std::max<uint64_t>(largest_.load(), 64 << 10);
    {
      std::lock_guard lock(mutex_);
      if (busy_.contains(key) || !budget_->BeginAhead(bytes)) return;
      busy_.insert(key);
      ++ahead_;
    }
    SharedExecutor().Spawn([this, key, piece = at.piece, bytes] {
      // Whoever needs it will meet the same failure.
      (void)Make(key, piece, Deadline::OnlyStop(stop_.get_token()));
      budget_->Done(bytes);
      std::lock_guard lock(mutex_);
      busy_.erase(key);
      --ahead_;
      changed_.notify_all();
    });
  }

  void Forget(uint16_t strand, const Position& at) override {
    budget_->Forget(GroupKey{id_, strand, at.epoch, at.group}, at.piece);
  }

  const Inventory& inventory() const override { return *inventory_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

 private:
  uint32_t granules() const { return static_cast<uint32_t>(inventory_->granules.size()); }

  void Release(const GroupKey& key) {
    std::lock_guard lock(mutex_);
    busy_.erase(key);
    changed_.notify_all();
  }

  std::shared_ptr<const std::vector<uint32_t>> EpochOrder(uint32_t epoch) {
    std::lock_guard lock(epochs_mutex_);
    for (auto& [known, order] : epochs_) {
      if (known == epoch) return order;
    }
    auto order = std::make_shared<const std::vector<uint32_t>>(GranuleOrder(order_, epoch, granules()));
    epochs_.emplace_front(epoch, order);
    if (epochs_.size() > kEpochsKept) epochs_.pop_back();
    return order;
  }

  Result<std::shared_ptr<const Window>> Make(const GroupKey& key, uint32_t piece_number, const Deadline& deadline) {
    const auto order = EpochOrder(key.epoch);
    std::vector<uint32_t> group;
    for (uint32_t place : PlacesOfGroup(granules(), options_.strands, key.strand, inventory_->granules_per_group, key.group)) {
      group.push_back((*order)[place]);
    }
    const uint32_t first_granule = group.front();
    const uint64_t begin = uint64_t{piece_number} * inventory_->rows_per_piece;
    std::unique_ptr<GroupCursor> taken = budget_->Take(key);
    std::unique_ptr<GranuleCursor> cursor(static_cast<GranuleCursor*>(taken.release()));
    if (!cursor || cursor->row() > begin) {
      cursor =
          std::make_unique<GranuleCursor>(*format_, *inventory_, first_rows_, std::move(group),
                                          ReadPlan{schema_, std::min<uint64_t>(inventory_->rows_per_piece, 8192), budget_, id_});
    }
    HR_ASSIGN_OR_RETURN(bool there, cursor->SkipTo(begin, deadline));
    Piece piece;
    if (there) {
      HR_ASSIGN_OR_RETURN(piece, cursor->Read(inventory_->rows_per_piece, deadline));
    }
    if (piece.consumed == 0 && piece_number > 0) {
      return Status(Code::kInvalidArgument, Cat("source ", inventory_->source, ": group ", key.group, " of strand ", key.strand,
                                                " in epoch ", key.epoch, " ends before piece ", piece_number));
    }
    const bool last = !there || piece.last;
    if (!last) budget_->Give(key, std::move(cursor));
    const uint64_t seed = PieceSeed(order_, key.epoch, first_granule, piece_number);
    HR_ASSIGN_OR_RETURN(std::shared_ptr<Window> window, Finish(std::move(piece), seed, deadline));
    window->last_of_group = last;
    uint64_t largest = largest_;
    while (largest < window->bytes && !largest_.compare_exchange_weak(largest, window->bytes)) {
    }
    std::shared_ptr<const Window> made = std::move(window);
    budget_->Keep(key, piece_number, made);
    return made;
  }

  Status BadSample(const BadPlace& bad) const {
    return Status(
        Code::kInvalidArgument,
        Cat("source ", inventory_->source, ": row ", bad.row, " of ", inventory_->files[bad.file].uri,
            " cannot be used: ", bad.why, ". Mend the file, or let the recipe leave such rows out: bad_samples: {skip: 1000}"));
  }

  Result<std::shared_ptr<Window>> Finish(Piece piece, uint64_t seed, const Deadline&) {
    const std::string what = Cat("source ", inventory_->source);
    auto window = std::make_shared<Window>();
    window->skipped = piece.bad.size();
    if (!piece.bad.empty() && !options_.bad_samples.skip) return BadSample(piece.bad.front());
    std::optional<BadPlace> first_bad;
    if (!piece.bad.empty()) first_bad = piece.bad.front();
    Warn(piece.bad);
    if (piece.batches.empty()) {
      HR_ARROW_ASSIGN(std::shared_ptr<arrow::RecordBatch> none, arrow::RecordBatch::MakeEmpty(EmptySchema()), what);
      piece.batches.push_back(std::move(none));
    }
    // Groups may lie across two batches.
    const bool apart = options_.group_size == 1 && (options_.row_by_row || !transform_);
    HR_ASSIGN_OR_RETURN(std::vector<Batch> parts, Join(std::move(piece.batches), apart ? kPartBytes : UINT64_MAX, what));
    for (Batch& part : parts) {
      HR_ASSIGN_OR_RETURN(part, HoldOut(part, what));
      if (part->num_rows() == 0 || !transform_) continue;
      std::vector<BadRow> bad;
      Result<Batch> transformed = transform_(part, seed, bad);
      if (!transformed.ok()) {
        if (bad.empty() || !bad.back().failed) return transformed.status().Annotate(what);
        const int64_t row = bad.back().row;
        return transformed.status().Annotate(
            Cat(what, ": row ", Rows(*part).Value(row), " of ", inventory_->files[Files(*part).Value(row)].uri));
      }
      HR_ASSIGN_OR_RETURN(part, DropBad(*part, *transformed, bad, first_bad, what));
      window->skipped += bad.size();
    }
    if (first_bad)
      window->first_bad =
          Cat("row ", first_bad->row, " of ", inventory_->files[first_bad->file].uri, ": ", FirstLine(first_bad->why));
    if (window->skipped > options_.bad_samples.limit) {
      return Status(Code::kInvalidArgument,
                    Cat(what, ": ", window->skipped, " bad rows among those that are read together, and the recipe allows ",
                        options_.bad_samples.limit, " for this source in one epoch of a strand. The first is ", window->first_bad,
                        ". Mend the files, or raise the limit: bad_samples: {skip: ", 2 * window->skipped, "}"));
    }
    std::vector<uint32_t> groups;
    if (options_.group_size > 1) {
      HR_ASSIGN_OR_RETURN(parts.front(), WholeGroups(parts.front(), groups, what));
    }
    uint32_t rows = 0;
    for (Batch& part : parts) {
      if (part->num_rows() == 0 && parts.size() > 1 && (&part != &parts.back() || rows > 0)) continue;
      rows += static_cast<uint32_t>(part->num_rows());
      const auto bytes = static_cast<uint64_t>(arrow::util::TotalBufferSize(*part));
      window->bytes += bytes;
      window->counted.push_back(budget_->Count(bytes));
      window->parts.push_back(std::move(part));
    }
    window->order = PieceOrder(order_, seed, rows, groups);
    window->bytes += window->order.size() * sizeof(uint32_t) + 1024;
    return window;
  }

  std::shared_ptr<arrow::Schema> EmptySchema() const {
    std::vector<std::shared_ptr<arrow::Field>> fields = schema_->fields();
    fields.push_back(arrow::field(std::string(kRowColumn), arrow::int64(), false));
    fields.push_back(arrow::field(std::string(kFileColumn), arrow::int32(), false));
    return arrow::schema(fields);
  }

  // Batches that hold no more memory than their rows take. Those of `large` bytes stay as they are, neighbours that are smaller become one.
  static Result<std::vector<Batch>> Join(std::vector<Batch> batches, uint64_t large, const std::string& what) {
    std::vector<Batch> joined, small;
    uint64_t small_bytes = 0;
    const auto join = [&]() -> Status {
      if (small.empty()) return {};
      if (small.size() == 1 && HoldsWhatItUses(*small.front())) {
        joined.push_back(std::move(small.front()));
      } else {
        HR_ARROW_ASSIGN(Batch one, arrow::ConcatenateRecordBatches(small, BlockPool()), what);
        joined.push_back(std::move(one));
      }
      small.clear();
      small_bytes = 0;
      return {};
    };
    for (Batch& batch : batches) {
      auto used = arrow::util::ReferencedBufferSize(*batch);
      const uint64_t bytes = used.ok() ? static_cast<uint64_t>(*used) : 0;
      if (bytes >= large && HoldsWhatItUses(*batch)) {
        HR_RETURN_IF_ERROR(join());
        joined.push_back(std::move(batch));
        continue;
      }
      small.push_back(std::move(batch));
      small_bytes += bytes;
      if (small_bytes >= large) HR_RETURN_IF_ERROR(join());
    }
    HR_RETURN_IF_ERROR(join());
    return joined;
  }

  static bool HoldsWhatItUses(const arrow::RecordBatch& batch) {
    auto used = arrow::util::ReferencedBufferSize(batch);
    return used.ok() && *used * 2 >= arrow::util::TotalBufferSize(batch);
  }

  static Result<std::shared_ptr<arrow::RecordBatch>> Filter(const std::shared_ptr<arrow::RecordBatch>& rows,
                                                            const std::vector<bool>& keep, const std::string& what) {
    if (std::ranges::all_of(keep, [](bool kept) { return kept; })) return rows;
    arrow::BooleanBuilder builder;
    if (arrow::Status status = builder.AppendValues(keep); !status.ok()) return FromArrow(status, what);
    HR_ARROW_ASSIGN(std::shared_ptr<arrow::Array> mask, builder.Finish(), what);
    HR_ARROW_ASSIGN(arrow::Datum kept, arrow::compute::Filter(arrow::Datum(rows), arrow::Datum(mask)), what);
    return kept.record_batch();
  }

  static const arrow::Int64Array& Rows(const arrow::RecordBatch& batch) {
    return static_cast<const arrow::Int64Array&>(*batch.GetColumnByName(std::string(kRowColumn)));
  }
  static const arrow::Int32Array& Files(const arrow::RecordBatch& batch) {
    return static_cast<const arrow::Int32Array&>(*batch.GetColumnByName(std::string(kFileColumn)));
  }

  std::string HoldOutKey(const arrow::RecordBatch& rows, const arrow::Array* by, int64_t i) const {
    if (by && by->IsValid(i)) {
      switch (by->type_id()) {
        case arrow::Type::STRING:
        case arrow::Type::BINARY: return std::string(static_cast<const arrow::BinaryArray&>(*by).GetView(i));
        default:
          if (auto scalar = by->GetScalar(i); scalar.ok()) return (*scalar)->ToString();
      }
    }
    return Cat(inventory_->files[Files(rows).Value(i)].uri, "#", Rows(rows).Value(i));
  }

  Result<std::shared_ptr<arrow::RecordBatch>> HoldOut(const std::shared_ptr<arrow::RecordBatch>& rows,
                                                      const std::string& what) const {
    if (options_.holdout_fraction <= 0 || rows->num_rows() == 0) return rows;
    const std::shared_ptr<arrow::Array> by = options_.holdout_by.empty() ? nullptr : rows->GetColumnByName(options_.holdout_by);
    std::vector<bool> keep(rows->num_rows());
    for (int64_t i = 0; i < rows->num_rows(); ++i) {
      // All rows of a group go with its first.
      const bool follows = options_.group_size > 1 && i > 0 && Files(*rows).Value(i) == Files(*rows).Value(i - 1) &&
                           Rows(*rows).Value(i) / options_.group_size == Rows(*rows).Value(i - 1) / options_.group_size;
      keep[i] =
          follows ? keep[i - 1] : IsHeldOut(HoldOutKey(*rows, by.get(), i), options_.holdout_fraction) == options_.holdout_split;
    }
    return Filter(rows, keep, what);
  }

  // What the transform made of `rows`, without those that it calls bad.
  Result<std::shared_ptr<arrow::RecordBatch>> DropBad(const arrow::RecordBatch& rows,
                                                      const std::shared_ptr<arrow::RecordBatch>& made,
                                                      const std::vector<BadRow>& bad, std::optional<BadPlace>& first_bad,
                                                      const std::string& what) {
    for (std::string_view name : {kFileColumn, kRowColumn}) {
      const auto column = made->GetColumnByName(std::string(name));
      if (!column || column->type_id() != (name == kFileColumn ? arrow::Type::INT32 : arrow::Type::INT64)) {
        return Status(Code::kInvalidArgument,
                      Cat(what, ": a transform lost the column ", name, " or changed its type; rows must keep it"));
      }
    }
    if (bad.empty()) return made;
    std::set<std::pair<int32_t, int64_t>> places;
    std::vector<BadPlace> left_out;
    for (const BadRow& row : bad) {
      if (row.row < 0 || row.row >= rows.num_rows())
        return Status(Code::kInternal, Cat(what, ": a transform called a row bad that it was not given"));
      const BadPlace place{static_cast<uint32_t>(Files(rows).Value(row.row)), Rows(rows).Value(row.row), row.why};
      if (!options_.bad_samples.skip && !row.skip) return BadSample(place);
      places.emplace(place.file, place.row);
      left_out.push_back(place);
    }
    if (!first_bad) first_bad = left_out.front();
    Warn(left_out);
    std::vector<bool> keep(made->num_rows());
    for (int64_t i = 0; i < made->num_rows(); ++i) keep[i] = !places.contains({Files(*made).Value(i), Rows(*made).Value(i)});
    return Filter(made, keep, what);
  }

  static std::string FirstLine(const std::string& why) { return why.substr(0, why.find('\n')); }

  // A window is loaded again where there is little memory: its samples are not news then. Told of at the first and whenever there are ten times as many, so
  // that a rotten file is no flood; the producer's summary has them all.
  void Warn(const std::vector<BadPlace>& bad) {
    if (options_.quiet || bad.empty()) return;
    std::lock_guard lock(mutex_);
    const BadPlace* first = nullptr;
    for (const BadPlace& place : bad) {
      if (warned_.size() < kMostWarned && warned_.emplace(place.file, place.row).second && first == nullptr) first = &place;
    }
    if (first == nullptr || warned_.size() < next_warning_) return;
    next_warning_ = 10 * warned_.size();
    HR_LOG(kWarning, "bad samples are left out", {"source", inventory_->source}, {"samples", warned_.size()},
           {"file", inventory_->files[first->file].uri}, {"row", first->row}, {"why", FirstLine(first->why)});
  }

  // Only groups of which all rows are there; `groups` says which is which.
  Result<std::shared_ptr<arrow::RecordBatch>> WholeGroups(const std::shared_ptr<arrow::RecordBatch>& rows,
                                                          std::vector<uint32_t>& groups, const std::string& what) const {
    const int64_t count = rows->num_rows(), size = options_.group_size;
    std::vector<bool> keep(count);
    uint32_t number = 0;
    for (int64_t begin = 0; begin < count;) {
      int64_t end = begin + 1, different = 1;
      while (end < count && Files(*rows).Value(end) == Files(*rows).Value(begin) &&
             Rows(*rows).Value(end) / size == Rows(*rows).Value(begin) / size) {
        different += Rows(*rows).Value(end) != Rows(*rows).Value(end - 1);
        ++end;
      }
      if (different == size) {
        for (int64_t i = begin; i < end; ++i) keep[i] = true;
        groups.insert(groups.end(), end - begin, number++);
      }
      begin = end;
    }
    return Filter(rows, keep, what);
  }

  const std::shared_ptr<const Inventory> inventory_;
  const SourceLoaderOptions options_;
  const RowTransform transform_;
  const std::shared_ptr<Lake> lake_;
  const std::unique_ptr<Format> format_;
  const std::shared_ptr<arrow::Schema> schema_;
  const OrderSeed order_;
  const std::shared_ptr<WindowBudget> budget_;
  const uint64_t id_;
  std::vector<uint64_t> first_rows_;  // of every granule, in its file
  std::atomic<uint64_t> largest_{0};
  std::stop_source stop_;
  std::mutex epochs_mutex_;
  std::list<std::pair<uint32_t, std::shared_ptr<const std::vector<uint32_t>>>> epochs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::pair<uint32_t, int64_t>> warned_;  // samples that are left out
  size_t next_warning_ = 1;  // at so many of them
  std::set<GroupKey> busy_;  // groups that somebody reads at the moment
  size_t ahead_ = 0;
};

}  // namespace

Result<std::unique_ptr<SourceLoader>> SourceLoader::Open(const SourceSpec& spec, std::shared_ptr<const Inventory> inventory,
                                                         SourceLoaderOptions options, RowTransform transform) {
  static const arrow::Status initialized = arrow::compute::Initialize();
  HR_RETURN_IF_ERROR(FromArrow(initialized, "cannot start Arrow's compute functions"));
  options.strands = std::max(1u, options.strands);
  options.group_size = std::max(1u, options.group_size);
  HR_ASSIGN_OR_RETURN(std::shared_ptr<Lake> lake, Lake::OpenFor(inventory->files, spec.files, spec.storage_options));
  HR_ASSIGN_OR_RETURN(std::unique_ptr<Format> format, Format::Make(spec, lake));
  HR_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Schema> all,
                      DecodeSchema(inventory->schema, Cat("the inventory of source ", spec.name)));
  std::vector<std::string> wanted = options.columns;
  if (!wanted.empty() && !options.holdout_by.empty() && options.holdout_fraction > 0) wanted.push_back(options.holdout_by);
  if (spec.format == "jsonl" && all->num_fields() == 0 && !wanted.empty() && !inventory->files.empty()) {
    const LakeFile& file = inventory->files.front();
    const Result<Bytes> head = lake->Read(file, ByteRange::At(0, 64), Deadline());
    const bool array = head.ok() && head->AsText().substr(0, head->AsText().find_first_not_of(" \t\r\n") + 1).ends_with('[');
    return Status(
        Code::kInvalidArgument,
        Cat("source ", spec.name, ": none of the first lines of ", file.uri, " is a JSON object, beginning with line 1",
            array ? ". The file looks like one JSON array; JSON lines have one object a line: `jq -c '.[]' FILE` makes them"
                  : ""));
  }
  for (const std::string& name : wanted) {
    if (all->GetFieldIndex(name) >= 0) continue;
    std::string names;
    std::vector<std::string_view> there;
    for (const auto& field : all->fields()) {
      names += Cat(names.empty() ? "" : ", ", field->name());
      there.push_back(field->name());
    }
    if (auto asked = options.asked_by.find(name); asked != options.asked_by.end()) {
      const std::string_view near = Nearest(name, there);
      return Status(Code::kInvalidArgument,
                    Cat(asked->second, " asks for the column \"", name, "\", and source ", spec.name, " has none",
                        near.empty() ? "" : Cat("; did you mean ", near, "?"), near.empty() ? "; it has: " : " It has: ", names));
    }
    return Status(Code::kInvalidArgument, Cat("source ", spec.name, " has no column \"", name, "\"; it has: ", names));
  }
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (const auto& field : all->fields()) {
    if (wanted.empty() || std::ranges::count(wanted, field->name())) fields.push_back(field);
  }
  return std::make_unique<Loader>(std::move(inventory), std::move(options), std::move(transform), std::move(lake),
                                  std::move(format), arrow::schema(fields));
}

}  // namespace headrace
