#include "source/byte_source.h"

#include <arrow/io/compressed.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "source/format.h"

namespace headrace {
namespace {

constexpr uint64_t kBlockBytes = 4 << 20;
constexpr uint64_t kFirstBlockBytes = 256 << 10;

arrow::Compression::type CompressionOf(std::string_view uri) {
  const std::string name = Lower(uri);
  if (name.ends_with(".gz") || name.ends_with(".gzip") || name.ends_with(".tgz")) return arrow::Compression::GZIP;
  if (name.ends_with(".zst") || name.ends_with(".zstd") || name.ends_with(".tzst")) return arrow::Compression::ZSTD;
  if (name.ends_with(".bz2")) return arrow::Compression::BZ2;
  if (name.ends_with(".lz4")) return arrow::Compression::LZ4_FRAME;
  return arrow::Compression::UNCOMPRESSED;
}

// Arrow asks for its input in pieces of 64 KiB, each of which would be a request.
class BlockInput final : public arrow::io::InputStream {
 public:
  explicit BlockInput(ByteSource source) : source_(std::move(source)) {}
  void SetDeadline(const Deadline& deadline) { deadline_ = deadline; }
  const Status& failure() const { return failure_; }

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, Read(bytes));
    if (buffer->size() > 0) std::memcpy(out, buffer->data(), buffer->size());
    return buffer->size();
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    if (rest_.empty()) {
      Result<Bytes> block = source_(deadline_);
      if (!block.ok()) {
        failure_ = block.status();
        return arrow::Status::IOError(failure_.message());
      }
      rest_ = *std::move(block);
    }
    Bytes piece = rest_.Slice(0, bytes);
    rest_ = rest_.Slice(piece.size());
    position_ += static_cast<int64_t>(piece.size());
    return ToBuffer(std::move(piece));
  }

 private:
  ByteSource source_;
  Deadline deadline_;
  Status failure_;
  Bytes rest_;
  int64_t position_ = 0;
};

}  // namespace

bool IsCompressed(std::string_view uri) { return CompressionOf(uri) != arrow::Compression::UNCOMPRESSED; }

ByteSource PlainBytes(std::shared_ptr<const Lake> lake, LakeFile file, uint64_t offset) {
  return [lake = std::move(lake), file = std::move(file), offset,
          size = kFirstBlockBytes](const Deadline& deadline) mutable -> Result<Bytes> {
    if (offset >= file.bytes) return Bytes();
    HR_ASSIGN_OR_RETURN(Bytes block, lake->Read(file, ByteRange::At(offset, size), deadline));
    offset += block.size();
    size = std::min(size * 4, kBlockBytes);
    return block;
  };
}

Result<ByteSource> CompressedBytes(const std::shared_ptr<const Lake>& lake, const LakeFile& file) {
  const std::string what = Cat("cannot decompress ", file.uri);
  HR_ARROW_ASSIGN(std::shared_ptr<arrow::util::Codec> codec, arrow::util::Codec::Create(CompressionOf(file.uri)), what);
  auto input = std::make_shared<BlockInput>(PlainBytes(lake, file, 0));
  HR_ARROW_ASSIGN(std::shared_ptr<arrow::io::CompressedInputStream> stream,
                  arrow::io::CompressedInputStream::Make(codec.get(), input), what);
  return ByteSource([what, codec, input, stream](const Deadline& deadline) -> Result<Bytes> {
    input->SetDeadline(deadline);
    Buffer block(1 << 20);
    auto read = stream->Read(static_cast<int64_t>(block.size()), block.span().data());
    if (!read.ok()) {
      if (!input->failure().ok()) return input->failure().Annotate(what);
      return Status(Code::kCorrupt, Cat(what, ": ", read.status().message(), "; the file is damaged or was cut short"));
    }
    return std::move(block).Freeze(static_cast<size_t>(*read));
  });
}

}  // namespace headrace
