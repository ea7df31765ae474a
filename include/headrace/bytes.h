// A shared, immutable run of bytes.
//
// A `Bytes` is a view plus whatever keeps the memory alive: a heap buffer, a mapped file, a pool of shared memory.
// Slices share the owner, so that bytes move once, from the socket or the disk into the memory that is handed out.
//
// Copies are cheap (one reference count). Safe to read from many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace headrace {

class Bytes {
 public:
  Bytes() = default;
  Bytes(std::span<const std::byte> view, std::shared_ptr<const void> owner) : view_(view), owner_(std::move(owner)) {}

  // Takes the string's memory.
  static Bytes FromString(std::string text);
  static Bytes Copy(std::span<const std::byte> source);
  // Owns nothing: the caller promises that `source` outlives every slice.
  static Bytes Borrow(std::span<const std::byte> source) { return Bytes(source, nullptr); }

  const std::byte* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  std::span<const std::byte> span() const { return view_; }
  std::string_view AsText() const { return {reinterpret_cast<const char*>(view_.data()), view_.size()}; }
  std::string ToString() const { return std::string(AsText()); }

  // `offset` and `length` are clipped to what is there.
  Bytes Slice(size_t offset, size_t length = SIZE_MAX) const;
  // This and `next` as one, if `next` stands right behind it in the same memory.
  std::optional<Bytes> JoinedWith(const Bytes& next) const;

  friend bool operator==(const Bytes& a, const Bytes& b) { return a.AsText() == b.AsText(); }

 private:
  std::span<const std::byte> view_;
  std::shared_ptr<const void> owner_;
};

// Memory that is being filled: uninitialised, aligned for vector loads and direct I/O of cells (64 bytes). Freeze it when it is whole.
class Buffer {
 public:
  static constexpr size_t kAlignment = 64;

  explicit Buffer(size_t size);
  // Of memory that belongs to somebody: at least `size` bytes, aligned as above.
  Buffer(std::shared_ptr<std::byte> memory, size_t size) : memory_(std::move(memory)), size_(size) {}

  std::span<std::byte> span() { return {memory_.get(), size_}; }
  size_t size() const { return size_; }

  // The first `size` bytes, immutable from now on.
  Bytes Freeze(size_t size) &&;
  Bytes Freeze() && { return std::move(*this).Freeze(size_); }

 private:
  std::shared_ptr<std::byte> memory_;
  size_t size_;
};

}  // namespace headrace
