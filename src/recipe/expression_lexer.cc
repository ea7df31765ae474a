#include "recipe/expression_lexer.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace headrace {
namespace {

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 128;
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Status ExpressionLexer::WrongAt(size_t at, std::string_view what) const {
  return Status(Code::kInvalidArgument, Cat("in \"", text_, "\", at character ", at + 1, ": ", what));
}

Status ExpressionLexer::Unexpected(std::string_view wanted) const {
  if (token_.kind == Token::kEnd) return Wrong(Cat("it ends here, and ", wanted, " was expected"));
  return Wrong(Cat("found ", token_.word, ", and ", wanted, " was expected"));
}

Status ExpressionLexer::Next() {
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

Status ExpressionLexer::Take(Token::Kind kind, size_t end) {
  token_.kind = kind;
  token_.word = text_.substr(token_.at, end - token_.at);
  token_.end = end;
  return Status::Ok();
}

Status ExpressionLexer::TakeNumber() {
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

Status ExpressionLexer::TakeQuoted(char quote) {
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

bool ExpressionLexer::IsKeyword(std::string_view word) const {
  if (token_.kind != Token::kName || token_.word.size() != word.size()) return false;
  return token_.word == word ||
         (Lower(token_.word) == word && std::ranges::none_of(token_.word, [](char c) { return c >= 'a' && c <= 'z'; }));
}

}  // namespace headrace
