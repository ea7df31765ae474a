// Structured log lines for people and for machines.
//
//   HR_LOG(kWarning, "store is slow", {"store", uri}, {"p99_ms", 812});
//   2026-01-02T03:04:05.678Z warning store is slow store=s3://lake/a p99_ms=812
//
// Goes to stderr. HEADRACE_LOG=debug|info|warning|error|off (default: warning) sets the level, HEADRACE_LOG_FORMAT=json makes each line a JSON object.
// Thread-safe; a line is written by one call, so lines of several processes do not mix.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/text.h"

namespace headrace {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

struct LogField {
  std::string_view name;
  std::string value;
  bool is_text = true;

  LogField(std::string_view field, std::string_view text) : name(field), value(text) {}
  LogField(std::string_view field, const char* text) : name(field), value(text) {}
  LogField(std::string_view field, const std::string& text) : name(field), value(text) {}
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  LogField(std::string_view field, Number number) : name(field), value(Cat(number)), is_text(false) {}
};

bool LogEnabled(LogLevel level);
void LogLine(LogLevel level, std::string_view message, std::initializer_list<LogField> fields);
void SetLogLevel(LogLevel level);
// Lines go to `sink` instead of stderr, until it is taken back with nullptr; for tests and for progress bars that must not be torn.
void SetLogSink(std::function<void(std::string_view line)> sink);

#define HR_LOG(level, message, ...)                                                                                        \
  do {                                                                                                                     \
    if (::headrace::LogEnabled(::headrace::LogLevel::level))                                                               \
      ::headrace::LogLine(::headrace::LogLevel::level, message, std::initializer_list<::headrace::LogField>{__VA_ARGS__}); \
  } while (false)

}  // namespace headrace
