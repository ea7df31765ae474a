#include "cli/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace headrace::cli {

size_t Width(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string PadLeft(std::string_view text, size_t width) {
  return std::string(width - std::min(width, Width(text)), ' ').append(text);
}

std::string PadRight(std::string_view text, size_t width) {
  return std::string(text).append(width - std::min(width, Width(text)), ' ');
}

std::vector<std::string> Table::Lines() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += i == 0 ? PadRight(row[i], widths[i]) : PadLeft(row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string Grouped(double number) {
  std::string digits = fmt::format("{:.0f}", std::abs(number));
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return number < 0 ? fmt::format("-{}", digits) : digits;
}

}  // namespace headrace::cli
