// The small language of `filter` and `cost`: "length(tokens) >= 32 and lang in ['de', 'en']".
//
//   or   and   not   == != < <= > >=  in  not in  is null  is not null   + -   * / %   -x   **      (later binds tighter, as in Python)
//
// Words: columns (or `quoted like this`), numbers, 'text', true, false, null. Functions: length(column), min, max, abs, log, sqrt, floor.
// `length` of a column is its number of tokens or elements, or of bytes if it is text; of a text, its bytes.
//
// NULL is as in SQL: unknown. Whatever is computed from it is null, `false and null` is false, `true or null` is true. What has no number as an answer
// (a division by zero, the log of -1) is null too. % has the sign of its right side, as in Python.
//
// Immutable, so thread-safe; cheap to copy. `Evaluate` allocates nothing unless it fails.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headrace/result.h"

namespace headrace {

// Null, a truth, a number or a text (whose bytes belong to the row or to the expression).
using Value = std::variant<std::monostate, bool, double, std::string_view>;

class Expression {
 public:
  // What an expression can be known to give before it has seen a row.
  enum class Kind : uint8_t { kAny, kTruth, kNumber, kText };
  // The value of column i of `columns()` in the row at hand. Where `is_length(i)`, the length of a list or of tokens as a number, or the text itself.
  using Row = std::function<Value(size_t)>;

  // An error names the character it is at and shows it.
  static Result<Expression> Parse(std::string_view text);

  // Each column once for its value and once for its length, where both are asked for.
  const std::vector<std::string>& columns() const;
  bool is_length(size_t column) const;
  Kind kind() const;
  const std::string& text() const;

  // Fails only where types do not fit: 'a' < 1.
  Result<Value> Evaluate(const Row& row) const;
  // As a filter: null is no. A number is an error.
  Result<bool> Test(const Row& row) const;
  // As a cost: null is `otherwise`. A text is an error.
  Result<double> Number(const Row& row, double otherwise = 0) const;

  // How it is kept: expression_program.h.
  enum class Op : uint8_t;
  struct Node;
  struct Program;

 private:
  explicit Expression(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

}  // namespace headrace
