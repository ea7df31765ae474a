// The words of an expression, one after another.
#pragma once

#include <string>
#include <string_view>

#include "headrace/result.h"

namespace headrace {

class ExpressionLexer {
 public:
  struct Token {
    enum Kind : uint8_t { kEnd, kNumber, kText, kName, kQuotedName, kSign };
    Kind kind = kEnd;
    size_t at = 0, end = 0;
    std::string_view word;  // as written
    std::string content;  // of a text or a quoted name
    double number = 0;
  };

  explicit ExpressionLexer(std::string_view text) : text_(text) {}

  const Token& token() const { return token_; }
  // Goes on to the next one; the first call to the first.
  Status Next();
  bool IsSign(std::string_view sign) const { return token_.kind == Token::kSign && token_.word == sign; }
  // Keywords are small or all capitals.
  bool IsKeyword(std::string_view word) const;

  Status WrongAt(size_t at, std::string_view what) const;
  Status Wrong(std::string_view what) const { return WrongAt(token_.at, what); }
  Status Unexpected(std::string_view wanted) const;

 private:
  Status Take(Token::Kind kind, size_t end);
  Status TakeNumber();
  Status TakeQuoted(char quote);

  std::string_view text_;
  Token token_;
};

}  // namespace headrace
