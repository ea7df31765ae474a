// The object in which the steps of one block are stored: how it is named, stored and found.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace headrace {

// Names a chunk for ever: no two chunks of a stream have the same name.
struct ChunkName {
  uint16_t strand = 0;
  uint32_t epoch = 0;
  uint64_t seq = 0;
  uint64_t nonce = 0;

  std::string Key() const;  // data/<strand>/<epoch>-<seq>-<nonce>
  static std::optional<ChunkName> FromKey(const std::string& key);
  friend auto operator<=>(const ChunkName&, const ChunkName&) = default;
};

// A chunk in the index.
struct Entry {
  ChunkName name;
  uint64_t block = 0;
  uint64_t first_step = 0;  // set when the block becomes visible
  uint32_t steps = 0;
  uint64_t bytes = 0;
  uint32_t header_bytes = 0;
  uint32_t header_crc = 0;
  uint32_t mixture = 0;

  uint64_t end_step() const { return first_step + steps; }
  friend bool operator==(const Entry&, const Entry&) = default;
};

enum class Codec : uint8_t { kNone = 0, kZstd = 1 };

// How the cells of a chunk are stored. A cell that does not become smaller is stored as it is.
struct ChunkOptions {
  Codec codec = Codec::kNone;
  int zstd_level = 1;
};

}  // namespace headrace
