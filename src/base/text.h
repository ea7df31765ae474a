// Small things with text that the standard library of C++20 in gcc 12 lacks.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace headrace {

inline void AppendText(std::string& out, std::string_view text) { out.append(text); }
inline void AppendText(std::string& out, char c) { out.push_back(c); }
// A template, so that a string literal does not turn into a bool.
template <std::same_as<bool> Bool>
void AppendText(std::string& out, Bool value) {
  out.append(value ? "true" : "false");
}
template <typename Number>
  requires(std::is_arithmetic_v<Number> && !std::same_as<Number, bool> && !std::same_as<Number, char>)
void AppendText(std::string& out, Number value) {
  char digits[64];
  auto [end, _] = std::to_chars(digits, digits + sizeof(digits), value);
  out.append(digits, end);
}

// Cat("range ", 3, " of ", key): the pieces, one after another.
template <typename... Pieces>
std::string Cat(const Pieces&... pieces) {
  std::string out;
  (AppendText(out, pieces), ...);
  return out;
}

// `value` with `digits` places behind the point: Fixed(1.5, 2) is "1.50".
std::string Fixed(double value, int digits);

std::vector<std::string> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);
std::string Lower(std::string_view text);

// The whole text as a number, or nothing: no sign, no space, no rest.
bool ParseNumber(std::string_view text, uint64_t& value);

// %41 → A. False if an escape is broken.
bool PercentDecode(std::string_view text, std::string& out);
// RFC 3986: everything but letters, digits and -._~ (and '/' if `keep_slash`) as %XX in capitals.
std::string PercentEncode(std::string_view text, bool keep_slash = false);

std::string Hex(const void* data, size_t size);
bool IsUtf8(std::string_view text);

}  // namespace headrace
