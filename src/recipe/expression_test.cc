#include "recipe/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <new>

#include "base/text.h"

// Counts what is allocated, for the promise that evaluating allocates nothing.
namespace {
thread_local size_t allocations = 0;
}  // namespace
#ifndef __SANITIZE_ADDRESS__  // which has its own, and compares
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // gcc does not see that both are replaced
#endif
void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::map<std::string, Value> kRow = {
    {"x", 3.0},
    {"y", -2.0},
    {"zero", 0.0},
    {"lang", std::string_view("de")},
    {"text", std::string_view("grün")},
    {"yes", true},
    {"no", false},
    {"nothing", Value{}},
    {"tokens", 7.0},
    {"a b", 1.0},
    {"meta.score", 0.5},
    {"length", 100.0},
};

Result<Value> Evaluate(std::string_view text) {
  Result<Expression> parsed = Expression::Parse(text);
  if (!parsed.ok()) return parsed.status();
  // A text that it evaluates to may be one of its own literals.
  static std::deque<Expression> kept;
  const Expression& expression = kept.emplace_back(*std::move(parsed));
  return expression.Evaluate([&](size_t column) { return kRow.at(expression.columns()[column]); });
}

// true, false, null, a number or a text in quotes.
std::string Shown(std::string_view text) {
  Result<Value> value = Evaluate(text);
  if (!value.ok()) return value.status().message();
  if (const bool* truth = std::get_if<bool>(&*value)) return *truth ? "true" : "false";
  if (const double* number = std::get_if<double>(&*value)) return Cat(*number);
  if (const std::string_view* bytes = std::get_if<std::string_view>(&*value)) return Cat("'", *bytes, "'");
  return "null";
}

struct Case {
  const char* text;
  const char* value;
};

TEST(Expression, Values) {
  const Case cases[] = {
      {"1", "1"},
      {"1.5", "1.5"},
      {".5", "0.5"},
      {"1e3", "1000"},
      {"1E-1", "0.1"},
      {"1e+2", "100"},
      {"1_000", "1000"},
      {"'a'", "'a'"},
      {"\"a\\n\\\"\\\\\"", "'a\n\"\\'"},
      {"true", "true"},
      {"FALSE", "false"},
      {"null", "null"},
      {"x", "3"},
      {"lang", "'de'"},
      {"`a b`", "1"},
      {"meta.score", "0.5"},
      {"length", "100"},
      // Binding as in Python.
      {"1 + 2 * 3", "7"},
      {"(1 + 2) * 3", "9"},
      {"10 - 3 - 2", "5"},
      {"2 ** 3 ** 2", "512"},
      {"-2 ** 2", "-4"},
      {"2 ** -1", "0.5"},
      {"--3", "3"},
      {"+3", "3"},
      {"8 / 4 / 2", "1"},
      {"not no or yes", "true"},
      {"yes or yes and no", "true"},
      {"not x > 5", "true"},
      {"1 + 1 == 2", "true"},
      {"not not yes", "true"},
      {"- x * 2", "-6"},
      {"7 % 3", "1"},
      {"-7 % 3", "2"},
      {"7 % -3", "-2"},
      {"7.5 % 2", "1.5"},
      {"-6 % 3", "-0"},
      // Comparison.
      {"x == 3", "true"},
      {"x = 3", "true"},
      {"x != 3", "false"},
      {"x <> 3", "false"},
      {"x < 3", "false"},
      {"x <= 3", "true"},
      {"x > 2", "true"},
      {"x >= 4", "false"},
      {"lang == 'de'", "true"},
      {"lang < 'en'", "true"},
      {"yes == true", "true"},
      {"lang in ['en', 'de']", "true"},
      {"lang not in ['en']", "true"},
      {"x in (1, 2)", "false"},
      {"x in [1, x]", "true"},
      // Functions.
      {"length(tokens)", "7"},
      {"length(text)", "5"},
      {"length('abc')", "3"},
      {"length(`a b`)", "1"},
      {"min(x, y, 0)", "-2"},
      {"max(x, y)", "3"},
      {"abs(y)", "2"},
      {"log(1)", "0"},
      {"sqrt(9)", "3"},
      {"floor(-0.5)", "-1"},
      {"length + length(tokens)", "107"},
      // Null is unknown.
      {"nothing == 1", "null"},
      {"nothing == nothing", "null"},
      {"nothing + 1", "null"},
      {"-nothing", "null"},
      {"abs(nothing)", "null"},
      {"min(1, nothing)", "null"},
      {"not nothing", "null"},
      {"length(nothing)", "null"},
      {"nothing and no", "false"},
      {"no and nothing", "false"},
      {"nothing and yes", "null"},
      {"yes and nothing", "null"},
      {"nothing or yes", "true"},
      {"yes or nothing", "true"},
      {"nothing or no", "null"},
      {"nothing or nothing", "null"},
      {"nothing is null", "true"},
      {"nothing is not null", "false"},
      {"x is null", "false"},
      {"x IS NOT NULL", "true"},
      {"nothing in [1]", "null"},
      {"x in [3, nothing]", "true"},
      {"x in [4, nothing]", "null"},
      {"x not in [4, nothing]", "null"},
      // No number, no answer.
      {"1 / zero", "null"},
      {"1 % zero", "null"},
      {"zero / zero", "null"},
      {"log(zero)", "null"},
      {"log(-1)", "null"},
      {"sqrt(y)", "null"},
      {"10 ** 400", "null"},
      {"1e308 * 10", "null"},
  };
  for (const Case& one : cases) EXPECT_EQ(Shown(one.text), one.value) << one.text;
}

TEST(Expression, WrongOnesAreRefusedWhereTheyAreWrong) {
  const Case cases[] = {
      {"", "character 1: there is nothing here"},
      {"   ", "there is nothing here"},
      {"1 +", "character 4: it ends here"},
      {"1 2", "character 3: found 2, and the end was expected"},
      {"(1", "and ) was expected"},
      {"x == 'de", "character 6: this text has no closing quote"},
      {"`x", "no closing `"},
      {"``", "a column needs a name"},
      {"'\\x'", "after a backslash"},
      {"x @ 1", "character 3: the character @"},
      {"1.2.3", "this is not a number"},
      {"12abc", "this is not a number"},
      {"len(tokens)", "did you mean length?"},
      {"foo(1)", "there is no function foo; there are length, min"},
      {"sqr(1)", "did you mean sqrt?"},
      {"min(1)", "min takes two or more, not 1"},
      {"abs(1, 2)", "abs takes one, not 2"},
      {"abs()", "abs takes one, not 0"},
      {"1 < x < 3", "comparisons do not chain"},
      {"x && y", "write `and`"},
      {"x || y", "write `or`"},
      {"!x", "write `not`"},
      {"x in 3", "a list like ['de', 'en'] was expected"},
      {"x in []", "a column, a number or a text was expected"},
      {"x in [1", "a comma or ] was expected"},
      {"x is 3", "`null` or `not null` was expected"},
      {"x not 3", "`in` was expected"},
      {"and", "found and"},
      {"'a' + 1", "character 1: + wants a number, and this is a text"},
      {"1 and true", "and wants a yes or no, and this is a number"},
      {"not 'a'", "not wants a yes or no"},
      {"'a' < 1", "a text cannot be compared with a number"},
      {"1 in ['a']", "a number cannot be compared with a text"},
      {"-'a'", "- wants a number"},
      {"length(1)", "length wants a text"},
      {"length(x + 1)", ") after the column's name was expected"},
  };
  for (const Case& one : cases) {
    Result<Expression> expression = Expression::Parse(one.text);
    ASSERT_FALSE(expression.ok()) << one.text;
    EXPECT_EQ(expression.code(), Code::kInvalidArgument);
    EXPECT_THAT(expression.status().message(), HasSubstr(one.value)) << one.text;
    EXPECT_THAT(expression.status().message(), HasSubstr(one.text));
  }
}

TEST(Expression, TypesThatOnlyARowShowsAreErrorsThen) {
  EXPECT_THAT(Shown("lang < 1"), HasSubstr("at character 6: a text cannot be compared with a number"));
  EXPECT_THAT(Shown("lang + 1"), HasSubstr("at character 1: a number was expected, and this is a text"));
  EXPECT_THAT(Shown("x and yes"), HasSubstr("a yes or no was expected, and this is a number"));
  EXPECT_THAT(Shown("lang in [1]"), HasSubstr("cannot be compared"));
  EXPECT_THAT(Shown("length(yes)"), HasSubstr("the column yes has no length"));
  // What is decided without it is never looked at.
  EXPECT_EQ(Shown("no and lang < 1"), "false");
}

TEST(Expression, ColumnsAreListedOnceForEachUse) {
  Result<Expression> expression =
      Expression::Parse("length(text) > 3 and text != 'x' and length(text) < `max len` and text is not null");
  ASSERT_TRUE(expression.ok());
  EXPECT_THAT(expression->columns(), ElementsAre("text", "text", "max len"));
  EXPECT_TRUE(expression->is_length(0));
  EXPECT_FALSE(expression->is_length(1));
  EXPECT_FALSE(expression->is_length(2));
  EXPECT_EQ(expression->kind(), Expression::Kind::kTruth);
  EXPECT_EQ(Expression::Parse("x")->kind(), Expression::Kind::kAny);
  EXPECT_EQ(Expression::Parse("x ** 2")->kind(), Expression::Kind::kNumber);
}

TEST(Expression, AFilterTakesNullForNoAndACostForItsDefault) {
  const auto row = [](size_t) { return Value{}; };
  EXPECT_EQ(*Expression::Parse("x > 1")->Test(row), false);
  EXPECT_EQ(*Expression::Parse("not x > 1")->Test(row), false);
  EXPECT_EQ(*Expression::Parse("x is null")->Test(row), true);
  EXPECT_FALSE(Expression::Parse("1")->Test(row).ok());
  EXPECT_EQ(*Expression::Parse("x * 2")->Number(row, 5), 5);
  EXPECT_FALSE(Expression::Parse("'a'")->Number(row).ok());
}

TEST(Expression, NotANumberInARowIsNull) {
  const auto row = [](size_t) { return Value{std::nan("")}; };
  EXPECT_EQ(*Expression::Parse("x is null")->Test(row), true);
}

TEST(Expression, DeepNestingIsRefusedAndNotACrash) {
  for (const char* piece : {"(", "-", "not ", "2 ** ", "abs(", "1 + ", "x in [x, ", "min(1, "}) {
    std::string text;
    while (text.size() < 60'000) text += piece;
    EXPECT_FALSE(Expression::Parse(text).ok());
    EXPECT_FALSE(Expression::Parse(text + "1").ok()) << piece;
  }
  EXPECT_FALSE(Expression::Parse(std::string(1 << 20, '1')).ok());
}

TEST(Expression, LivesOnInItsCopies) {
  std::optional<Expression> copy;
  {
    std::string text = "lang in ['de', 'a text that is longer than any small string is']";
    copy = *Expression::Parse(text);
    text.assign(text.size(), '?');
  }
  EXPECT_TRUE(*copy->Test([](size_t) { return Value{std::string_view("a text that is longer than any small string is")}; }));
}

TEST(Expression, EvaluatingAllocatesNothingAndIsFast) {
  Result<Expression> expression =
      Expression::Parse("length(tokens) >= 32 and lang in ['de', 'en'] and (score ** 2 + 1) / 3 < 10");
  ASSERT_TRUE(expression.ok());
  double tokens = 0;
  const Expression::Row row = [&tokens](size_t column) {
    if (column == 0) return Value{tokens};
    if (column == 1) return Value{std::string_view("en")};
    return Value{2.0};
  };
  const size_t before = allocations;
  const auto start = std::chrono::steady_clock::now();
  size_t yes = 0;
  constexpr int kRows = 100'000;
  for (int i = 0; i < kRows; ++i) {
    tokens = i % 64;
    yes += *expression->Test(row) ? 1 : 0;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(allocations, before);
  EXPECT_NEAR(static_cast<double>(yes), kRows / 2.0, 32);
  RecordProperty("rows_per_second", Cat(kRows / seconds));
}

// Any row of small pieces is parsed or refused, and what is parsed can be evaluated on any types.
RC_GTEST_PROP(ExpressionProperty, AnythingIsParsedOrRefused, ()) {
  static const std::vector<std::string> kPieces = {"x",    "lang",    "nothing", "1",   "2.5", "'a'", "\"", "`a b`", "(",
                                                   ")",    "[",       "]",       ",",   "+",   "-",   "*",  "/",     "%",
                                                   "**",   "<",       "==",      "and", "or",  "not", "in", "is",    "null",
                                                   "true", "length(", "min(",    "abs", ".",   "_",   "\\", "é",     " "};
  const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(kPieces));
  std::string text;
  for (const std::string& piece : pieces) text += piece + " ";
  Result<Expression> expression = Expression::Parse(text);
  if (!expression.ok()) {
    RC_ASSERT(!expression.status().message().empty());
    return;
  }
  const auto values = *rc::gen::container<std::vector<int>>(16, rc::gen::inRange(0, 4));
  (void)expression->Evaluate([&](size_t column) -> Value {
    switch (values[column % values.size()]) {
      case 0: return {};
      case 1: return true;
      case 2: return 1.5;
      default: return std::string_view("text");
    }
  });
}

}  // namespace
}  // namespace headrace
