// CRC32C (Castagnoli), the checksum of everything that is stored.
//
// Uses the processor's instructions where it has them; all ways give the same answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace {

enum class Crc32cWay {
  kPortable,
  kInstruction,  // the processor's own for this checksum, 8 bytes at a time, several streams at once
  kWide,  // carry-less products, 64 bytes at a time: x86 with AVX-512
};
// The last of them that this machine can do.
Crc32cWay Crc32cBestWay();

// Extends `crc` (0 for nothing yet) by `bytes`. `way` is one that this machine can do.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc = 0, Crc32cWay way = Crc32cBestWay());
// The same, and copies them to `to`; quicker than one after the other where they do not fit into the processor's caches.
uint32_t Crc32cCopy(std::span<const std::byte> bytes, std::byte* to, uint32_t crc = 0, Crc32cWay way = Crc32cBestWay());
// The checksum of A followed by B, from theirs and the length of B.
uint32_t Crc32cJoin(uint32_t crc_a, uint32_t crc_b, uint64_t length_b);

}  // namespace headrace
