// CRC32C (Castagnoli), the checksum of everything that is stored.
//
// Uses the processor's instruction, several streams at once, where there is one; the portable form gives the same answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace {

// Extends `crc` (0 for nothing yet) by `bytes`.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);
// The same, and copies them to `to`; quicker than one after the other where they do not fit into the processor's caches.
uint32_t Crc32cCopy(std::span<const std::byte> bytes, std::byte* to, uint32_t crc = 0);
uint32_t Crc32cPortable(std::span<const std::byte> bytes, uint32_t crc = 0);
// True if `Crc32c` uses the instruction on this machine.
bool Crc32cIsHardware();
// The checksum of A followed by B, from theirs and the length of B.
uint32_t Crc32cJoin(uint32_t crc_a, uint32_t crc_b, uint64_t length_b);

}  // namespace headrace
