// Little-endian encoding of the small structures that are stored.
//
// A writer appends; a reader never leaves its bytes: past the end, or at a value that cannot be, it fails once and for all, and
// everything it then returns is zero. Check `ok()` when all is read.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "headrace/bytes.h"

namespace headrace {

static_assert(std::endian::native == std::endian::little,
              "stored numbers are little-endian; a big-endian machine needs swaps here");

class Encoder {
 public:
  template <typename T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
  void Put(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void PutRaw(std::string_view bytes) { out_.append(bytes); }
  void PutRaw(const void* data, size_t size) { out_.append(static_cast<const char*>(data), size); }
  // A length of two bytes, then the text.
  void PutText(std::string_view text) {
    Put(static_cast<uint16_t>(text.size()));
    out_.append(text);
  }
  void PadTo(size_t alignment) { out_.resize((out_.size() + alignment - 1) / alignment * alignment, '\0'); }
  // Overwrites what stands at `at`.
  template <typename T>
  void Patch(size_t at, T value) {
    std::memcpy(out_.data() + at, &value, sizeof(value));
  }

  size_t size() const { return out_.size(); }
  std::string_view text() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : rest_(bytes) {}
  explicit Decoder(std::string_view text) : rest_(std::as_bytes(std::span(text.data(), text.size()))) {}

  template <typename T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
  T Get() {
    T value{};
    if (std::span<const std::byte> bytes = GetRaw(sizeof(T)); ok_) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  // A number that may not exceed `limit`.
  template <typename T>
  T GetAtMost(T limit) {
    T value = Get<T>();
    if (value > limit) Fail();
    return ok_ ? value : T{};
  }
  std::span<const std::byte> GetRaw(size_t size) {
    if (size > rest_.size()) Fail();
    if (!ok_) return {};
    std::span<const std::byte> bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
    return bytes;
  }
  std::string GetText(size_t limit) {
    auto size = GetAtMost<uint16_t>(static_cast<uint16_t>(limit));
    std::span<const std::byte> bytes = GetRaw(size);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  template <size_t N>
  void GetInto(std::array<unsigned char, N>& out) {
    if (std::span<const std::byte> bytes = GetRaw(N); ok_) std::memcpy(out.data(), bytes.data(), N);
  }

  void Fail() {
    ok_ = false;
    rest_ = {};
  }
  bool ok() const { return ok_; }
  size_t left() const { return rest_.size(); }
  // True if everything was read and nothing was wrong.
  bool Done() const { return ok_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace headrace
