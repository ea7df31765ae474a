#include "headrace/store.h"

#include <algorithm>

#include "base/text.h"

namespace headrace {

std::pair<uint64_t, uint64_t> ByteRange::Within(uint64_t size) const {
  if (suffix) {
    uint64_t count = std::min(length, size);
    return {size - count, count};
  }
  uint64_t first = std::min(offset, size);
  return {first, std::min(length, size - first)};
}

std::string ByteRange::ToString() const {
  if (suffix) return Cat("bytes=-", length);
  if (length == UINT64_MAX) return Cat("bytes=", offset, "-");
  return Cat("bytes=", offset, "-", offset + length - 1);
}

void Body::Append(Bytes bytes) {
  size_ += bytes.size();
  if (!bytes.empty()) parts_.push_back(std::move(bytes));
}

Body Body::Slice(uint64_t offset, uint64_t length) const {
  Body slice;
  for (const Bytes& part : parts_) {
    if (length == 0) break;
    if (offset >= part.size()) {
      offset -= part.size();
      continue;
    }
    Bytes piece = part.Slice(offset, length);
    offset = 0;
    length -= piece.size();
    slice.Append(std::move(piece));
  }
  return slice;
}

Bytes Body::Join() const {
  if (parts_.empty()) return {};
  if (parts_.size() == 1) return parts_.front();
  Buffer whole(size_);
  auto out = whole.span().begin();
  for (const Bytes& part : parts_) out = std::ranges::copy(part.span(), out).out;
  return std::move(whole).Freeze();
}

bool Body::Equals(std::span<const std::byte> other) const {
  if (other.size() != size_) return false;
  for (const Bytes& part : parts_) {
    if (!std::ranges::equal(part.span(), other.first(part.size()))) return false;
    other = other.subspan(part.size());
  }
  return true;
}

Result<std::vector<ListEntry>> ListAll(ObjectStore& store, const std::string& prefix, const Deadline& deadline) {
  std::vector<ListEntry> all;
  ListOptions options{.prefix = prefix};
  do {
    HR_ASSIGN_OR_RETURN(ListPage page, store.List(options, deadline));
    std::ranges::move(page.entries, std::back_inserter(all));
    options.page = std::move(page.next);
  } while (!options.page.empty());
  std::ranges::sort(all, {}, &ListEntry::key);
  return all;
}

Status CheckKey(std::string_view key) {
  auto refuse = [&](std::string_view why) {
    return Status(Code::kInvalidArgument, Cat("the key \"", key.substr(0, 100), "\" cannot be stored: ", why));
  };
  if (key.empty()) return refuse("it is empty");
  if (key.size() > 900) return refuse("it is longer than 900 bytes");
  if (!IsUtf8(key)) return refuse("it is not UTF-8");
  if (std::ranges::any_of(key, [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
    return refuse("it has a control character");
  for (const std::string& segment : Split(key, '/')) {
    if (segment.empty()) return refuse("a segment between slashes is empty");
    if (segment == "." || segment == "..") return refuse("a segment is \".\" or \"..\"");
    if (segment.size() > 255) return refuse("a segment is longer than 255 bytes");
  }
  return {};
}

}  // namespace headrace
