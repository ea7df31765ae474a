#include "recipe/expression_parser.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/nearest.h"
#include "base/text.h"
#include "recipe/expression_lexer.h"

namespace headrace {
namespace {

using Kind = Expression::Kind;
using Op = Expression::Op;
using Node = Expression::Node;

constexpr int kMostDepth = 200;

struct Function {
  std::string_view name;
  Op op;
  bool many;  // two or more; else one
};
constexpr Function kFunctions[] = {
    {"length", Op::kLength, false}, {"min", Op::kMin, true},    {"max", Op::kMax, true},      {"abs", Op::kAbs, false},
    {"log", Op::kLog, false},       {"sqrt", Op::kSqrt, false}, {"floor", Op::kFloor, false},
};

// Recursive descent; one method for each level of binding.
class Parser {
 public:
  Parser(std::string_view text, Expression::Program& program) : lexer_(text), program_(program) {}

  Status Parse() {
    HR_RETURN_IF_ERROR(lexer_.Next());
    if (token().kind == Token::kEnd) return lexer_.Wrong("there is nothing here; write something like length(tokens) >= 32");
    HR_ASSIGN_OR_RETURN(program_.root, Or());
    if (token().kind != Token::kEnd) return lexer_.Unexpected("the end");
    return Status::Ok();
  }

 private:
  using Token = ExpressionLexer::Token;
  const Token& token() const { return lexer_.token(); }

  Result<uint32_t> Add(Node node, std::span<const uint32_t> children) {
    node.first = static_cast<uint32_t>(program_.children.size());
    node.count = static_cast<uint32_t>(children.size());
    for (uint32_t child : children) {
      program_.children.push_back(child);
      node.depth = std::max(node.depth, program_.nodes[child].depth + 1);
    }
    if (node.depth > kMostDepth) return lexer_.WrongAt(node.at, Cat("this is nested more than ", kMostDepth, " levels deep"));
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
    return lexer_.WrongAt(node.at, Cat(what, " wants ", KindName(kind), ", and this is ", KindName(node.kind)));
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
    while (lexer_.IsKeyword(word)) {
      const size_t at = token().at;
      HR_RETURN_IF_ERROR(lexer_.Next());
      HR_ASSIGN_OR_RETURN(uint32_t right, operand());
      HR_RETURN_IF_ERROR(Want(left, Kind::kTruth, word));
      HR_RETURN_IF_ERROR(Want(right, Kind::kTruth, word));
      HR_ASSIGN_OR_RETURN(left, Add(op, Kind::kTruth, at, {left, right}));
    }
    return left;
  }

  Result<uint32_t> Not() {
    if (!lexer_.IsKeyword("not")) return Comparison();
    const size_t at = token().at;
    Deeper deeper(*this);
    if (deeper.too_deep()) return TooDeep();
    HR_RETURN_IF_ERROR(lexer_.Next());
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
      const size_t at = token().at;
      std::optional<Op> op = token().kind == Token::kSign ? ComparisonOf(token().word) : std::nullopt;
      const bool is = lexer_.IsKeyword("is"), in = lexer_.IsKeyword("in"), negated = lexer_.IsKeyword("not");
      if (!op && !is && !in && !negated) return left;
      if (compared) return lexer_.Wrong("comparisons do not chain; write `a < b and b < c`");
      compared = true;
      HR_RETURN_IF_ERROR(lexer_.Next());
      if (op) {
        HR_ASSIGN_OR_RETURN(uint32_t right, Sum());
        const Kind a = program_.nodes[left].kind, b = program_.nodes[right].kind;
        if (!Fits(a, b)) return lexer_.WrongAt(at, Cat(KindName(a), " cannot be compared with ", KindName(b)));
        HR_ASSIGN_OR_RETURN(left, Add(*op, Kind::kTruth, at, {left, right}));
      } else if (is) {
        bool inverse = lexer_.IsKeyword("not");
        if (inverse) HR_RETURN_IF_ERROR(lexer_.Next());
        if (!lexer_.IsKeyword("null")) return lexer_.Unexpected(inverse ? "`null`" : "`null` or `not null`");
        HR_RETURN_IF_ERROR(lexer_.Next());
        HR_ASSIGN_OR_RETURN(left, Add(Op::kIsNull, Kind::kTruth, at, {left}));
        if (inverse) {
          HR_ASSIGN_OR_RETURN(left, Add(Op::kNot, Kind::kTruth, at, {left}));
        }
      } else {
        if (negated) {
          if (!lexer_.IsKeyword("in")) return lexer_.Unexpected("`in`");
          HR_RETURN_IF_ERROR(lexer_.Next());
        }
        HR_ASSIGN_OR_RETURN(left, In(left, at));
        if (negated) {
          HR_ASSIGN_OR_RETURN(left, Add(Op::kNot, Kind::kTruth, at, {left}));
        }
      }
    }
  }

  Result<uint32_t> In(uint32_t left, size_t at) {
    const bool round = lexer_.IsSign("(");
    if (!round && !lexer_.IsSign("[")) return lexer_.Unexpected("a list like ['de', 'en']");
    HR_RETURN_IF_ERROR(lexer_.Next());
    std::vector<uint32_t> children = {left};
    while (true) {
      HR_ASSIGN_OR_RETURN(uint32_t item, Sum());
      const Kind a = program_.nodes[left].kind, b = program_.nodes[item].kind;
      if (!Fits(a, b)) return lexer_.WrongAt(program_.nodes[item].at, Cat(KindName(a), " cannot be compared with ", KindName(b)));
      children.push_back(item);
      if (!lexer_.IsSign(",")) break;
      HR_RETURN_IF_ERROR(lexer_.Next());
    }
    if (!lexer_.IsSign(round ? ")" : "]")) return lexer_.Unexpected(round ? "a comma or )" : "a comma or ]");
    HR_RETURN_IF_ERROR(lexer_.Next());
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
    while (lexer_.IsSign("+") || lexer_.IsSign("-")) {
      const Token sign = token();
      HR_RETURN_IF_ERROR(lexer_.Next());
      HR_ASSIGN_OR_RETURN(uint32_t right, Product());
      HR_ASSIGN_OR_RETURN(left, Arithmetic(left, right, sign.word == "+" ? Op::kAdd : Op::kSubtract, sign.at, sign.word));
    }
    return left;
  }

  Result<uint32_t> Product() {
    HR_ASSIGN_OR_RETURN(uint32_t left, Unary());
    while (lexer_.IsSign("*") || lexer_.IsSign("/") || lexer_.IsSign("%")) {
      const Token sign = token();
      HR_RETURN_IF_ERROR(lexer_.Next());
      HR_ASSIGN_OR_RETURN(uint32_t right, Unary());
      const Op op = sign.word == "*" ? Op::kMultiply : sign.word == "/" ? Op::kDivide : Op::kModulo;
      HR_ASSIGN_OR_RETURN(left, Arithmetic(left, right, op, sign.at, sign.word));
    }
    return left;
  }

  Result<uint32_t> Unary() {
    Deeper deeper(*this);
    if (deeper.too_deep()) return TooDeep();
    if (!lexer_.IsSign("-") && !lexer_.IsSign("+")) return Power();
    const Token sign = token();
    HR_RETURN_IF_ERROR(lexer_.Next());
    HR_ASSIGN_OR_RETURN(uint32_t child, Unary());
    HR_RETURN_IF_ERROR(Want(child, Kind::kNumber, sign.word));
    if (sign.word == "+") return child;
    return Add(Op::kNegate, Kind::kNumber, sign.at, {child});
  }

  Result<uint32_t> Power() {
    HR_ASSIGN_OR_RETURN(uint32_t left, Primary());
    if (!lexer_.IsSign("**")) return left;
    const size_t at = token().at;
    HR_RETURN_IF_ERROR(lexer_.Next());
    HR_ASSIGN_OR_RETURN(uint32_t right, Unary());  // to the right: 2 ** 3 ** 2, and 2 ** -1
    return Arithmetic(left, right, Op::kPower, at, "**");
  }

  Result<uint32_t> Literal(Value value, Kind kind) {
    Node node;
    node.kind = kind;
    node.at = static_cast<uint32_t>(token().at);
    node.value = value;
    HR_RETURN_IF_ERROR(lexer_.Next());
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
    if (token().kind == Token::kNumber) return Literal(token().number, Kind::kNumber);
    if (token().kind == Token::kText) {
      Node node;
      node.kind = Kind::kText;
      node.at = static_cast<uint32_t>(token().at);
      node.text = static_cast<int32_t>(program_.texts.size());
      program_.texts.push_back(token().content);
      HR_RETURN_IF_ERROR(lexer_.Next());
      return Add(node, {});
    }
    if (lexer_.IsSign("(")) {
      HR_RETURN_IF_ERROR(lexer_.Next());
      HR_ASSIGN_OR_RETURN(uint32_t inside, Or());
      if (!lexer_.IsSign(")")) return lexer_.Unexpected(")");
      HR_RETURN_IF_ERROR(lexer_.Next());
      return inside;
    }
    if (token().kind == Token::kQuotedName) {
      const size_t at = token().at;
      std::string name = token().content;
      HR_RETURN_IF_ERROR(lexer_.Next());
      return ColumnNode(std::move(name), at, false);
    }
    if (token().kind != Token::kName) return lexer_.Unexpected("a column, a number or a text");
    if (lexer_.IsKeyword("true")) return Literal(true, Kind::kTruth);
    if (lexer_.IsKeyword("false")) return Literal(false, Kind::kTruth);
    if (lexer_.IsKeyword("null")) return Literal({}, Kind::kAny);
    for (std::string_view word : {"and", "or", "in", "is", "not"}) {
      if (lexer_.IsKeyword(word)) return lexer_.Unexpected("a column, a number or a text");
    }
    const size_t at = token().at;
    const std::string name(token().word);
    HR_RETURN_IF_ERROR(lexer_.Next());
    if (!lexer_.IsSign("(")) return ColumnNode(name, at, false);
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
      return lexer_.WrongAt(at, near.empty() ? Cat("there is no function ", name, "; there are ", all)
                                             : Cat("there is no function ", name, "; did you mean ", near, "?"));
    }
    HR_RETURN_IF_ERROR(lexer_.Next());
    // length(column) is asked of the column itself, whatever its type.
    if (function->op == Op::kLength && (token().kind == Token::kName || token().kind == Token::kQuotedName)) {
      const Token column = token();
      HR_RETURN_IF_ERROR(lexer_.Next());
      if (lexer_.IsSign(")")) {
        HR_RETURN_IF_ERROR(lexer_.Next());
        return ColumnNode(column.kind == Token::kName ? std::string(column.word) : column.content, at, true);
      }
      return lexer_.Unexpected(") after the column's name");
    }
    std::vector<uint32_t> arguments;
    while (!lexer_.IsSign(")")) {
      HR_ASSIGN_OR_RETURN(uint32_t argument, Or());
      HR_RETURN_IF_ERROR(Want(argument, function->op == Op::kLength ? Kind::kText : Kind::kNumber, name));
      arguments.push_back(argument);
      if (lexer_.IsSign(")")) break;
      if (!lexer_.IsSign(",")) return lexer_.Unexpected("a comma or )");
      HR_RETURN_IF_ERROR(lexer_.Next());
    }
    if (function->many ? arguments.size() < 2 : arguments.size() != 1) {
      return lexer_.WrongAt(at, Cat(name, " takes ", function->many ? "two or more" : "one", ", not ", arguments.size()));
    }
    HR_RETURN_IF_ERROR(lexer_.Next());
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
  Status TooDeep() const { return lexer_.Wrong(Cat("this is nested more than ", kMostDepth, " levels deep")); }

  ExpressionLexer lexer_;
  Expression::Program& program_;
  int depth_ = 0;
};

}  // namespace

Status ParseExpression(std::string_view text, Expression::Program& program) { return Parser(text, program).Parse(); }

}  // namespace headrace
