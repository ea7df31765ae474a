// Rows of text in columns: the first column to the left, the others to the right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headrace::cli {

class Table {
 public:
  // Missing cells are empty.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // One string for each row, two spaces between columns, none at the end.
  std::vector<std::string> Lines() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// How many characters `text` takes on a terminal: UTF-8 counted by code point.
size_t Width(std::string_view text);
std::string PadLeft(std::string_view text, size_t width);
std::string PadRight(std::string_view text, size_t width);

// 1234567 as "1,234,567".
std::string Grouped(double number);

}  // namespace headrace::cli
