#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>
#include <vector>

namespace headrace {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// Everything from `debug` on, caught instead of printed.
class LogTest : public testing::Test {
 protected:
  LogTest() {
    SetLogLevel(LogLevel::kDebug);
    SetLogSink([this](std::string_view line) { lines_.emplace_back(line); });
  }
  ~LogTest() override {
    SetLogSink(nullptr);
    SetLogLevel(LogLevel::kWarning);
  }
  std::vector<std::string> lines_;
};

TEST_F(LogTest, LineHasTimeLevelMessageAndFields) {
  HR_LOG(kWarning, "store is slow", {"store", "s3://lake/a"}, {"p99_ms", 812}, {"share", 0.25}, {"final", true});
  ASSERT_THAT(lines_, SizeIs(1));
  std::regex expected(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning store is slow store=s3://lake/a p99_ms=812 share=0\.25 final=true)");
  EXPECT_TRUE(std::regex_match(lines_[0], expected)) << lines_[0];
}

TEST_F(LogTest, FieldsAreOptional) {
  HR_LOG(kInfo, "ready");
  EXPECT_THAT(lines_, ElementsAre(EndsWith("Z info ready")));
}

TEST_F(LogTest, ValuesThatWouldBreakALineAreQuoted) {
  std::string text = "two words";
  HR_LOG(kError, "x", {"a", text}, {"b", ""}, {"c", "say \"hi\""}, {"d", "k=v"}, {"e", "line\nbreak\x1b[31m"},
         {"f", R"(C:\dir)"});
  EXPECT_THAT(lines_,
              ElementsAre(EndsWith(R"(error x a="two words" b="" c="say \"hi\"" d="k=v" e="line\nbreak\u001b[31m" f=C:\dir)")));
}

TEST_F(LogTest, MessageStaysOnOneLine) {
  HR_LOG(kError, "first\nsecond");
  HR_LOG(kError, "a \"b\" = c");
  EXPECT_THAT(lines_, ElementsAre(EndsWith(R"("first\nsecond")"), EndsWith(R"(error a "b" = c)")));
}

TEST_F(LogTest, WhatIsNotUtf8IsReplaced) {
  HR_LOG(kError, "x", {"key", "a\xff b"});
  EXPECT_THAT(lines_, ElementsAre(EndsWith("key=\"a\xEF\xBF\xBD b\"")));
}

TEST_F(LogTest, LevelDecidesWhatIsWritten) {
  SetLogLevel(LogLevel::kWarning);
  HR_LOG(kDebug, "no");
  HR_LOG(kInfo, "no");
  HR_LOG(kWarning, "yes");
  HR_LOG(kError, "yes");
  EXPECT_THAT(lines_, ElementsAre(EndsWith("warning yes"), EndsWith("error yes")));
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
  EXPECT_TRUE(LogEnabled(LogLevel::kError));
  SetLogLevel(LogLevel::kOff);
  HR_LOG(kError, "no");
  EXPECT_THAT(lines_, SizeIs(2));
}

TEST_F(LogTest, FieldsOfALineThatIsNotWrittenCostNothing) {
  SetLogLevel(LogLevel::kError);
  int evaluated = 0;
  HR_LOG(kInfo, "no", {"count", ++evaluated});
  EXPECT_EQ(evaluated, 0);
}

TEST_F(LogTest, ThreadsDoNotTearEachOthersLines) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) HR_LOG(kInfo, "tick", {"i", i});
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_THAT(lines_, SizeIs(800));
  for (const std::string& line : lines_) EXPECT_THAT(line, HasSubstr("Z info tick i="));
}

// What the environment says is read once, so each of these needs a process of its own.
class LogDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void LogEverything(const char* level, const char* format) {
  if (level != nullptr) setenv("HEADRACE_LOG", level, 1);
  if (format != nullptr) setenv("HEADRACE_LOG_FORMAT", format, 1);
  HR_LOG(kDebug, "at-debug");
  HR_LOG(kInfo, "at-info");
  HR_LOG(kWarning, "at-warning");
  HR_LOG(kError, "at-error");
  std::exit(0);
}

testing::Matcher<const std::string&> Shows(std::vector<std::string> shown, std::vector<std::string> hidden) {
  std::vector<testing::Matcher<const std::string&>> all;
  for (const std::string& text : shown) all.push_back(HasSubstr(text));
  for (const std::string& text : hidden) all.push_back(Not(HasSubstr(text)));
  return testing::AllOfArray(all);
}

TEST_F(LogDeathTest, EnvironmentSetsTheLevel) {
  testing::ExitedWithCode fine(0);
  unsetenv("HEADRACE_LOG");
  EXPECT_EXIT(LogEverything(nullptr, nullptr), fine, Shows({"at-warning", "at-error"}, {"at-info", "at-debug"}));
  EXPECT_EXIT(LogEverything("debug", nullptr), fine, Shows({"at-debug", "at-info", "at-warning", "at-error"}, {}));
  EXPECT_EXIT(LogEverything("INFO", nullptr), fine, Shows({"at-info", "at-warning", "at-error"}, {"at-debug"}));
  EXPECT_EXIT(LogEverything("error", nullptr), fine, Shows({"at-error"}, {"at-warning"}));
  EXPECT_EXIT(LogEverything("off", nullptr), fine, Shows({}, {"at-error"}));
}

TEST_F(LogDeathTest, UnknownLevelIsNamedAndWarningsAreShown) {
  EXPECT_EXIT(LogEverything("verbose", nullptr), testing::ExitedWithCode(0),
              Shows({"HEADRACE_LOG=verbose", "use debug, info, warning, error or off", "at-warning"}, {"at-info"}));
}

TEST_F(LogDeathTest, EnvironmentAsksForJson) {
  EXPECT_EXIT(LogEverything("error", "json"), testing::ExitedWithCode(0),
              Shows({R"("level":"error","message":"at-error"})"}, {}));
}

TEST_F(LogDeathTest, JsonLinesCanBeReadByAMachine) {
  auto check = [] {
    setenv("HEADRACE_LOG_FORMAT", "json", 1);
    std::string line;
    SetLogSink([&](std::string_view text) { line = text; });
    HR_LOG(kError, "a \"quoted\"\nmessage", {"text", "x=\"y\" \xff"}, {"count", 3}, {"share", 0.5}, {"flag", false},
           {"limit", std::numeric_limits<double>::infinity()}, {"level", "mine"});
    SetLogSink(nullptr);
    nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    bool right = object.is_object() && object.size() == 9 && line.find('\n') == std::string::npos &&
                 object["message"] == "a \"quoted\"\nmessage" && object["level"] == "error" &&
                 object["text"] == "x=\"y\" \xEF\xBF\xBD" && object["count"] == 3 && object["share"] == 0.5 &&
                 object["flag"] == false && object["limit"] == "inf" && object["level_"] == "mine" &&
                 object["time"].get<std::string>().ends_with('Z');
    if (!right) fprintf(stderr, "%s\n", line.c_str());
    std::exit(right ? 0 : 1);
  };
  EXPECT_EXIT(check(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace headrace
