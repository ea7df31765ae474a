#include "base/crc32c.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define HR_CRC32C_TARGET __attribute__((target("sse4.2,pclmul")))
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#if defined(__clang__)
// Its <arm_acle.h> hides these from programs that are built for every ARMv8.
#define __crc32cd __builtin_arm_crc32cd
#define __crc32cb __builtin_arm_crc32cb
#define HR_CRC32C_TARGET __attribute__((target("crc,aes")))
#else
#define HR_CRC32C_TARGET __attribute__((target("+crc+crypto")))
#endif
#endif

namespace headrace {
namespace {

// Polynomials over GF(2) modulo Castagnoli's, as a CRC has them: the highest bit is the coefficient of x⁰.
constexpr uint32_t kCastagnoli = 0x82F63B78;
constexpr uint32_t kOne = 0x80000000;

constexpr uint32_t TimesX(uint32_t a) { return a & 1 ? (a >> 1) ^ kCastagnoli : a >> 1; }

constexpr uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = TimesX(b);
  }
  return product;
}

// x^exponent.
constexpr uint32_t PowerOfX(uint64_t exponent) {
  uint32_t power = kOne;
  uint32_t square = TimesX(kOne);
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) power = Multiply(power, square);
    square = Multiply(square, square);
  }
  return power;
}

// Entry k is x^(8·2^k): what 2^k bytes behind it do to a checksum.
constexpr std::array<uint32_t, 64> kPowersOfBytes = [] {
  std::array<uint32_t, 64> powers{};
  powers[0] = PowerOfX(8);
  for (size_t k = 1; k < powers.size(); ++k) powers[k] = Multiply(powers[k - 1], powers[k - 1]);
  return powers;
}();

// Entry [k][b] is the checksum state after byte b and k zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 8> kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t state = byte;
    for (int i = 0; i < 8; ++i) state = TimesX(state);
    tables[0][byte] = state;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}();

inline uint64_t LoadWord(const std::byte* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

#ifdef HR_CRC32C_TARGET

#if defined(__x86_64__)
bool HasInstructions() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"); }

HR_CRC32C_TARGET inline uint32_t StepWord(uint32_t state, uint64_t word) {
  return static_cast<uint32_t>(_mm_crc32_u64(state, word));
}
HR_CRC32C_TARGET inline uint32_t StepByte(uint32_t state, std::byte byte) {
  return _mm_crc32_u8(state, static_cast<unsigned char>(byte));
}
HR_CRC32C_TARGET inline uint64_t CarrylessProduct(uint32_t a, uint32_t b) {
  return static_cast<uint64_t>(
      _mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(a)), _mm_cvtsi32_si128(static_cast<int>(b)), 0)));
}
#else
bool HasInstructions() {
  unsigned long has = getauxval(AT_HWCAP);
  return (has & HWCAP_CRC32) != 0 && (has & HWCAP_PMULL) != 0;
}

HR_CRC32C_TARGET inline uint32_t StepWord(uint32_t state, uint64_t word) { return __crc32cd(state, word); }
HR_CRC32C_TARGET inline uint32_t StepByte(uint32_t state, std::byte byte) { return __crc32cb(state, static_cast<uint8_t>(byte)); }
HR_CRC32C_TARGET inline uint64_t CarrylessProduct(uint32_t a, uint32_t b) { return static_cast<uint64_t>(vmull_p64(a, b)); }
#endif

// What `bytes` bytes behind it make of a state is state · x^(8·bytes). The instruction reduces a product of 63 bits by itself and
// multiplies it by x^33 on the way (32 for the CRC, 1 because the product has one bit less than the word): so much is left out here.
constexpr uint32_t Behind(uint64_t bytes) { return PowerOfX(8 * bytes - 33); }

// The instruction takes three cycles but starts every cycle: three independent streams keep it busy.
template <size_t kStreamBytes>
HR_CRC32C_TARGET inline uint32_t StepThreeStreams(uint32_t state, const std::byte*& at, size_t& left) {
  while (left >= 3 * kStreamBytes) {
    uint32_t first = state, second = 0, third = 0;
    for (const std::byte* end = at + kStreamBytes; at != end; at += 8) {
      first = StepWord(first, LoadWord(at));
      second = StepWord(second, LoadWord(at + kStreamBytes));
      third = StepWord(third, LoadWord(at + 2 * kStreamBytes));
    }
    constexpr uint32_t kBehindOne = Behind(kStreamBytes);
    constexpr uint32_t kBehindTwo = Behind(2 * kStreamBytes);
    state = third ^ StepWord(0, CarrylessProduct(first, kBehindTwo) ^ CarrylessProduct(second, kBehindOne));
    at += 2 * kStreamBytes;
    left -= 3 * kStreamBytes;
  }
  return state;
}

HR_CRC32C_TARGET uint32_t WithInstructions(std::span<const std::byte> bytes, uint32_t crc) {
  uint32_t state = ~crc;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  // Long streams where there is enough, because the processor fetches ahead only inside a stream: bytes that are in no cache go
  // through half as fast again. Short ones for the rest.
  state = StepThreeStreams<256 * 1024>(state, at, left);
  state = StepThreeStreams<64 * 1024>(state, at, left);
  state = StepThreeStreams<16 * 1024>(state, at, left);
  state = StepThreeStreams<4096>(state, at, left);
  state = StepThreeStreams<256>(state, at, left);
  state = StepThreeStreams<32>(state, at, left);
  for (; left >= 8; left -= 8, at += 8) state = StepWord(state, LoadWord(at));
  for (; left > 0; --left, ++at) state = StepByte(state, *at);
  return ~state;
}

#endif

}  // namespace

uint32_t Crc32cPortable(std::span<const std::byte> bytes, uint32_t crc) {
  uint32_t state = ~crc;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word = LoadWord(at) ^ state;
    state = 0;
    for (size_t i = 0; i < 8; ++i) state ^= kTables[7 - i][word >> (8 * i) & 0xFF];
  }
  for (; left > 0; --left, ++at) state = (state >> 8) ^ kTables[0][(state ^ static_cast<uint32_t>(*at)) & 0xFF];
  return ~state;
}

bool Crc32cIsHardware() {
#ifdef HR_CRC32C_TARGET
  static const bool has = HasInstructions();
  return has;
#else
  return false;
#endif
}

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc) {
#ifdef HR_CRC32C_TARGET
  if (Crc32cIsHardware()) return WithInstructions(bytes, crc);
#endif
  return Crc32cPortable(bytes, crc);
}

uint32_t Crc32cJoin(uint32_t crc_a, uint32_t crc_b, uint64_t length_b) {
  // The inversions before and after cancel each other out.
  for (size_t k = 0; length_b != 0; ++k, length_b >>= 1) {
    if (length_b & 1) crc_a = Multiply(crc_a, kPowersOfBytes[k]);
  }
  return crc_a ^ crc_b;
}

namespace {

// Small enough for the innermost cache: what the checksum has just read is copied from there.
constexpr size_t kTile = 8 * 1024;

#if defined(__x86_64__)
// Past the caches: memory that is only written need not be read first, and what others have in the caches stays there.
void CopyTile(const std::byte* from, std::byte* to, size_t size) {
  size_t head = std::min(size, (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64);
  std::memcpy(to, from, head);
  size_t at = head;
  for (; at + 64 <= size; at += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    __m128i a = _mm_loadu_si128(source);
    __m128i b = _mm_loadu_si128(source + 1);
    __m128i c = _mm_loadu_si128(source + 2);
    __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + at, from + at, size - at);
}
void FinishTiles() { _mm_sfence(); }
#else
void CopyTile(const std::byte* from, std::byte* to, size_t size) { std::memcpy(to, from, size); }
void FinishTiles() {}
#endif

}  // namespace

uint32_t Crc32cCopy(std::span<const std::byte> bytes, std::byte* to, uint32_t crc) {
  constexpr size_t kPastTheCaches = 64 * 1024;
  const bool large = bytes.size() >= kPastTheCaches;
  for (size_t at = 0; at < bytes.size(); at += kTile) {
    std::span<const std::byte> tile = bytes.subspan(at, std::min(kTile, bytes.size() - at));
    crc = Crc32c(tile, crc);
    if (large) {
      CopyTile(tile.data(), to + at, tile.size());
    } else {
      std::memcpy(to + at, tile.data(), tile.size());
    }
  }
  if (large) FinishTiles();
  return crc;
}

}  // namespace headrace
