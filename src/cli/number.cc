#include "cli/number.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace headrace::cli {
namespace {

// The two short floats: a sign, an exponent, and so many bits behind the point.
struct ShortFloat {
  int mantissa_bits;
  int least_exponent;  // of the smallest number above 0: 2^least_exponent
  uint16_t infinity;
};
constexpr ShortFloat kHalf = {10, -24, 0x7C00};
constexpr ShortFloat kBrain = {7, -133, 0x7F80};

std::optional<uint16_t> Shorten(double value, const ShortFloat& form) {
  auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | form.infinity | (1 << (form.mantissa_bits - 1)));
  if (std::isinf(value)) return static_cast<uint16_t>(sign | form.infinity);
  if (value == 0) return sign;
  int exponent = 0;
  std::frexp(value, &exponent);
  // Counted in units of the last place, rounded to even as the hardware does.
  int unit = std::max(exponent - form.mantissa_bits - 1, form.least_exponent);
  auto count = static_cast<int64_t>(std::nearbyint(std::ldexp(std::fabs(value), -unit)));
  int64_t one = int64_t{1} << form.mantissa_bits;
  int64_t bits = count < one ? count : ((unit - form.least_exponent + 1) * one) + count - one;
  if (bits >= form.infinity) return std::nullopt;
  return static_cast<uint16_t>(sign | bits);
}

double Lengthen(uint16_t bits, const ShortFloat& form) {
  double sign = (bits & 0x8000) != 0 ? -1 : 1;
  int rest = bits & 0x7FFF;
  int one = 1 << form.mantissa_bits;
  if (rest >= form.infinity) return rest == form.infinity ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  int exponent = rest / one;
  int mantissa = rest % one;
  return sign * (exponent == 0 ? std::ldexp(mantissa, form.least_exponent)
                               : std::ldexp(mantissa + one, form.least_exponent + exponent - 1));
}

std::string Text(const Number& number) { return ToJson(number).dump(); }

std::string OutOfRange(const Number& number, Dtype dtype) {
  return fmt::format("{} does not fit {}", Text(number), DtypeName(dtype));
}

template <typename T>
void Write(std::byte* out, T value) {
  std::memcpy(out, &value, sizeof(value));
}

template <typename T>
std::string StoreWhole(const Number& number, Dtype dtype, std::byte* out) {
  if (std::holds_alternative<bool>(number))
    return fmt::format("{} is no number, and the column is {}", Text(number), DtypeName(dtype));
  if (const auto* real = std::get_if<double>(&number)) {
    constexpr double kExact = 9007199254740992.0;  // 2^53: above it a double cannot tell neighbours apart
    if (!(std::fabs(*real) <= kExact) || *real != std::floor(*real)) {
      return fmt::format("{} is not a whole number, and the column is {}", Text(number), DtypeName(dtype));
    }
    return StoreWhole<T>(Number(static_cast<int64_t>(*real)), dtype, out);
  }
  bool fits = std::holds_alternative<int64_t>(number) ? std::in_range<T>(std::get<int64_t>(number))
                                                      : std::in_range<T>(std::get<uint64_t>(number));
  if (!fits) return OutOfRange(number, dtype);
  Write(out, std::holds_alternative<int64_t>(number) ? static_cast<T>(std::get<int64_t>(number))
                                                     : static_cast<T>(std::get<uint64_t>(number)));
  return {};
}

double AsReal(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

std::string StoreReal(const Number& number, Dtype dtype, std::byte* out) {
  if (std::holds_alternative<bool>(number))
    return fmt::format("{} is no number, and the column is {}", Text(number), DtypeName(dtype));
  double value = AsReal(number);
  if (dtype == Dtype::kF64) {
    Write(out, value);
    return {};
  }
  if (dtype == Dtype::kF32) {
    if (std::isfinite(value) && std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max()))
      return OutOfRange(number, dtype);
    Write(out, static_cast<float>(value));
    return {};
  }
  std::optional<uint16_t> bits = Shorten(value, dtype == Dtype::kF16 ? kHalf : kBrain);
  if (!bits) return OutOfRange(number, dtype);
  Write(out, *bits);
  return {};
}

std::string StoreTruth(const Number& number, std::byte* out) {
  if (!std::holds_alternative<bool>(number) && AsReal(number) != 0 && AsReal(number) != 1) {
    return fmt::format("{} is neither true nor false, and the column is bool", Text(number));
  }
  Write(out, static_cast<uint8_t>(AsReal(number) != 0));
  return {};
}

template <typename T>
T Read(const Array& array, uint64_t element) {
  T value;
  std::memcpy(&value, array.bytes.data() + element * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::string StoreAs(const Number& number, Dtype dtype, std::byte* out) {
  switch (dtype) {
    case Dtype::kU8: return StoreWhole<uint8_t>(number, dtype, out);
    case Dtype::kI8: return StoreWhole<int8_t>(number, dtype, out);
    case Dtype::kU16: return StoreWhole<uint16_t>(number, dtype, out);
    case Dtype::kI16: return StoreWhole<int16_t>(number, dtype, out);
    case Dtype::kU32: return StoreWhole<uint32_t>(number, dtype, out);
    case Dtype::kI32: return StoreWhole<int32_t>(number, dtype, out);
    case Dtype::kU64: return StoreWhole<uint64_t>(number, dtype, out);
    case Dtype::kI64: return StoreWhole<int64_t>(number, dtype, out);
    case Dtype::kF16:
    case Dtype::kBf16:
    case Dtype::kF32:
    case Dtype::kF64: return StoreReal(number, dtype, out);
    case Dtype::kBool: return StoreTruth(number, out);
  }
  return "unknown type";
}

Number ElementOf(const Array& array, uint64_t element) {
  switch (array.dtype) {
    case Dtype::kU8: return uint64_t{Read<uint8_t>(array, element)};
    case Dtype::kI8: return int64_t{Read<int8_t>(array, element)};
    case Dtype::kU16: return uint64_t{Read<uint16_t>(array, element)};
    case Dtype::kI16: return int64_t{Read<int16_t>(array, element)};
    case Dtype::kU32: return uint64_t{Read<uint32_t>(array, element)};
    case Dtype::kI32: return int64_t{Read<int32_t>(array, element)};
    case Dtype::kU64: return Read<uint64_t>(array, element);
    case Dtype::kI64: return Read<int64_t>(array, element);
    case Dtype::kF16: return Lengthen(Read<uint16_t>(array, element), kHalf);
    case Dtype::kBf16: return Lengthen(Read<uint16_t>(array, element), kBrain);
    case Dtype::kF32: return static_cast<double>(Read<float>(array, element));
    case Dtype::kF64: return Read<double>(array, element);
    case Dtype::kBool: return Read<uint8_t>(array, element) != 0;
  }
  return false;
}

nlohmann::json ToJson(const Number& number) {
  return std::visit([](auto value) { return nlohmann::json(value); }, number);
}

}  // namespace headrace::cli
