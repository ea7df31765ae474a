// JSON lines. A plain file is cut by bytes: a granule has the lines that begin in it. A compressed one is cut by rows, or not at all.
#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "source/byte_source.h"
#include "source/format.h"
#include "source/json_rows.h"
#include "source/line_reader.h"

namespace headrace {
namespace {

constexpr uint64_t kBatchBytes = 4 << 20;  // of text
constexpr size_t kSampleRows = 1000;
constexpr uint64_t kSampleBytes = 4 << 20;
constexpr size_t kSampleFiles = 16;
constexpr uint32_t kCompressed = 1;  // a granule's part: its numbers are rows

class JsonlReader final : public GranuleReader {
 public:
  // Lines that begin before `end` (an offset), at most `rows` of them. Rows are numbered from `row`, or by their offsets if that is not known.
  JsonlReader(LineReader lines, uint64_t end, uint64_t rows, std::optional<uint64_t> row, const ReadPlan& plan)
      : lines_(std::move(lines)), end_(end), left_(rows), row_(row), rows_(plan.schema) {}

  Result<RowRun> Read(uint64_t rows, const Deadline& deadline) override {
    RowRun run;
    numbers_.clear();
    while (run.consumed < rows && rows_.bytes() < kBatchBytes) {
      HR_ASSIGN_OR_RETURN(std::optional<LineReader::Line> line, NextLine(deadline));
      if (!line) break;
      const auto number = static_cast<int64_t>(row_ ? (*row_)++ : line->offset);
      if (std::string why = rows_.Add(line->text); why.empty()) {
        numbers_.push_back(number);
      } else {
        run.bad.push_back({number, std::move(why)});
      }
      ++run.consumed;
    }
    if (numbers_.empty()) return run;
    HR_ASSIGN_OR_RETURN(run.rows, rows_.Finish());
    auto numbers = arrow::Buffer::FromVector(std::vector<int64_t>(numbers_));
    run.rows =
        WithRowNumbers(run.rows, std::make_shared<arrow::Int64Array>(static_cast<int64_t>(numbers_.size()), std::move(numbers)));
    return run;
  }

  Result<uint64_t> Skip(uint64_t rows, const Deadline& deadline) override {
    uint64_t skipped = 0;
    while (skipped < rows) {
      HR_ASSIGN_OR_RETURN(std::optional<LineReader::Line> line, NextLine(deadline));
      if (!line) break;
      if (row_) ++*row_;
      ++skipped;
    }
    return skipped;
  }

  uint64_t bytes() const override { return lines_.bytes() + (256 << 10); }

 private:
  Result<std::optional<LineReader::Line>> NextLine(const Deadline& deadline) {
    if (left_ == 0) return std::optional<LineReader::Line>();
    HR_ASSIGN_OR_RETURN(std::optional<LineReader::Line> line, lines_.Next(deadline));
    if (line && line->offset >= end_) line.reset();
    left_ = line ? left_ - 1 : 0;
    return line;
  }

  LineReader lines_;
  const uint64_t end_;
  uint64_t left_;
  std::optional<uint64_t> row_;
  JsonRows rows_;
  std::vector<int64_t> numbers_;
};

class JsonlFormat final : public Format {
 public:
  using Format::Format;

  bool CountsByReading(const LakeFile&) const override { return true; }

  Result<FileFacts> Scan(const LakeFile& file, const ScanPlan& plan, const Deadline& deadline) override {
    FileFacts facts;
    const bool compressed = IsCompressed(file.uri);
    facts.seekable = !compressed;
    if (file.bytes == 0) return facts;
    FilePart part{
        .part = compressed ? kCompressed : 0, .first = 0, .count = compressed ? 0 : file.bytes, .rows = 0, .bytes = file.bytes};
    if (plan.count) {
      HR_ASSIGN_OR_RETURN(LineReader lines, Lines(file, 0));
      uint64_t bytes = 0;
      while (true) {
        HR_ASSIGN_OR_RETURN(std::optional<LineReader::Line> line, lines.Next(deadline));
        if (!line) break;
        if (!compressed && part.rows % plan.group_size == 0 &&
            (part.marks.empty() || line->offset - part.marks.back().second >= plan.mark_bytes)) {
          part.marks.emplace_back(part.rows, line->offset);
        }
        ++part.rows;
        bytes += line->text.size();
      }
      if (part.rows == 0) return facts;
      part.bytes = bytes;
      if (compressed) part.count = part.rows;
    }
    facts.parts.push_back(std::move(part));
    return facts;
  }

  Result<SampleFacts> Sample(const std::vector<LakeFile>& files, const std::vector<FileFacts>&,
                             const Deadline& deadline) override {
    JsonTypes types;
    uint64_t rows = 0, bytes = 0;
    const size_t step = std::max<size_t>(1, files.size() / kSampleFiles);
    for (size_t i = 0; i < files.size(); i += step) {
      const size_t most_rows = rows + (i == 0 ? kSampleRows : kSampleRows / 10);
      const uint64_t most_bytes = bytes + (i == 0 ? kSampleBytes : kSampleBytes / 16);
      HR_ASSIGN_OR_RETURN(LineReader lines, Lines(files[i], 0));
      while (rows < most_rows && bytes < most_bytes) {
        HR_ASSIGN_OR_RETURN(std::optional<LineReader::Line> line, lines.Next(deadline));
        if (!line) break;
        types.Add(line->text);
        ++rows;
        bytes += line->text.size();
      }
    }
    return SampleFacts{types.Schema(), rows == 0 ? 0 : std::max<uint64_t>(1, bytes / rows)};
  }

  Result<std::unique_ptr<GranuleReader>> Open(const Inventory& inventory, const Granule& granule, uint64_t first_row,
                                              const ReadPlan& plan, const Deadline& deadline) override {
    const LakeFile& file = inventory.files[granule.file];
    const uint64_t rows = granule.rows == 0 ? UINT64_MAX : granule.rows;
    if (granule.part == kCompressed) {
      HR_ASSIGN_OR_RETURN(LineReader lines, Lines(file, 0));
      for (uint64_t row = 0; row < granule.first; ++row) {
        HR_ASSIGN_OR_RETURN(std::optional<LineReader::Line> line, lines.Next(deadline));
        if (!line) return Status(Code::kCorrupt, Cat("cannot read ", file.uri, ": it has fewer rows than the inventory says"));
      }
      return std::make_unique<JsonlReader>(std::move(lines), UINT64_MAX, rows, granule.first, plan);
    }
    // Without counts, only the rows of a file that is one granule have numbers.
    std::optional<uint64_t> row;
    if (granule.rows != 0 || granule.count == file.bytes) row = first_row;
    uint64_t begin = granule.first;
    if (begin > 0 && granule.rows == 0) {
      // A cut by bytes: a line that began before belongs to the granule before.
      HR_ASSIGN_OR_RETURN(Bytes before, lake_->Read(file, ByteRange::At(begin - 1, 1), deadline));
      if (before.AsText() != "\n") {
        HR_ASSIGN_OR_RETURN(begin, EndOfLine(file, begin, deadline));
      }
    }
    HR_ASSIGN_OR_RETURN(LineReader lines, Lines(file, begin));
    return std::make_unique<JsonlReader>(std::move(lines), granule.first + granule.count, rows, row, plan);
  }

 private:
  Result<LineReader> Lines(const LakeFile& file, uint64_t offset) {
    if (!IsCompressed(file.uri)) return LineReader(PlainBytes(lake_, file, offset), offset);
    HR_ASSIGN_OR_RETURN(ByteSource source, CompressedBytes(lake_, file));
    return LineReader(std::move(source), 0);
  }

  // The offset behind the next end of a line.
  Result<uint64_t> EndOfLine(const LakeFile& file, uint64_t offset, const Deadline& deadline) {
    ByteSource source = PlainBytes(lake_, file, offset);
    while (true) {
      HR_ASSIGN_OR_RETURN(Bytes block, source(deadline));
      if (block.empty()) return file.bytes;
      const size_t found = block.AsText().find('\n');
      if (found != std::string_view::npos) return offset + found + 1;
      offset += block.size();
    }
  }
};

}  // namespace

std::unique_ptr<Format> MakeJsonlFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake) {
  return std::make_unique<JsonlFormat>(spec, std::move(lake));
}

}  // namespace headrace
