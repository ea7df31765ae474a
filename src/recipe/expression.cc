#include "recipe/expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include "base/nearest.h"
#include "base/text.h"

namespace headrace {
namespace {

using Kind = Expression::Kind;

constexpr size_t kMostBytes = 65536;
constexpr int kMostDepth = 200;

enum class Op : uint8_t {
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

struct Function {
  std::string_view name;
  Op op;
  bool many;  // two or more; else one
};
constexpr Function kFunctions[] = {
    {"length", Op::kLength, false}, {"min", Op::kMin, true},    {"max", Op::kMax, true},      {"abs", Op::kAbs, false},
    {"log", Op::kLog, false},       {"sqrt", Op::kSqrt, false}, {"floor", Op::kFloor, false},
};

struct Node {
  Op op = Op::kLiteral;
  Kind kind = Kind::kAny;
  uint32_t at = 0;  // in the text
  uint32_t first = 0, count = 0;  // children, in Program::children
  uint32_t column = 0;
  int32_t text = -1;  // literal: of Program::texts
  Value value;  // literal: null, truth or number
  int depth = 1;
};

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kTruth: return "a yes or no";
    case Kind::kNumber: return "a number";
    case Kind::kText: return "a text";
    case Kind::kAny: break;
  }
  return "anything";
}

Kind KindOf(const Value& value) {
  constexpr Kind kKinds[] = {Kind::kAny, Kind::kTruth, Kind::kNumber, Kind::kText};
  return kKinds[value.index()];
}

bool Fits(Kind kind, Kind wanted) { return kind == Kind::kAny || wanted == Kind::kAny || kind == wanted; }

Value Finite(double number) {
  if (!std::isfinite(number)) return {};
  return number;
}

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 128;
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

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

namespace {

// Recursive descent; one method for each level of binding.
class Parser {
 public:
  Parser(std::string_view text, Expression::Program& program) : text_(text), program_(program) {}

  Status Parse() {
    HR_RETURN_IF_ERROR(Next());
    if (token_.kind == Token::kEnd) return Wrong("there is nothing here; write something like length(tokens) >= 32");
    HR_ASSIGN_OR_RETURN(program_.root, Or());
    if (token_.kind != Token::kEnd) return Unexpected("the end");
    return Status::Ok();
  }

 private:
  struct Token {
    enum Kind : uint8_t { kEnd, kNumber, kText, kName, kQuotedName, kSign };
    Kind kind = kEnd;
    size_t at = 0, end = 0;
    std::string_view word;  // as written
    std::string content;  // of a text or a quoted name
    double number = 0;
  };

  Status WrongAt(size_t at, std::string_view what) const {
    return Status(Code::kInvalidArgument, Cat("in \"", text_, "\", at character ", at + 1, ": ", what));
  }
  Status Wrong(std::string_view what) const { return WrongAt(token_.at, what); }
  Status Unexpected(std::string_view wanted) const {
    if (token_.kind == Token::kEnd) return Wrong(Cat("it ends here, and ", wanted, " was expected"));
    return Wrong(Cat("found ", token_.word, ", and ", wanted, " was expected"));
  }

  Status Next() {
    size_t at = token_.end;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t' || text_[at] == '\n' || text_[at] == '\r')) ++at;
    token_ = Token{};
    token_.at = token_.end = at;
    if (at == text_.size()) return Status::Ok();
    const char c = text_[at];
    if (IsDigit(c) || (c == '.' && at + 1 < text_.size() && IsDigit(text_[at + 1]))) return TakeNumber();
    if (c == '\'' || c == '"' || c == '`') return TakeQuoted(c);
    if (IsLetter(c)) {
      size_t end = at;
      // A dot inside a name: a field of a struct column.
      while (end < text_.size() && (IsLetter(text_[end]) || IsDigit(text_[end]) ||
                                    (text_[end] == '.' && end + 1 < text_.size() && IsLetter(text_[end + 1]))))
        ++end;
      return Take(Token::kName, end);
    }
    static constexpr std::string_view kSigns[] = {"**", "==", "!=", "<>", "<=", ">=", "&&", "||", "<", ">", "=",
                                                  "+",  "-",  "*",  "/",  "%",  "(",  ")",  "[",  "]", ",", "!"};
    for (std::string_view sign : kSigns) {
      if (text_.substr(at).starts_with(sign)) {
        if (sign == "&&") return Wrong("write `and`");
        if (sign == "||") return Wrong("write `or`");
        if (sign == "!") return Wrong("write `not`");
        return Take(Token::kSign, at + sign.size());
      }
    }
    return Wrong(Cat("the character ", std::string(1, c), " means nothing here"));
  }

  Status Take(Token::Kind kind, size_t end) {
    token_.kind = kind;
    token_.word = text_.substr(token_.at, end - token_.at);
    token_.end = end;
    return Status::Ok();
  }

  Status TakeNumber() {
    std::string digits;
    size_t end = token_.at;
    auto digit_at = [&](size_t i) { return i < text_.size() && IsDigit(text_[i]); };
    while (end < text_.size()) {
      const char c = text_[end];
      if (IsDigit(c) || c == '.') {
        digits += c;
      } else if (c == '_' && digit_at(end + 1)) {
      } else if ((c == 'e' || c == 'E') &&
                 (digit_at(end + 1) ||
                  (end + 1 < text_.size() && (text_[end + 1] == '-' || text_[end + 1] == '+') && digit_at(end + 2)))) {
        digits += 'e';
        if (text_[end + 1] == '-') digits += '-';
        if (!digit_at(end + 1)) ++end;
      } else {
        break;
      }
      ++end;
    }
    auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), token_.number);
    if (failure != std::errc() || stop != digits.data() + digits.size() || (end < text_.size() && IsLetter(text_[end]))) {
      return Wrong("this is not a number");
    }
    return Take(Token::kNumber, end);
  }

  Status TakeQuoted(char quote) {
    size_t end = token_.at + 1;
    for (; end < text_.size() && text_[end] != quote; ++end) {
      if (text_[end] != '\\' || quote == '`') {
        token_.content += text_[end];
        continue;
      }
      if (++end == text_.size()) break;
      const char c = text_[end];
      if (c != '\\' && c != '\'' && c != '"' && c != 'n' && c != 't')
        return WrongAt(end, "after a backslash one of \\ ' \" n t is expected");
      token_.content += c == 'n' ? '\n' : c == 't' ? '\t' : c;
    }
    if (end >= text_.size()) return Wrong(quote == '`' ? "this name has no closing `" : "this text has no closing quote");
    if (quote == '`' && token_.content.empty()) return Wrong("a column needs a name");
    return Take(quote == '`' ? Token::kQuotedName : Token::kText, end + 1);
  }

  bool IsSign(std::string_view sign) const { return token_.kind == Token::kSign && token_.word == sign; }
  // Keywords are small or all capitals.
  bool IsKeyword(std::string_view word) const {
    if (token_.kind != Token::kName || token_.word.size() != word.size()) return false;
    return token_.word == word ||
           (Lower(token_.word) == word && std::ranges::none_of(token_.word, [](char c) { return c >= 'a' && c <= 'z'; }));
  }

  Result<uint32_t> Add(Node node, std::span<const uint32_t> children) {
    node.first = static_cast<uint32_t>(program_.children.size());
    node.count = static_cast<uint32_t>(children.size());
    for (uint32_t child : children) {
      program_.children.push_back(child);
      node.depth = std::max(node.depth, program_.nodes[child].depth + 1);
    }
    if (node.depth > kMostDepth) return WrongAt(node.at, Cat("this is nested more than ", kMostDepth, " levels deep"));
    program_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(program_.nodes.size() - 1);
  }

  Result<uint32_t> Add(Op op, Kind kind, size_t at, std::initializer_list<uint32_t> children) {
    Node node;
    node.op = op;
    node.kind = kind;
    node.at = static_cast<uint32_t>(at);
    return Add(node, std::span(children.begin(), children.size()));
  }

  Status Want(uint32_t child, Kind kind, std::string_view what) const {
    const Node& node = program_.nodes[child];
    if (Fits(node.kind, kind)) return Status::Ok();
    return WrongAt(node.at, Cat(what, " wants ", KindName(kind), ", and this is ", KindName(node.kind)));
  }

  Result<uint32_t> Or() {
    return LeftLogic("or", Op::kOr, [this] { return And(); });
  }
  Result<uint32_t> And() {
    return LeftLogic("and", Op::kAnd, [this] { return Not(); });
  }

  template <typename Operand>
  Result<uint32_t> LeftLogic(std::string_view word, Op op, Operand operand) {
    HR_ASSIGN_OR_RETURN(uint32_t left, operand());
    while (IsKeyword(word)) {
      const size_t at = token_.at;
      HR_RETURN_IF_ERROR(Next());
      HR_ASSIGN_OR_RETURN(uint32_t right, operand());
      HR_RETURN_IF_ERROR(Want(left, Kind::kTruth, word));
      HR_RETURN_IF_ERROR(Want(right, Kind::kTruth, word));
      HR_ASSIGN_OR_RETURN(left, Add(op, Kind::kTruth, at, {left, right}));
    }
    return left;
  }

  Result<uint32_t> Not() {
    if (!IsKeyword("not")) return Comparison();
    const size_t at = token_.at;
    Deeper deeper(*this);
    if (deeper.too_deep()) return TooDeep();
    HR_RETURN_IF_ERROR(Next());
    HR_ASSIGN_OR_RETURN(uint32_t child, Not());
    HR_RETURN_IF_ERROR(Want(child, Kind::kTruth, "not"));
    return Add(Op::kNot, Kind::kTruth, at, {child});
  }

  static std::optional<Op> ComparisonOf(std::string_view sign) {
    if (sign == "==" || sign == "=") return Op::kEqual;
    if (sign == "!=" || sign == "<>") return Op::kUnequal;
    if (sign == "<") return Op::kLess;
    if (sign == "<=") return Op::kLessEqual;
    if (sign == ">") return Op::kGreater;
    if (sign == ">=") return Op::kGreaterEqual;
    return std::nullopt;
  }

  Result<uint32_t> Comparison() {
    HR_ASSIGN_OR_RETURN(uint32_t left, Sum());
    bool compared = false;
    while (true) {
      const size_t at = token_.at;
      std::optional<Op> op = token_.kind == Token::kSign ? ComparisonOf(token_.word) : std::nullopt;
      const bool is = IsKeyword("is"), in = IsKeyword("in"), negated = IsKeyword("not");
      if (!op && !is && !in && !negated) return left;
      if (compared) return Wrong("comparisons do not chain; write `a < b and b < c`");
      compared = true;
      HR_RETURN_IF_ERROR(Next());
      if (op) {
        HR_ASSIGN_OR_RETURN(uint32_t right, Sum());
        const Kind a = program_.nodes[left].kind, b = program_.nodes[right].kind;
        if (!Fits(a, b)) return WrongAt(at, Cat(KindName(a), " cannot be compared with ", KindName(b)));
        HR_ASSIGN_OR_RETURN(left, Add(*op, Kind::kTruth, at, {left, right}));
      } else if (is) {
        bool inverse = IsKeyword("not");
        if (inverse) HR_RETURN_IF_ERROR(Next());
        if (!IsKeyword("null")) return Unexpected(inverse ? "`null`" : "`null` or `not null`");
        HR_RETURN_IF_ERROR(Next());
        HR_ASSIGN_OR_RETURN(left, Add(Op::kIsNull, Kind::kTruth, at, {left}));
        if (inverse) {
          HR_ASSIGN_OR_RETURN(left, Add(Op::kNot, Kind::kTruth, at, {left}));
        }
      } else {
        if (negated) {
          if (!IsKeyword("in")) return Unexpected("`in`");
          HR_RETURN_IF_ERROR(Next());
        }
        HR_ASSIGN_OR_RETURN(left, In(left, at));
        if (negated) {
          HR_ASSIGN_OR_RETURN(left, Add(Op::kNot, Kind::kTruth, at, {left}));
        }
      }
    }
  }

  Result<uint32_t> In(uint32_t left, size_t at) {
    const bool round = IsSign("(");
    if (!round && !IsSign("[")) return Unexpected("a list like ['de', 'en']");
    HR_RETURN_IF_ERROR(Next());
    std::vector<uint32_t> children = {left};
    while (true) {
      HR_ASSIGN_OR_RETURN(uint32_t item, Sum());
      const Kind a = program_.nodes[left].kind, b = program_.nodes[item].kind;
      if (!Fits(a, b)) return WrongAt(program_.nodes[item].at, Cat(KindName(a), " cannot be compared with ", KindName(b)));
      children.push_back(item);
      if (!IsSign(",")) break;
      HR_RETURN_IF_ERROR(Next());
    }
    if (!IsSign(round ? ")" : "]")) return Unexpected(round ? "a comma or )" : "a comma or ]");
    HR_RETURN_IF_ERROR(Next());
    Node node;
    node.op = Op::kIn;
    node.kind = Kind::kTruth;
    node.at = static_cast<uint32_t>(at);
    return Add(node, children);
  }

  Result<uint32_t> Arithmetic(uint32_t left, uint32_t right, Op op, size_t at, std::string_view sign) {
    HR_RETURN_IF_ERROR(Want(left, Kind::kNumber, sign));
    HR_RETURN_IF_ERROR(Want(right, Kind::kNumber, sign));
    return Add(op, Kind::kNumber, at, {left, right});
  }

  Result<uint32_t> Sum() {
    HR_ASSIGN_OR_RETURN(uint32_t left, Product());
    while (IsSign("+") || IsSign("-")) {
      const Token sign = token_;
      HR_RETURN_IF_ERROR(Next());
      HR_ASSIGN_OR_RETURN(uint32_t right, Product());
      HR_ASSIGN_OR_RETURN(left, Arithmetic(left, right, sign.word == "+" ? Op::kAdd : Op::kSubtract, sign.at, sign.word));
    }
    return left;
  }

  Result<uint32_t> Product() {
    HR_ASSIGN_OR_RETURN(uint32_t left, Unary());
    while (IsSign("*") || IsSign("/") || IsSign("%")) {
      const Token sign = token_;
      HR_RETURN_IF_ERROR(Next());
      HR_ASSIGN_OR_RETURN(uint32_t right, Unary());
      const Op op = sign.word == "*" ? Op::kMultiply : sign.word == "/" ? Op::kDivide : Op::kModulo;
      HR_ASSIGN_OR_RETURN(left, Arithmetic(left, right, op, sign.at, sign.word));
    }
    return left;
  }

  Result<uint32_t> Unary() {
    Deeper deeper(*this);
    if (deeper.too_deep()) return TooDeep();
    if (!IsSign("-") && !IsSign("+")) return Power();
    const Token sign = token_;
    HR_RETURN_IF_ERROR(Next());
    HR_ASSIGN_OR_RETURN(uint32_t child, Unary());
    HR_RETURN_IF_ERROR(Want(child, Kind::kNumber, sign.word));
    if (sign.word == "+") return child;
    return Add(Op::kNegate, Kind::kNumber, sign.at, {child});
  }

  Result<uint32_t> Power() {
    HR_ASSIGN_OR_RETURN(uint32_t left, Primary());
    if (!IsSign("**")) return left;
    const size_t at = token_.at;
    HR_RETURN_IF_ERROR(Next());
    HR_ASSIGN_OR_RETURN(uint32_t right, Unary());  // to the right: 2 ** 3 ** 2, and 2 ** -1
    return Arithmetic(left, right, Op::kPower, at, "**");
  }

  Result<uint32_t> Literal(Value value, Kind kind) {
    Node node;
    node.kind = kind;
    node.at = static_cast<uint32_t>(token_.at);
    node.value = value;
    HR_RETURN_IF_ERROR(Next());
    return Add(node, {});
  }

  Result<uint32_t> ColumnNode(std::string name, size_t at, bool length) {
    size_t column = 0;
    while (column < program_.columns.size() && (program_.columns[column] != name || (program_.lengths[column] != 0) != length))
      ++column;
    if (column == program_.columns.size()) {
      program_.columns.push_back(std::move(name));
      program_.lengths.push_back(length ? 1 : 0);
    }
    Node node;
    node.op = length ? Op::kLengthColumn : Op::kColumn;
    node.kind = length ? Kind::kNumber : Kind::kAny;
    node.at = static_cast<uint32_t>(at);
    node.column = static_cast<uint32_t>(column);
    return Add(node, {});
  }

  Result<uint32_t> Primary() {
    if (token_.kind == Token::kNumber) return Literal(token_.number, Kind::kNumber);
    if (token_.kind == Token::kText) {
      Node node;
      node.kind = Kind::kText;
      node.at = static_cast<uint32_t>(token_.at);
      node.text = static_cast<int32_t>(program_.texts.size());
      program_.texts.push_back(std::move(token_.content));
      HR_RETURN_IF_ERROR(Next());
      return Add(node, {});
    }
    if (IsSign("(")) {
      HR_RETURN_IF_ERROR(Next());
      HR_ASSIGN_OR_RETURN(uint32_t inside, Or());
      if (!IsSign(")")) return Unexpected(")");
      HR_RETURN_IF_ERROR(Next());
      return inside;
    }
    if (token_.kind == Token::kQuotedName) {
      const size_t at = token_.at;
      std::string name = std::move(token_.content);
      HR_RETURN_IF_ERROR(Next());
      return ColumnNode(std::move(name), at, false);
    }
    if (token_.kind != Token::kName) return Unexpected("a column, a number or a text");
    if (IsKeyword("true")) return Literal(true, Kind::kTruth);
    if (IsKeyword("false")) return Literal(false, Kind::kTruth);
    if (IsKeyword("null")) return Literal({}, Kind::kAny);
    for (std::string_view word : {"and", "or", "in", "is", "not"}) {
      if (IsKeyword(word)) return Unexpected("a column, a number or a text");
    }
    const size_t at = token_.at;
    const std::string name(token_.word);
    HR_RETURN_IF_ERROR(Next());
    if (!IsSign("(")) return ColumnNode(name, at, false);
    return Call(name, at);
  }

  Result<uint32_t> Call(const std::string& name, size_t at) {
    const Function* function = std::ranges::find(kFunctions, name, &Function::name);
    if (function == std::end(kFunctions)) {
      std::array<std::string_view, std::size(kFunctions)> names;
      std::ranges::transform(kFunctions, names.begin(), &Function::name);
      std::string_view near = name == "len" ? "length" : Nearest(name, names);
      std::string all;
      for (std::string_view one : names) all += Cat(all.empty() ? "" : ", ", one);
      return WrongAt(at, near.empty() ? Cat("there is no function ", name, "; there are ", all)
                                      : Cat("there is no function ", name, "; did you mean ", near, "?"));
    }
    HR_RETURN_IF_ERROR(Next());
    // length(column) is asked of the column itself, whatever its type.
    if (function->op == Op::kLength && (token_.kind == Token::kName || token_.kind == Token::kQuotedName)) {
      const Token column = token_;
      HR_RETURN_IF_ERROR(Next());
      if (IsSign(")")) {
        HR_RETURN_IF_ERROR(Next());
        return ColumnNode(column.kind == Token::kName ? std::string(column.word) : column.content, at, true);
      }
      return Unexpected(") after the column's name");
    }
    std::vector<uint32_t> arguments;
    while (!IsSign(")")) {
      HR_ASSIGN_OR_RETURN(uint32_t argument, Or());
      HR_RETURN_IF_ERROR(Want(argument, function->op == Op::kLength ? Kind::kText : Kind::kNumber, name));
      arguments.push_back(argument);
      if (IsSign(")")) break;
      if (!IsSign(",")) return Unexpected("a comma or )");
      HR_RETURN_IF_ERROR(Next());
    }
    if (function->many ? arguments.size() < 2 : arguments.size() != 1) {
      return WrongAt(at, Cat(name, " takes ", function->many ? "two or more" : "one", ", not ", arguments.size()));
    }
    HR_RETURN_IF_ERROR(Next());
    Node node;
    node.op = function->op;
    node.kind = Kind::kNumber;
    node.at = static_cast<uint32_t>(at);
    return Add(node, arguments);
  }

  struct Deeper {
    explicit Deeper(Parser& parser) : parser_(parser) { ++parser_.depth_; }
    ~Deeper() { --parser_.depth_; }
    bool too_deep() const { return parser_.depth_ > kMostDepth; }
    Parser& parser_;
  };
  Status TooDeep() const { return Wrong(Cat("this is nested more than ", kMostDepth, " levels deep")); }

  std::string_view text_;
  Expression::Program& program_;
  Token token_;
  int depth_ = 0;
};

}  // namespace

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
  HR_RETURN_IF_ERROR(Parser(program->text, *program).Parse());
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
