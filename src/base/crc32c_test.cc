#include "base/crc32c.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace headrace {
namespace {

std::span<const std::byte> AsBytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::vector<std::byte> Noise(size_t size) {
  Random random(size);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
  return bytes;
}

// All that this machine can do.
std::vector<Crc32cWay> Ways() {
  std::vector<Crc32cWay> ways;
  for (Crc32cWay way : {Crc32cWay::kPortable, Crc32cWay::kInstruction, Crc32cWay::kWide})
    if (way <= Crc32cBestWay()) ways.push_back(way);
  return ways;
}

struct Published {
  std::string text;
  uint32_t crc;
};

// RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
std::vector<Published> PublishedVectors() {
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up.push_back(static_cast<char>(i));
    down.push_back(static_cast<char>(31 - i));
  }
  std::string scsi_read = {
      0x01, '\xc0', 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x14, 0x00,   0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18,
      0x28, 0x00,   0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
  };
  return {
      {std::string(32, '\0'), 0x8a9136aa},
      {std::string(32, '\xff'), 0x62a8ab43},
      {up, 0x46dd794e},
      {down, 0x113fdb5c},
      {scsi_read, 0xd9963a56},
      {"123456789", 0xe3069283},
      {"", 0},
  };
}

TEST(Crc32c, AgreesWithPublishedVectors) {
  for (const Published& published : PublishedVectors()) {
    for (Crc32cWay way : Ways()) EXPECT_EQ(Crc32c(AsBytes(published.text), 0, way), published.crc);
  }
}

TEST(Crc32c, InstructionsAreUsedWhereTheyAre) {
#if defined(__x86_64__)
  const bool has = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
  EXPECT_EQ(Crc32cBestWay(), !has ? Crc32cWay::kPortable : wide ? Crc32cWay::kWide : Crc32cWay::kInstruction);
#endif
}

TEST(Crc32c, AllWaysAgreeAtEveryLengthAndAlignment) {
  std::vector<std::byte> noise = Noise(3000);
  for (size_t offset = 0; offset < 16; ++offset) {
    for (size_t length = 0; length < 1300; length += offset == 0 ? 1 : 7) {
      std::span<const std::byte> piece(noise.data() + offset, length);
      for (Crc32cWay way : Ways())
        ASSERT_EQ(Crc32c(piece, 5, way), Crc32c(piece, 5, Crc32cWay::kPortable)) << offset << "+" << length;
    }
  }
}

TEST(Crc32c, AllWaysAgreeOnLongInput) {
  std::vector<std::byte> noise = Noise(2'000'000);
  Random random(1);
  for (int i = 0; i < 40; ++i) {
    size_t offset = random.Below(64);
    std::span<const std::byte> piece(noise.data() + offset, random.Below(noise.size() - offset));
    auto seed = static_cast<uint32_t>(random.Next());
    for (Crc32cWay way : Ways())
      ASSERT_EQ(Crc32c(piece, seed, way), Crc32c(piece, seed, Crc32cWay::kPortable)) << offset << "+" << piece.size();
  }
}

TEST(Crc32c, CopiesWhatItChecksAtEveryAlignmentAndNothingElse) {
  const std::vector<std::byte> noise = Noise(200'000);
  for (Crc32cWay way : Ways()) {
    for (size_t length :
         {0u, 1u, 63u, 64u, 65u, 511u, 512u, 8191u, 8192u, 8193u, 16383u, 16384u, 16447u, 65536u, 70'001u, 150'000u}) {
      for (size_t from : {0u, 3u, 64u}) {
        for (size_t to : {0u, 1u, 16u, 60u}) {
          std::vector<std::byte> copy(length + 200, std::byte{0xEE});
          std::span<const std::byte> piece = std::span(noise).subspan(from, length);
          ASSERT_EQ(Crc32cCopy(piece, copy.data() + 64 + to, 77, way), Crc32c(piece, 77)) << length << " from " << from;
          ASSERT_TRUE(std::equal(piece.begin(), piece.end(), copy.begin() + static_cast<std::ptrdiff_t>(64 + to)));
          ASSERT_EQ(copy[63 + to], std::byte{0xEE});
          ASSERT_EQ(copy[64 + to + length], std::byte{0xEE});
        }
      }
    }
  }
}

RC_GTEST_PROP(Crc32c, CanBeExtendedPieceByPiece, (const std::string& a, const std::string& b)) {
  RC_ASSERT(Crc32c(AsBytes(b), Crc32c(AsBytes(a))) == Crc32c(AsBytes(a + b)));
}

RC_GTEST_PROP(Crc32c, JoinIsTheChecksumOfBoth, (const std::string& a, const std::string& b)) {
  RC_ASSERT(Crc32cJoin(Crc32c(AsBytes(a)), Crc32c(AsBytes(b)), b.size()) == Crc32c(AsBytes(a + b)));
}

TEST(Crc32c, JoinOfLongPieces) {
  std::vector<std::byte> noise = Noise(300'000);
  uint32_t whole = Crc32c(noise);
  for (size_t cut : {0u, 1u, 4096u, 65536u, 131072u, 299'999u, 300'000u}) {
    std::span<const std::byte> all(noise);
    EXPECT_EQ(Crc32cJoin(Crc32c(all.first(cut)), Crc32c(all.subspan(cut)), noise.size() - cut), whole) << cut;
  }
}

TEST(Crc32c, JoinReachesLengthsThatNobodyCouldRead) {
  // Zeros behind a piece, joined at once or in two halves, for the largest lengths there are.
  uint32_t a = Crc32c(AsBytes("something"));
  auto behind = [&](uint32_t crc, uint64_t length) { return Crc32cJoin(crc, 0, length); };
  EXPECT_EQ(behind(a, UINT64_MAX), behind(behind(a, 1ull << 63), (1ull << 63) - 1));
  EXPECT_EQ(behind(a, 1ull << 40), behind(behind(a, 1ull << 39), 1ull << 39));
  EXPECT_NE(behind(a, 1ull << 40), a);
}

TEST(Crc32c, EveryFlippedBitIsSeen) {
  std::vector<std::byte> noise = Noise(1000);
  uint32_t before = Crc32c(noise);
  for (size_t bit = 0; bit < 8 * noise.size(); ++bit) {
    noise[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    ASSERT_NE(Crc32c(noise), before) << "bit " << bit;
    noise[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
}

}  // namespace
}  // namespace headrace
