// What is fixed when a stream is created: `stream.json`, written once and never changed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "headrace/blocks.h"
#include "headrace/result.h"

namespace headrace {

// 16 random bytes that no other stream has; written as 32 hexadecimal digits.
using Uuid = std::array<unsigned char, 16>;
std::string UuidText(const Uuid& uuid);
Result<Uuid> ParseUuid(std::string_view text);

enum class Order : uint8_t {
  kPlanned = 0,  // block t belongs to strand t mod V; the stream is the same whatever the timing
  kArrival = 1,  // a block's number is its commit's place
};

enum class Dtype : uint8_t { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF16, kBf16, kF32, kF64, kBool };
std::string_view DtypeName(Dtype dtype);
Result<Dtype> ParseDtype(std::string_view name);
size_t DtypeBytes(Dtype dtype);

// One named array of every cell.
struct Column {
  enum Kind : uint8_t {
    kArray,   // one array of any shape
    kRagged,  // values and offsets: rows of different lengths
    kBytes,   // the same for byte strings: u8 values and offsets
  };
  std::string name;
  Dtype dtype = Dtype::kI32;
  Kind kind = kArray;

  // How many stored arrays it has: values, and offsets if there are rows.
  int arrays() const { return kind == kArray ? 1 : 2; }
  friend bool operator==(const Column&, const Column&) = default;
};

struct StreamInfo {
  static constexpr uint32_t kFormat = 1;
  static constexpr uint32_t kMaxStrands = 256;
  static constexpr uint32_t kMaxLanes = 65536;

  Uuid uuid{};
  std::vector<std::string> features_required;  // a reader that does not know one of these must refuse
  std::vector<std::string> features_optional;  // a reader may pass these over
  uint32_t lanes = 1;
  uint32_t strands = 1;
  Order order = Order::kPlanned;
  BlockSizes blocks;
  uint32_t window = 1;  // how many blocks beyond the frontier may be parked; at least the number of strands
  uint32_t slots_per_marker = 1024;
  uint32_t segment_entries = 128;  // how many chunks are sealed into one segment of the index
  std::vector<Column> columns;
  std::string recipe;  // the object that says what decides the content, "recipe/<sha256>"; empty where there is none
  std::string recipe_hash;  // of whatever decides the content; empty where nobody does

  std::string ToJson() const;
  static Result<StreamInfo> FromJson(std::string_view text);
  // Ok if the numbers fit together.
  Status Check() const;

  friend bool operator==(const StreamInfo&, const StreamInfo&) = default;

 private:
  static Result<StreamInfo> ReadJson(std::string_view text);
};

}  // namespace headrace
