#include "source/tar.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace headrace {
namespace {

constexpr uint64_t kRecord = 512;
constexpr uint64_t kBlockBytes = 1 << 20;
constexpr uint64_t kMaxHeader = 1 << 20;  // of an extended header

uint64_t Padded(uint64_t size) { return (size + kRecord - 1) / kRecord * kRecord; }

std::string_view Field(std::string_view header, size_t at, size_t size) {
  std::string_view field = header.substr(at, size);
  return field.substr(0, field.find('\0'));
}

// Octal digits, or base 256 for numbers that do not fit.
std::optional<uint64_t> Number(std::string_view header, size_t at, size_t size) {
  std::string_view field = header.substr(at, size);
  if (static_cast<unsigned char>(field[0]) == 0x80) {
    uint64_t value = 0;
    for (size_t i = size - 8; i < size; ++i) value = value << 8 | static_cast<unsigned char>(field[i]);
    return value;
  }
  field = Trim(field.substr(0, field.find('\0')));
  uint64_t value = 0;
  for (char c : field) {
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

bool ChecksumFits(std::string_view header) {
  const std::optional<uint64_t> wanted = Number(header, 148, 8);
  uint64_t sum = 0;
  for (size_t i = 0; i < kRecord; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
  return wanted && *wanted == sum;
}

// "25 path=folder/name.txt\n" …
std::optional<std::string> PaxValue(std::string_view text, std::string_view key) {
  std::optional<std::string> value;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    uint64_t length = 0;
    if (space == std::string_view::npos || !ParseNumber(text.substr(0, space), length) || length <= space + 1 ||
        length > text.size())
      break;
    std::string_view record = text.substr(space + 1, length - space - 2);
    if (record.starts_with(key) && record.size() > key.size() && record[key.size()] == '=') value = record.substr(key.size() + 1);
    text.remove_prefix(length);
  }
  return value;
}

}  // namespace

Result<TarReader> TarReader::Open(std::shared_ptr<const Lake> lake, const LakeFile& file, uint64_t offset) {
  TarReader reader(std::move(lake), file, offset);
  if (IsCompressed(file.uri)) {
    HR_ASSIGN_OR_RETURN(reader.source_, CompressedBytes(reader.lake_, file));
  }
  return reader;
}

Status TarReader::Damaged(std::string_view why) const {
  return Status(Code::kCorrupt, Cat("cannot read the archive ", file_.uri, " at byte ", at_, ": ", why));
}

Result<Bytes> TarReader::Piece(uint64_t at, uint64_t size, const Deadline& deadline) {
  if (at >= block_at_ && at + size <= block_at_ + block_.size()) return block_.Slice(at - block_at_, size);
  if (!source_) {
    if (at >= file_.bytes) return Bytes();
    if (size >= kBlockBytes / 2) return lake_->Read(file_, ByteRange::At(at, size), deadline);
    HR_ASSIGN_OR_RETURN(block_, lake_->Read(file_, ByteRange::At(at, kBlockBytes), deadline));
    block_at_ = at;
    return block_.Slice(0, size);
  }
  // Compressed: go on until it is all there.
  std::string joined;
  while (true) {
    const uint64_t block_end = block_at_ + block_.size();
    if (at < block_end && at + joined.size() >= block_at_) {
      Bytes piece = block_.Slice(at + joined.size() - block_at_, size - joined.size());
      if (piece.size() == size) return piece;
      joined.append(piece.AsText());
      if (joined.size() == size) return Bytes::FromString(std::move(joined));
    }
    HR_ASSIGN_OR_RETURN(Bytes next, source_(deadline));
    if (next.empty()) return Bytes::FromString(std::move(joined));
    block_at_ = block_end;
    block_ = std::move(next);
  }
}

Result<std::optional<TarReader::Member>> TarReader::Next(const Deadline& deadline) {
  Member member{.name = {}, .offset = at_};
  std::optional<uint64_t> pax_size;
  while (true) {
    HR_ASSIGN_OR_RETURN(Bytes bytes, Piece(at_, kRecord, deadline));
    if (bytes.empty()) return std::optional<Member>();
    const std::string header = bytes.ToString();
    if (header.size() < kRecord) return Damaged("it ends inside a header; the archive was cut short");
    if (header.find_first_not_of('\0') == std::string::npos) return std::optional<Member>();
    if (!ChecksumFits(header)) return Damaged("there is no proper header of a member");
    const std::optional<uint64_t> size = Number(header, 124, 12);
    if (!size) return Damaged("a member has no proper size");
    const char kind = header[156];
    const uint64_t content = at_ + kRecord;
    if (kind == 'L' || kind == 'x' || kind == 'K' || kind == 'g') {
      if (*size > kMaxHeader) return Damaged("an extended header is too long");
      HR_ASSIGN_OR_RETURN(Bytes extended, Piece(content, *size, deadline));
      if (extended.size() < *size) return Damaged("it ends inside a header; the archive was cut short");
      if (kind == 'L') member.name = extended.AsText().substr(0, extended.AsText().find('\0'));
      if (kind == 'x') {
        member.name = PaxValue(extended.AsText(), "path").value_or(member.name);
        uint64_t number = 0;
        if (auto text = PaxValue(extended.AsText(), "size"); text && ParseNumber(*text, number)) pax_size = number;
      }
      at_ = content + Padded(*size);
      continue;
    }
    member.regular = kind == '0' || kind == '\0' || kind == '7';
    member.size = pax_size.value_or(*size);
    if (member.name.empty()) {
      member.name = Field(header, 0, 100);
      if (header.substr(257, 5) == "ustar" && header[345] != '\0' && header.substr(257, 8) != "ustar  ") {
        member.name = Cat(Field(header, 345, 155), "/", member.name);
      }
    }
    content_at_ = content;
    content_size_ = member.size;
    at_ = content + Padded(member.size);
    if (!source_ && content + member.size > file_.bytes) return Damaged("it ends inside a member; the archive was cut short");
    return std::optional(std::move(member));
  }
}

Result<Bytes> TarReader::Content(const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(Bytes content, Piece(content_at_, content_size_, deadline));
  if (content.size() != content_size_) return Damaged("it ends inside a member; the archive was cut short");
  return content;
}

}  // namespace headrace
