#include "base/crc32c.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define HR_CRC32C_TARGET __attribute__((target("sse4.2,pclmul")))
#define HR_CRC32C_WIDE_TARGET __attribute__((target("avx512f,vpclmulqdq,sse4.2,pclmul")))
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

#ifdef HR_CRC32C_WIDE_TARGET

bool HasWideInstructions() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"); }

// So many go through at once, in four registers; less than twice as many are not worth it.
constexpr size_t kWideBytes = 256;
constexpr size_t kWorthWide = 2 * kWideBytes;

enum class Copying { kNot, kOrdinary, kPastTheCaches };

// What lies `kBytes` before `next`, moved to there: each 16 bytes are two halves of 64 bits, h·x^64 + l; times x^(8·kBytes), and x^33 less
// because the product of a half and 32 bits ends there.
template <size_t kBytes>
HR_CRC32C_WIDE_TARGET inline __m512i Fold(__m512i before, __m512i next) {
  constexpr long long kHigh = PowerOfX(8 * kBytes + 64 - 33), kLow = PowerOfX(8 * kBytes - 33);
  const __m512i factors = _mm512_set_epi64(kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh);
  const __m512i high = _mm512_clmulepi64_epi128(before, factors, 0x00);
  const __m512i low = _mm512_clmulepi64_epi128(before, factors, 0x11);
  return _mm512_ternarylogic_epi64(high, low, next, 0x96);  // all three, added
}

template <Copying kCopying>
HR_CRC32C_WIDE_TARGET inline __m512i LoadAndCopy(const std::byte* from, std::byte* to) {
  const __m512i bytes = _mm512_loadu_si512(from);
  if constexpr (kCopying == Copying::kOrdinary) _mm512_storeu_si512(to, bytes);
  if constexpr (kCopying == Copying::kPastTheCaches) _mm512_stream_si512(reinterpret_cast<__m512i*>(to), bytes);
  return bytes;
}

// A multiple of kWideBytes, at least one. Past the caches only to a multiple of 64.
template <Copying kCopying>
HR_CRC32C_WIDE_TARGET uint32_t Wide(std::span<const std::byte> bytes, std::byte* to, uint32_t crc) {
  const std::byte* at = bytes.data();
  auto load = [&](size_t i) HR_CRC32C_WIDE_TARGET {
    return LoadAndCopy<kCopying>(at + 64 * i, kCopying == Copying::kNot ? nullptr : to + 64 * i);
  };
  __m512i a = load(0), b = load(1), c = load(2), d = load(3);
  a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  for (size_t left = bytes.size() - kWideBytes; left != 0; left -= kWideBytes) {
    at += kWideBytes;
    if constexpr (kCopying != Copying::kNot) to += kWideBytes;
    a = Fold<kWideBytes>(a, load(0));
    b = Fold<kWideBytes>(b, load(1));
    c = Fold<kWideBytes>(c, load(2));
    d = Fold<kWideBytes>(d, load(3));
  }
  if constexpr (kCopying == Copying::kPastTheCaches) _mm_sfence();
  // These 64 bytes have the checksum of all.
  uint64_t words[8];
  _mm512_storeu_si512(words, Fold<64>(Fold<64>(Fold<64>(a, b), c), d));
  uint32_t state = 0;
  for (uint64_t word : words) state = StepWord(state, word);
  return ~state;
}

#endif

#endif

uint32_t Portable(std::span<const std::byte> bytes, uint32_t crc) {
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

Crc32cWay BestWay() {
#ifdef HR_CRC32C_WIDE_TARGET
  if (HasInstructions() && HasWideInstructions()) return Crc32cWay::kWide;
#endif
#ifdef HR_CRC32C_TARGET
  if (HasInstructions()) return Crc32cWay::kInstruction;
#endif
  return Crc32cWay::kPortable;
}

}  // namespace

Crc32cWay Crc32cBestWay() {
  static const Crc32cWay best = BestWay();
  return best;
}

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc, Crc32cWay way) {
#ifdef HR_CRC32C_WIDE_TARGET
  if (way == Crc32cWay::kWide && bytes.size() >= kWorthWide) {
    const size_t whole = bytes.size() / kWideBytes * kWideBytes;
    crc = Wide<Copying::kNot>(bytes.first(whole), nullptr, crc);
    bytes = bytes.subspan(whole);
  }
#endif
#ifdef HR_CRC32C_TARGET
  if (way != Crc32cWay::kPortable) return WithInstructions(bytes, crc);
#endif
  return Portable(bytes, crc);
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

uint32_t Crc32cCopy(std::span<const std::byte> bytes, std::byte* to, uint32_t crc, Crc32cWay way) {
  constexpr size_t kPastTheCaches = 8 * 1024;
  const bool large = bytes.size() >= kPastTheCaches;
#ifdef HR_CRC32C_WIDE_TARGET
  if (way == Crc32cWay::kWide && bytes.size() >= kWorthWide) {
    auto ends = [&](size_t size) {
      std::memcpy(to, bytes.data(), size);
      crc = Crc32c(bytes.first(size), crc, way);
      bytes = bytes.subspan(size);
      to += size;
    };
    if (large) ends((64 - reinterpret_cast<uintptr_t>(to) % 64) % 64);
    const size_t whole = bytes.size() / kWideBytes * kWideBytes;
    crc = large ? Wide<Copying::kPastTheCaches>(bytes.first(whole), to, crc)
                : Wide<Copying::kOrdinary>(bytes.first(whole), to, crc);
    bytes = bytes.subspan(whole);
    to += whole;
    ends(bytes.size());
    return crc;
  }
#endif
  for (size_t at = 0; at < bytes.size(); at += kTile) {
    std::span<const std::byte> tile = bytes.subspan(at, std::min(kTile, bytes.size() - at));
    crc = Crc32c(tile, crc, way);
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
