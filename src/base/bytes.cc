#include "headrace/bytes.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace headrace {

Bytes Bytes::FromString(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return Bytes(std::as_bytes(std::span(owner->data(), owner->size())), owner);
}

Bytes Bytes::Copy(std::span<const std::byte> source) {
  Buffer buffer(source.size());
  std::ranges::copy(source, buffer.span().begin());
  return std::move(buffer).Freeze();
}

Bytes Bytes::Slice(size_t offset, size_t length) const {
  offset = std::min(offset, size());
  return Bytes(view_.subspan(offset, std::min(length, size() - offset)), owner_);
}

std::optional<Bytes> Bytes::JoinedWith(const Bytes& next) const {
  if (next.empty()) return *this;
  if (empty()) return next;
  if (owner_ == nullptr || owner_ != next.owner_ || data() + size() != next.data()) return std::nullopt;
  return Bytes({data(), size() + next.size()}, owner_);
}

Buffer::Buffer(size_t size) : size_(size) {
  if (size > SIZE_MAX - kAlignment) throw std::bad_alloc();
  size_t rounded = std::max(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  memory_ = std::shared_ptr<std::byte>(memory, std::free);
}

Bytes Buffer::Freeze(size_t size) && {
  std::span<const std::byte> view(memory_.get(), std::min(size, size_));
  return Bytes(view, std::move(memory_));
}

}  // namespace headrace
