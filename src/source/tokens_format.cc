// Raw shards of tokens: nothing but elements of one type. A document ends with `eos`, or has `document_length` tokens.
#include <algorithm>

#include "base/text.h"
#include "source/run_reader.h"
#include "source/token_rows.h"

namespace headrace {
namespace {

constexpr uint64_t kBlockBytes = 4 << 20;
constexpr uint64_t kBatchTokens = 1 << 20;

// The documents of a file from a place on: their bytes, block by block.
class DocumentScan {
 public:
  DocumentScan(const Lake& lake, const LakeFile& file, Dtype dtype, int64_t eos, uint64_t offset)
      : lake_(lake), file_(file), dtype_(dtype), width_(DtypeBytes(dtype)), eos_(eos), offset_(offset) {}

  // Where the next document begins, in bytes.
  uint64_t offset() const { return offset_; }
  bool AtEnd() const { return offset_ >= file_.bytes; }

  // Hands out the pieces of the document at `offset` and moves behind it.
  template <typename Piece>
  Status Next(const Deadline& deadline, Piece piece) {
    while (!AtEnd()) {
      if (offset_ >= begin_ + block_.size() || offset_ < begin_) {
        begin_ = offset_;
        HR_ASSIGN_OR_RETURN(block_, lake_.Read(file_, ByteRange::At(begin_, kBlockBytes / width_ * width_), deadline));
      }
      const std::byte* from = block_.data() + (offset_ - begin_);
      const uint64_t left = block_.size() - (offset_ - begin_);
      uint64_t length = 0;
      bool ended = false;
      while (length + width_ <= left && !ended) {
        ended = TokenAt(from + length, dtype_) == eos_;
        length += width_;
      }
      if (length == 0) return Status(Code::kCorrupt, Cat("cannot read ", file_.uri, ": it ends inside a token"));
      piece(std::span(from, length));
      offset_ += length;
      if (ended) return {};
    }
    return {};
  }

 private:
  const Lake& lake_;
  const LakeFile file_;
  const Dtype dtype_;
  const uint64_t width_;
  const int64_t eos_;
  uint64_t offset_, begin_ = 0;
  Bytes block_;
};

class DocumentReader final : public GranuleReader {
 public:
  DocumentReader(std::shared_ptr<const Lake> lake, const LakeFile& file, Dtype dtype, int64_t eos, const Granule& granule,
                 uint64_t offset, std::optional<uint64_t> row, const ReadPlan& plan)
      : lake_(std::move(lake)),
        scan_(*lake_, file, dtype, eos, offset),
        dtype_(dtype),
        end_(granule.first + granule.count),
        left_(granule.rows ? granule.rows : UINT64_MAX),
        row_(row),
        plan_(plan) {}

  Result<RowRun> Read(uint64_t rows, const Deadline& deadline) override {
    TokenRows out(plan_);
    while (out.rows() < rows && out.tokens() < kBatchTokens && More()) {
      out.Begin(Number());
      HR_RETURN_IF_ERROR(scan_.Next(deadline, [&](std::span<const std::byte> piece) { out.Add(piece, dtype_); }));
      out.End();
    }
    return out.Finish();
  }
  Result<uint64_t> Skip(uint64_t rows, const Deadline& deadline) override {
    uint64_t skipped = 0;
    for (; skipped < rows && More(); ++skipped) {
      Number();
      HR_RETURN_IF_ERROR(scan_.Next(deadline, [](std::span<const std::byte>) {}));
    }
    return skipped;
  }
  uint64_t bytes() const override { return kBlockBytes; }

 private:
  bool More() {
    if (left_ == 0 || scan_.offset() >= end_ || scan_.AtEnd()) return false;
    --left_;
    return true;
  }
  int64_t Number() { return static_cast<int64_t>(row_ ? (*row_)++ : scan_.offset() / DtypeBytes(dtype_)); }

  const std::shared_ptr<const Lake> lake_;
  DocumentScan scan_;
  const Dtype dtype_;
  const uint64_t end_;
  uint64_t left_;
  std::optional<uint64_t> row_;  // without counts, a document's number is its first token's
  const ReadPlan plan_;
};

class TokensFormat final : public Format {
 public:
  using Format::Format;

  bool CountsByReading(const LakeFile&) const override { return spec_.eos.has_value(); }

  Result<FileFacts> Scan(const LakeFile& file, const ScanPlan& plan, const Deadline& deadline) override {
    const uint64_t width = DtypeBytes(spec_.dtype);
    if (!IsTokenType(spec_.dtype))
      return Status(Code::kInvalidArgument,
                    Cat("tokens of type ", DtypeName(spec_.dtype), " are not possible; give a type of whole numbers"));
    if (!spec_.eos && spec_.document_length == 0) {
      return Status(Code::kInvalidArgument, "the format tokens needs to know where documents end: give eos, or document_length");
    }
    if (file.bytes % width != 0) {
      return Status(Code::kCorrupt, Cat(file.uri, " has ", file.bytes, " bytes, which are no whole number of tokens of type ",
                                        DtypeName(spec_.dtype), "; give the right dtype"));
    }
    const uint64_t tokens = file.bytes / width;
    FileFacts facts{.parts = {}, .schema = TokenSchema(), .seekable = true};
    if (tokens == 0) return facts;
    if (!spec_.eos) {
      const uint64_t rows = (tokens + spec_.document_length - 1) / spec_.document_length;
      facts.parts.push_back({.part = 0, .first = 0, .count = rows, .rows = rows, .bytes = tokens * sizeof(int32_t)});
      return facts;
    }
    FilePart part{.part = 0, .first = 0, .count = file.bytes, .rows = 0, .bytes = tokens * sizeof(int32_t)};
    if (plan.count) {
      DocumentScan scan(*lake_, file, spec_.dtype, *spec_.eos, 0);
      for (; !scan.AtEnd(); ++part.rows) {
        if (part.rows % plan.group_size == 0 &&
            (part.marks.empty() || scan.offset() - part.marks.back().second >= plan.mark_bytes)) {
          part.marks.emplace_back(part.rows, scan.offset());
        }
        HR_RETURN_IF_ERROR(scan.Next(deadline, [](std::span<const std::byte>) {}));
      }
    }
    facts.parts.push_back(std::move(part));
    return facts;
  }

  Result<std::unique_ptr<GranuleReader>> Open(const Inventory& inventory, const Granule& granule, uint64_t first_row,
                                              const ReadPlan& plan, const Deadline& deadline) override {
    const LakeFile& file = inventory.files[granule.file];
    const uint64_t width = DtypeBytes(spec_.dtype);
    if (!spec_.eos) {
      const uint64_t length = spec_.document_length;
      return std::make_unique<RunReader>(
          granule.first, granule.count,
          [this, file, plan, length, width](uint64_t first, uint64_t count, const Deadline& until) -> Result<RowRun> {
            HR_ASSIGN_OR_RETURN(Bytes bytes,
                                lake_->Read(file, ByteRange::At(first * length * width, count * length * width), until));
            TokenRows rows(plan);
            for (uint64_t i = 0; i < count; ++i) {
              rows.Begin(static_cast<int64_t>(first + i));
              rows.Add(bytes.Slice(i * length * width, length * width).span(), spec_.dtype);
              rows.End();
            }
            return rows.Finish();
          });
    }
    std::optional<uint64_t> row;
    if (granule.rows != 0 || granule.count == file.bytes) row = first_row;
    uint64_t begin = granule.first;
    if (granule.rows == 0 && begin > 0) {
      // A cut by bytes: a document that began before belongs to the granule before, and is over behind the next end.
      begin = (begin + width - 1) / width * width;
      DocumentScan scan(*lake_, file, spec_.dtype, *spec_.eos, begin - width);
      HR_RETURN_IF_ERROR(scan.Next(deadline, [](std::span<const std::byte>) {}));
      begin = scan.offset();
    }
    return std::make_unique<DocumentReader>(lake_, file, spec_.dtype, *spec_.eos, granule, begin, row, plan);
  }
};

}  // namespace

std::unique_ptr<Format> MakeTokensFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake) {
  return std::make_unique<TokensFormat>(spec, std::move(lake));
}

}  // namespace headrace
