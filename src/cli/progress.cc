#include "cli/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "cli/console.h"

namespace headrace::cli {
namespace {

constexpr Duration kBetweenFrames = std::chrono::milliseconds(100);
constexpr Duration kBetweenLines = std::chrono::seconds(5);
constexpr size_t kBarCells = 20;

size_t Columns() {
  struct winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// The first `columns` characters of UTF-8, none cut in two.
std::string_view Clip(std::string_view text, size_t columns) {
  size_t at = 0;
  while (at < text.size()) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && columns-- == 0) break;
    ++at;
  }
  return text.substr(0, at);
}

std::string Bar(double done) {
  size_t full = std::min(kBarCells, static_cast<size_t>(done * kBarCells));
  std::string_view cell = LocaleIsUtf8() ? "━" : "=";
  std::string bar;
  for (size_t i = 0; i < kBarCells; ++i) bar += i < full ? cell : " ";
  return bar;
}

void Write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress()
    : kind_([] {
        const char* wish = std::getenv("HEADRACE_PROGRESS");
        if (wish != nullptr && std::string_view(wish) == "0") return kNone;
        const char* terminal = std::getenv("TERM");
        bool dumb = terminal != nullptr && std::string_view(terminal) == "dumb";
        return isatty(STDERR_FILENO) == 1 && !dumb ? kBar : kLines;
      }()) {
  // What is over before the first line would be due needs none.
  next_ = kind_ == kBar ? Instant{} : RealClock().Now() + kBetweenLines;
  if (kind_ == kBar) {
    SetLogSink([this](std::string_view line) {
      std::lock_guard lock(mutex_);
      Erase();
      Write(line);
      if (!line.ends_with('\n')) Write("\n");
      next_ = {};
    });
  }
}

Progress::~Progress() {
  if (kind_ != kBar) return;
  SetLogSink(nullptr);
  std::lock_guard lock(mutex_);
  Erase();
}

void Progress::Show(std::string_view text, double done) {
  if (kind_ == kNone) return;
  std::lock_guard lock(mutex_);
  Instant now = RealClock().Now();
  if (now < next_) return;
  next_ = now + (kind_ == kBar ? kBetweenFrames : kBetweenLines);
  Draw(text, done);
}

void Progress::Clear() {
  if (kind_ != kBar) return;
  std::lock_guard lock(mutex_);
  Erase();
  next_ = {};
}

void Progress::Draw(std::string_view text, double done) {
  double share = std::clamp(done, 0.0, 1.0);
  if (kind_ == kLines) {
    Write(done < 0 ? fmt::format("{}\n", text) : fmt::format("{} ({:.0f} % done)\n", text, 100 * share));
    return;
  }
  std::string line = done < 0 ? std::string(text) : fmt::format("[{}] {}", Bar(share), text);
  Write(fmt::format("\r\033[K{}", Clip(line, Columns() - 1)));
  drawn_ = true;
}

void Progress::Erase() {
  if (drawn_) Write("\r\033[K");
  drawn_ = false;
}

}  // namespace headrace::cli
