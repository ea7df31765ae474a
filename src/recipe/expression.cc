#include "recipe/expression.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "recipe/expression_parser.h"

namespace headrace {
namespace {

using Kind = Expression::Kind;

constexpr size_t kMostBytes = 65536;

Kind KindOf(const Value& value) {
  constexpr Kind kKinds[] = {Kind::kAny, Kind::kTruth, Kind::kNumber, Kind::kText};
  return kKinds[value.index()];
}

Value Finite(double number) {
  if (!std::isfinite(number)) return {};
  return number;
}

}  // namespace

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kTruth: return "a yes or no";
    case Kind::kNumber: return "a number";
    case Kind::kText: return "a text";
    case Kind::kAny: break;
  }
  return "anything";
}

bool Fits(Kind kind, Kind wanted) { return kind == Kind::kAny || wanted == Kind::kAny || kind == wanted; }

Result<std::optional<double>> Expression::Program::NumberAt(const Node& node, uint32_t child, const Row& row) const {
  HR_ASSIGN_OR_RETURN(const Value value, Run(Child(node, child), row));
  if (const double* number = std::get_if<double>(&value)) return std::optional<double>(*number);
  if (std::holds_alternative<std::monostate>(value)) return std::optional<double>();
  return Wrong(nodes[Child(node, child)], Cat("a number was expected, and this is ", KindName(KindOf(value))));
}

Result<std::optional<bool>> Expression::Program::TruthAt(const Node& node, uint32_t child, const Row& row) const {
  HR_ASSIGN_OR_RETURN(const Value value, Run(Child(node, child), row));
  if (const bool* truth = std::get_if<bool>(&value)) return std::optional<bool>(*truth);
  if (std::holds_alternative<std::monostate>(value)) return std::optional<bool>();
  return Wrong(nodes[Child(node, child)], Cat("a yes or no was expected, and this is ", KindName(KindOf(value))));
}

Result<Value> Expression::Program::Compare(const Node& node, const Row& row) const {
  HR_ASSIGN_OR_RETURN(const Value left, Run(Child(node, 0), row));
  HR_ASSIGN_OR_RETURN(const Value right, Run(Child(node, 1), row));
  if (left.index() == 0 || right.index() == 0) return Value{};
  if (left.index() != right.index()) {
    return Wrong(node, Cat(KindName(KindOf(left)), " cannot be compared with ", KindName(KindOf(right))));
  }
  switch (node.op) {
    case Op::kEqual: return Value{left == right};
    case Op::kUnequal: return Value{left != right};
    case Op::kLess: return Value{left < right};
    case Op::kLessEqual: return Value{left <= right};
    case Op::kGreater: return Value{left > right};
    default: return Value{left >= right};
  }
}

Result<Value> Expression::Program::Logic(const Node& node, const Row& row) const {
  const bool decided = node.op == Op::kOr;  // the truth that decides alone
  HR_ASSIGN_OR_RETURN(const std::optional<bool> left, TruthAt(node, 0, row));
  if (left == decided) return Value{decided};
  HR_ASSIGN_OR_RETURN(const std::optional<bool> right, TruthAt(node, 1, row));
  if (right == decided) return Value{decided};
  if (!left || !right) return Value{};
  return Value{!decided};
}

Result<Value> Expression::Program::Among(const Node& node, const Row& row) const {
  HR_ASSIGN_OR_RETURN(const Value wanted, Run(Child(node, 0), row));
  if (wanted.index() == 0) return Value{};
  bool unknown = false;
  for (uint32_t i = 1; i < node.count; ++i) {
    HR_ASSIGN_OR_RETURN(const Value item, Run(Child(node, i), row));
    if (item.index() == 0) {
      unknown = true;
    } else if (item.index() != wanted.index()) {
      return Wrong(node, Cat(KindName(KindOf(wanted)), " cannot be compared with ", KindName(KindOf(item))));
    } else if (item == wanted) {
      return Value{true};
    }
  }
  if (unknown) return Value{};
  return Value{false};
}

Result<Value> Expression::Program::Extreme(const Node& node, const Row& row) const {
  double best = 0;
  for (uint32_t i = 0; i < node.count; ++i) {
    HR_ASSIGN_OR_RETURN(const std::optional<double> number, NumberAt(node, i, row));
    if (!number) return Value{};
    best = i == 0 ? *number : node.op == Op::kMin ? std::min(best, *number) : std::max(best, *number);
  }
  return Value{best};
}

Result<Value> Expression::Program::Arithmetic(const Node& node, const Row& row) const {
  HR_ASSIGN_OR_RETURN(const std::optional<double> left, NumberAt(node, 0, row));
  if (!left) return Value{};
  switch (node.op) {
    case Op::kNegate: return Value{-*left};
    case Op::kAbs: return Value{std::abs(*left)};
    case Op::kLog: return Finite(std::log(*left));
    case Op::kSqrt: return Finite(std::sqrt(*left));
    case Op::kFloor: return Value{std::floor(*left)};
    default: break;
  }
  HR_ASSIGN_OR_RETURN(const std::optional<double> right, NumberAt(node, 1, row));
  if (!right) return Value{};
  switch (node.op) {
    case Op::kAdd: return Finite(*left + *right);
    case Op::kSubtract: return Finite(*left - *right);
    case Op::kMultiply: return Finite(*left * *right);
    case Op::kDivide: return Finite(*left / *right);
    case Op::kModulo: {
      double rest = std::fmod(*left, *right);
      if (rest != 0 && (rest < 0) != (*right < 0)) rest += *right;
      return Finite(rest);
    }
    default: return Finite(std::pow(*left, *right));
  }
}

Result<Value> Expression::Program::Run(uint32_t index, const Row& row) const {
  const Node& node = nodes[index];
  switch (node.op) {
    case Op::kLiteral:
      if (node.text >= 0) return Value{std::string_view(texts[node.text])};
      return node.value;
    case Op::kColumn: {
      Value value = row(node.column);
      if (const double* number = std::get_if<double>(&value)) return Finite(*number);
      return value;
    }
    case Op::kLengthColumn: {
      const Value value = row(node.column);
      if (const std::string_view* bytes = std::get_if<std::string_view>(&value)) return Value{static_cast<double>(bytes->size())};
      if (std::holds_alternative<bool>(value)) return Wrong(node, Cat("the column ", columns[node.column], " has no length"));
      return value;
    }
    case Op::kLength: {
      HR_ASSIGN_OR_RETURN(const Value value, Run(Child(node, 0), row));
      if (const std::string_view* bytes = std::get_if<std::string_view>(&value)) return Value{static_cast<double>(bytes->size())};
      return Value{};
    }
    case Op::kOr:
    case Op::kAnd: return Logic(node, row);
    case Op::kNot: {
      HR_ASSIGN_OR_RETURN(const std::optional<bool> truth, TruthAt(node, 0, row));
      if (!truth) return Value{};
      return Value{!*truth};
    }
    case Op::kIsNull: {
      HR_ASSIGN_OR_RETURN(const Value value, Run(Child(node, 0), row));
      return Value{value.index() == 0};
    }
    case Op::kEqual:
    case Op::kUnequal:
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual: return Compare(node, row);
    case Op::kIn: return Among(node, row);
    case Op::kMin:
    case Op::kMax: return Extreme(node, row);
    default: return Arithmetic(node, row);
  }
}

Result<Expression> Expression::Parse(std::string_view text) {
  if (text.size() > kMostBytes)
    return Status(Code::kInvalidArgument, Cat("an expression of ", text.size(), " bytes; at most ", kMostBytes, " are read"));
  auto program = std::make_shared<Program>();
  program->text = text;
  HR_RETURN_IF_ERROR(ParseExpression(program->text, *program));
  return Expression(std::move(program));
}

const std::vector<std::string>& Expression::columns() const { return program_->columns; }
bool Expression::is_length(size_t column) const { return program_->lengths[column] != 0; }
Expression::Kind Expression::kind() const { return program_->nodes[program_->root].kind; }
const std::string& Expression::text() const { return program_->text; }

Result<Value> Expression::Evaluate(const Row& row) const { return program_->Run(program_->root, row); }

Result<bool> Expression::Test(const Row& row) const {
  HR_ASSIGN_OR_RETURN(const Value value, Evaluate(row));
  if (const bool* truth = std::get_if<bool>(&value)) return *truth;
  if (value.index() == 0) return false;
  return program_->Wrong(program_->nodes[program_->root],
                         Cat("a filter must say yes or no, and this is ", KindName(KindOf(value))));
}

Result<double> Expression::Number(const Row& row, double otherwise) const {
  HR_ASSIGN_OR_RETURN(const Value value, Evaluate(row));
  if (const double* number = std::get_if<double>(&value)) return *number;
  if (value.index() == 0) return otherwise;
  return program_->Wrong(program_->nodes[program_->root], Cat("a number was expected, and this is ", KindName(KindOf(value))));
}

}  // namespace headrace
