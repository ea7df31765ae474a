#include "cli/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

namespace headrace::cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What a number becomes in an array of `dtype`, and comes back as; the reason if it does not fit.
std::string Through(const Number& number, Dtype dtype) {
  std::byte memory[8] = {};
  std::string why = StoreAs(number, dtype, memory);
  if (!why.empty()) return why;
  Array array{dtype, {1}, Bytes::Copy(std::span(memory).first(DtypeBytes(dtype)))};
  return ToJson(ElementOf(array, 0)).dump();
}

uint16_t ShortBits(double value, Dtype dtype) {
  uint16_t bits = 0;
  EXPECT_EQ(StoreAs(value, dtype, reinterpret_cast<std::byte*>(&bits)), "") << value;
  return bits;
}

double FromShort(uint16_t bits, Dtype dtype) {
  Array array{dtype, {1}, Bytes::Copy(std::as_bytes(std::span(&bits, 1)))};
  return std::get<double>(ElementOf(array, 0));
}

TEST(Number, WholeNumbersFitUpToTheirLimits) {
  struct Row {
    Dtype dtype;
    int64_t least;
    uint64_t most;
  };
  for (const Row& row :
       {Row{Dtype::kU8, 0, 255}, Row{Dtype::kI8, -128, 127}, Row{Dtype::kU16, 0, 65535}, Row{Dtype::kI16, -32768, 32767},
        Row{Dtype::kU32, 0, UINT32_MAX}, Row{Dtype::kI32, INT32_MIN, INT32_MAX}}) {
    EXPECT_EQ(Through(row.least, row.dtype), std::to_string(row.least));
    EXPECT_EQ(Through(row.most, row.dtype), std::to_string(row.most));
    EXPECT_EQ(Through(row.least - 1, row.dtype),
              std::to_string(row.least - 1) + " does not fit " + std::string(DtypeName(row.dtype)));
    EXPECT_EQ(Through(row.most + 1, row.dtype),
              std::to_string(row.most + 1) + " does not fit " + std::string(DtypeName(row.dtype)));
  }
  EXPECT_EQ(Through(uint64_t{UINT64_MAX}, Dtype::kU64), "18446744073709551615");
  EXPECT_EQ(Through(int64_t{-1}, Dtype::kU64), "-1 does not fit uint64");
  EXPECT_EQ(Through(int64_t{INT64_MIN}, Dtype::kI64), "-9223372036854775808");
  EXPECT_EQ(Through(uint64_t{1} << 63, Dtype::kI64), "9223372036854775808 does not fit int64");
}

TEST(Number, OnlyWholeNumbersAreCounted) {
  EXPECT_EQ(Through(3.0, Dtype::kI32), "3");
  EXPECT_EQ(Through(-0.0, Dtype::kU8), "0");
  EXPECT_EQ(Through(2.5, Dtype::kI32), "2.5 is not a whole number, and the column is int32");
  EXPECT_EQ(Through(1e300, Dtype::kI64), "1e+300 is not a whole number, and the column is int64");
  EXPECT_NE(Through(std::nan(""), Dtype::kI64).find("not a whole number"), std::string::npos);
  EXPECT_EQ(Through(9007199254740992.0, Dtype::kI64), "9007199254740992");
  EXPECT_NE(Through(9007199254740994.0, Dtype::kI64).find("not a whole number"), std::string::npos) << "may have been rounded";
  EXPECT_EQ(Through(300.0, Dtype::kU8), "300 does not fit uint8");
}

TEST(Number, TruthIsNoNumberAndTwoIsNoTruth) {
  EXPECT_EQ(Through(true, Dtype::kBool), "true");
  EXPECT_EQ(Through(int64_t{0}, Dtype::kBool), "false");
  EXPECT_EQ(Through(1.0, Dtype::kBool), "true");
  EXPECT_EQ(Through(int64_t{2}, Dtype::kBool), "2 is neither true nor false, and the column is bool");
  EXPECT_EQ(Through(true, Dtype::kI32), "true is no number, and the column is int32");
  EXPECT_EQ(Through(false, Dtype::kF16), "false is no number, and the column is float16");
}

TEST(Number, FloatsAreRoundedButDoNotGrowToInfinity) {
  EXPECT_EQ(Through(0.5, Dtype::kF32), "0.5");
  EXPECT_EQ(Through(3.5e38, Dtype::kF32), "3.5e+38 does not fit float32");
  EXPECT_EQ(Through(int64_t{7}, Dtype::kF64), "7.0");
  EXPECT_EQ(Through(65504.0, Dtype::kF16), "65504.0");
  EXPECT_EQ(Through(65519.0, Dtype::kF16), "65504.0") << "rounds down";
  EXPECT_EQ(Through(65520.0, Dtype::kF16), "65520.0 does not fit float16") << "would round to infinity";
  EXPECT_EQ(Through(1e39, Dtype::kBf16), "1e+39 does not fit bfloat16");
  EXPECT_EQ(ShortBits(kInfinity, Dtype::kF16), 0x7C00);
  EXPECT_EQ(ShortBits(-kInfinity, Dtype::kBf16), 0xFF80);
  EXPECT_EQ(ShortBits(std::nan(""), Dtype::kF16) & 0x7FFF, 0x7E00);
}

// By the definition of IEEE 754 binary16, and of bfloat16 as the upper half of a float.
TEST(Number, ShortFloatsHaveTheBitsOfTheirDefinition) {
  EXPECT_EQ(ShortBits(1.0, Dtype::kF16), 0x3C00);
  EXPECT_EQ(ShortBits(-2.0, Dtype::kF16), 0xC000);
  EXPECT_EQ(ShortBits(-0.0, Dtype::kF16), 0x8000);
  EXPECT_EQ(ShortBits(std::ldexp(1, -14), Dtype::kF16), 0x0400) << "the least normal number";
  EXPECT_EQ(ShortBits(std::ldexp(1, -24), Dtype::kF16), 0x0001) << "the least of all";
  EXPECT_EQ(ShortBits(std::ldexp(1, -25), Dtype::kF16), 0x0000) << "half of it rounds to even";
  EXPECT_EQ(ShortBits(std::ldexp(3, -25), Dtype::kF16), 0x0002) << "and this one up, to even";
  EXPECT_EQ(ShortBits(1 + std::ldexp(1, -11), Dtype::kF16), 0x3C00) << "a tie, to even";
  EXPECT_EQ(ShortBits(1 + std::ldexp(3, -11), Dtype::kF16), 0x3C02);
  EXPECT_EQ(ShortBits(std::ldexp(1023.75, -24), Dtype::kF16), 0x0400) << "rounds up into the normal numbers";
  for (float value : {1.0f, -3.140625f, 65280.0f, 1e-38f, 1e-40f, 3.3e38f}) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    EXPECT_EQ(ShortBits(value, Dtype::kBf16), rounded) << value;
  }
}

TEST(Number, EveryShortFloatComesBackAsItself) {
  for (Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    for (uint32_t bits = 0; bits <= UINT16_MAX; ++bits) {
      double value = FromShort(static_cast<uint16_t>(bits), dtype);
      if (std::isnan(value)) continue;
      ASSERT_EQ(ShortBits(value, dtype), bits) << DtypeName(dtype);
    }
  }
}

}  // namespace
}  // namespace headrace::cli
