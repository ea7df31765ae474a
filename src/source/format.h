// How one format of files is cut into granules, and how the rows of a granule are read.
//
// A `Format` is thread-safe; a `GranuleReader` has one user at a time.
#pragma once

#include <arrow/record_batch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "source/inventory.h"
#include "source/lake.h"

namespace headrace {

// A run of rows of a file that lies together, as the file itself has it: a row group, a batch, all of it.
struct FilePart {
  uint32_t part = 0;
  uint64_t first = 0;  // as in Granule
  uint64_t count = 0;
  uint64_t rows = 0;  // 0: not known
  uint64_t bytes = 0;  // about what its rows take in memory
  // Rows at which a cut is possible, where cuts are made by bytes: {row, offset}, ascending, the first one at its beginning.
  std::vector<std::pair<uint64_t, uint64_t>> marks = {};
};

struct FileFacts {
  std::vector<FilePart> parts;
  std::shared_ptr<arrow::Schema> schema;  // nothing: not known from this file
  // False: to get to a row, all rows before it in its part must be decoded, so large parts are cut into few granules.
  bool seekable = true;
  uint64_t cheap_bytes = 16 << 20;  // a part up to here may be decoded again for each of its granules all the same
};

struct ScanPlan {
  bool count = true;  // look at all bytes, if that is what it takes to know rows and where they begin
  uint64_t mark_bytes = 0;  // that lie between two marks, at least
  uint32_t group_size = 1;  // marks only at multiples of it
};

struct SampleFacts {
  std::shared_ptr<arrow::Schema> schema;
  uint64_t row_bytes = 0;  // on average; 0: as the parts say
};

struct RowFailure {
  int64_t row;  // in the file
  std::string why;
};

// Some rows of a granule.
struct RowRun {
  std::shared_ptr<arrow::RecordBatch>
      rows;  // the good ones, with their numbers in the file as last column `__row`; null if there are none
  std::vector<RowFailure> bad;
  uint64_t consumed = 0;  // good and bad; 0: the granule is over
};

class GranuleReader {
 public:
  virtual ~GranuleReader() = default;
  // At most `rows` rows, as many as come easily.
  virtual Result<RowRun> Read(uint64_t rows, const Deadline& deadline) = 0;
  // Leaves out up to `rows` rows. Fewer: the granule is over.
  virtual Result<uint64_t> Skip(uint64_t rows, const Deadline& deadline) = 0;
  // What it holds in memory, about.
  virtual uint64_t bytes() const { return 1 << 20; }
};

class WindowBudget;

struct ReadPlan {
  std::shared_ptr<arrow::Schema> schema;  // the columns that are wanted, without `__row`
  uint64_t batch_rows = 1024;
  std::shared_ptr<WindowBudget> budget = nullptr;  // for parts that are decoded once for several granules
  uint64_t loader = 0;
};

class Format {
 public:
  static Result<std::unique_ptr<Format>> Make(const SourceSpec& spec, std::shared_ptr<const Lake> lake);
  Format(const SourceSpec& spec, std::shared_ptr<const Lake> lake) : spec_(spec), lake_(std::move(lake)) {}
  virtual ~Format() = default;

  // Which of the files have rows, where a format has others beside them (an index). Sees all of them; may add to them.
  virtual Result<std::vector<LakeFile>> Choose(std::vector<LakeFile> files, const Deadline&) { return files; }
  virtual bool HasRows(const LakeFile&) const { return true; }

  virtual Result<FileFacts> Scan(const LakeFile& file, const ScanPlan& plan, const Deadline& deadline) = 0;
  // The types of the source's rows.
  virtual Result<SampleFacts> Sample(const std::vector<LakeFile>& files, const std::vector<FileFacts>& facts,
                                     const Deadline& deadline);
  // True if `Scan` must read whole files to know their rows.
  virtual bool CountsByReading(const LakeFile&) const { return false; }

  // `granule` of `inventory`; `first_row` is its first row's number in the file, as far as the inventory knows.
  virtual Result<std::unique_ptr<GranuleReader>> Open(const Inventory& inventory, const Granule& granule, uint64_t first_row,
                                                      const ReadPlan& plan, const Deadline& deadline) = 0;

 protected:
  const SourceSpec spec_;
  const std::shared_ptr<const Lake> lake_;
};

std::unique_ptr<Format> MakeParquetFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake);
std::unique_ptr<Format> MakeJsonlFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake);
std::unique_ptr<Format> MakeArrowFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake);
std::unique_ptr<Format> MakeMegatronFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake);
std::unique_ptr<Format> MakeMdsFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake);
std::unique_ptr<Format> MakeWebdatasetFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake);
std::unique_ptr<Format> MakeTokensFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake);

inline constexpr std::string_view kRowColumn = "__row";
inline constexpr std::string_view kFileColumn = "__file";
// Of a granule: longer ones are cut where the format allows it.
inline constexpr uint64_t kGranuleBytes = 16 << 20;
// As a part's number: all parts of the file, one after the other.
inline constexpr uint32_t kAllParts = UINT32_MAX;

// `batch` in the types and columns of `schema`, with its row numbers. A column that it lacks is null in all rows. Types are simplified on
// the way: dictionaries are decoded, 64-bit offsets and views become plain ones.
Result<std::shared_ptr<arrow::RecordBatch>> Conform(const std::shared_ptr<arrow::RecordBatch>& batch,
                                                    const std::shared_ptr<arrow::Schema>& schema, uint64_t first_row,
                                                    std::string_view what);
std::shared_ptr<arrow::DataType> SimpleType(const std::shared_ptr<arrow::DataType>& type);
// What all of them fit into.
Result<std::shared_ptr<arrow::Schema>> CommonSchema(const std::vector<std::shared_ptr<arrow::Schema>>& schemas,
                                                    std::string_view what);

std::shared_ptr<arrow::Array> RowNumbers(uint64_t first, int64_t count);
std::shared_ptr<arrow::RecordBatch> WithRowNumbers(const std::shared_ptr<arrow::RecordBatch>& batch,
                                                   std::shared_ptr<arrow::Array> numbers);

Result<std::string> EncodeSchema(const arrow::Schema& schema);
Result<std::shared_ptr<arrow::Schema>> DecodeSchema(const std::string& bytes, std::string_view what);

// From Arrow's world into ours.
Status FromArrow(const arrow::Status& status, std::string_view what);
#define HR_ARROW_ASSIGN(target, expression, what) HR_ARROW_ASSIGN_INNER(HR_CONCAT(hr_arrow_, __LINE__), target, expression, what)
#define HR_ARROW_ASSIGN_INNER(result, target, expression, what)          \
  auto result = (expression);                                            \
  if (!result.ok()) return ::headrace::FromArrow(result.status(), what); \
  target = std::move(result).ValueUnsafe()

}  // namespace headrace
