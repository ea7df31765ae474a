#include "base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

namespace headrace {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warning", "error", "off"};
constexpr int kNotSet = -1;

std::atomic<int> g_level = kNotSet;

struct Sink {
  std::mutex mutex;
  std::function<void(std::string_view)> function;
};

Sink& TheSink() {
  static auto& sink = *new Sink;  // never destroyed: others may log while the process ends
  return sink;
}

bool IsJson() {
  static const bool json = [] {
    const char* format = std::getenv("HEADRACE_LOG_FORMAT");
    return format != nullptr && Lower(format) == "json";
  }();
  return json;
}

std::optional<LogLevel> LevelFromName(std::string_view name) {
  std::string wanted = Lower(name);
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == wanted) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

LogLevel Level() {
  int level = g_level.load(std::memory_order_relaxed);
  if (level != kNotSet) return static_cast<LogLevel>(level);
  const char* wanted = std::getenv("HEADRACE_LOG");
  std::optional<LogLevel> found = wanted == nullptr || *wanted == '\0' ? LogLevel::kWarning : LevelFromName(wanted);
  if (!g_level.compare_exchange_strong(level, static_cast<int>(found.value_or(LogLevel::kWarning))))
    return static_cast<LogLevel>(level);
  if (!found) {
    LogLine(LogLevel::kWarning, "HEADRACE_LOG is not a level; use debug, info, warning, error or off",
            {{"HEADRACE_LOG", wanted}});
  }
  return found.value_or(LogLevel::kWarning);
}

// In quotes, with everything escaped that would break a line or a terminal.
std::string Quote(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool IsPlain(std::string_view text, std::string_view allowed) {
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) return false;
    if (allowed.find(c) == std::string_view::npos && (c == ' ' || c == '"' || c == '=' || c == '\\')) return false;
  }
  return IsUtf8(text);
}

std::string Timestamp() {
  using namespace std::chrono;
  auto now = floor<milliseconds>(system_clock::now());
  std::time_t seconds = system_clock::to_time_t(floor<std::chrono::seconds>(now));
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  std::string millis = Cat(now.time_since_epoch().count() % 1000);
  return Cat(std::string_view(text, size), ".", std::string(3 - millis.size(), '0'), millis, "Z");
}

std::string TextLine(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = Cat(Timestamp(), " ", kLevelNames[static_cast<size_t>(level)], " ");
  if (IsPlain(message, " \"=\\")) {
    line += message;
  } else {
    line += Quote(message);
  }
  for (const LogField& field : fields) {
    bool plain = !field.value.empty() && IsPlain(field.value, "\\");
    line += Cat(" ", field.name, "=", plain ? field.value : Quote(field.value));
  }
  return line;
}

std::string JsonLine(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = Cat("{\"time\":\"", Timestamp(), "\",\"level\":\"", kLevelNames[static_cast<size_t>(level)],
                         "\",\"message\":", Quote(message));
  for (const LogField& field : fields) {
    bool taken = field.name == "time" || field.name == "level" || field.name == "message";
    // JSON has no infinity and no NaN.
    bool bare = !field.is_text && nlohmann::json::accept(field.value);
    line += Cat(",", Quote(taken ? Cat(field.name, "_") : std::string(field.name)), ":", bare ? field.value : Quote(field.value));
  }
  line += '}';
  return line;
}

void WriteToStderr(std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody is left to tell
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

bool LogEnabled(LogLevel level) { return level >= Level() && level != LogLevel::kOff; }

void LogLine(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = IsJson() ? JsonLine(level, message, fields) : TextLine(level, message, fields);
  Sink& sink = TheSink();
  // Held during the call, so that a sink that was taken back is not running any more.
  std::lock_guard lock(sink.mutex);
  if (sink.function) {
    sink.function(line);
  } else {
    WriteToStderr(std::move(line));
  }
}

void SetLogLevel(LogLevel level) { g_level = static_cast<int>(level); }

void SetLogSink(std::function<void(std::string_view line)> sink) {
  std::lock_guard lock(TheSink().mutex);
  TheSink().function = std::move(sink);
}

}  // namespace headrace
