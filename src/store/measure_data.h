// The objects that a measurement writes: bytes that no disk compresses, that tell which object they belong to, and that can be
// checked block by block without keeping them.
//
// Every block begins with a stamp of its own (run, object, block) and goes on with a piece of one random pattern, so that
// a thousand objects need the memory of one. Thread-safe: nothing changes after construction.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headrace/store.h"

namespace headrace {

class MeasureData {
 public:
  // Objects of `object_bytes`, checked in blocks of `block_bytes`; the last block may be shorter.
  MeasureData(uint64_t seed, uint64_t object_bytes, uint64_t block_bytes);

  uint64_t object_bytes() const { return object_bytes_; }
  uint64_t block_bytes() const { return block_bytes_; }
  uint64_t blocks() const { return (object_bytes_ + block_bytes_ - 1) / block_bytes_; }

  // The content of an object, without copying the pattern.
  Body Content(uint64_t object) const;
  // Whether `bytes` are those of the object from `first_block` on: all of them, by their checksums.
  bool Matches(uint64_t object, uint64_t first_block, std::span<const std::byte> bytes) const;

 private:
  // How a block is made: a stamp, and then the pattern from `slide` on.
  struct Block {
    std::string stamp;
    Bytes filling;
    uint32_t filling_crc;
    uint64_t size() const { return stamp.size() + filling.size(); }
  };
  Block MakeBlock(uint64_t object, uint64_t block) const;
  uint64_t FillingBytes(uint64_t block) const;

  const uint64_t seed_;
  const uint64_t object_bytes_;
  const uint64_t block_bytes_;
  Bytes pattern_;
  // Of the filling of a whole block and of the last one, for each slide: reading must not cost two checksums.
  std::vector<uint32_t> whole_crcs_, last_crcs_;
};

}  // namespace headrace
