// What an expression is once it is parsed: a tree of nodes that is run for each row.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "recipe/expression.h"

namespace headrace {

enum class Expression::Op : uint8_t {
  kLiteral,
  kColumn,
  kOr,
  kAnd,
  kNot,
  kEqual,
  kUnequal,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,  // the first child among the others
  kIsNull,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
  kPower,
  kNegate,
  kLength,  // of a text that is no column
  kLengthColumn,
  kMin,
  kMax,
  kAbs,
  kLog,
  kSqrt,
  kFloor,
};

struct Expression::Node {
  Op op = Op::kLiteral;
  Kind kind = Kind::kAny;
  uint32_t at = 0;  // in the text
  uint32_t first = 0, count = 0;  // children, in Program::children
  uint32_t column = 0;
  int32_t text = -1;  // literal: of Program::texts
  Value value;  // literal: null, truth or number
  int depth = 1;
};

struct Expression::Program {
  std::string text;
  std::vector<Node> nodes;
  std::vector<uint32_t> children;
  std::vector<std::string> texts;
  std::vector<std::string> columns;
  std::vector<char> lengths;
  uint32_t root = 0;

  Result<Value> Run(uint32_t index, const Row& row) const;
  Status Wrong(const Node& node, std::string_view what) const {
    return Status(Code::kInvalidArgument, Cat("in \"", text, "\", at character ", node.at + 1, ": ", what));
  }

 private:
  Result<Value> Compare(const Node& node, const Row& row) const;
  Result<Value> Logic(const Node& node, const Row& row) const;
  Result<Value> Among(const Node& node, const Row& row) const;
  Result<Value> Extreme(const Node& node, const Row& row) const;
  Result<Value> Arithmetic(const Node& node, const Row& row) const;
  Result<std::optional<double>> NumberAt(const Node& node, uint32_t child, const Row& row) const;
  Result<std::optional<bool>> TruthAt(const Node& node, uint32_t child, const Row& row) const;
  uint32_t Child(const Node& node, uint32_t i) const { return children[node.first + i]; }
};

// For people: "a number".
std::string_view KindName(Expression::Kind kind);
// Whether something of the one kind may stand where the other is wanted, as far as anybody can tell before a row is seen.
bool Fits(Expression::Kind kind, Expression::Kind wanted);

}  // namespace headrace
