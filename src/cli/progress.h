// The live line on stderr while a command works.
//
// On a terminal one line that is drawn over and over; elsewhere a plain line every few seconds; nothing with HEADRACE_PROGRESS=0.
// Log lines that come meanwhile stand above it, whole. The line is gone when the object is.
//
// Thread-safe; cheap to call often: most calls draw nothing.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "headrace/clock.h"

namespace headrace::cli {

class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is going on, and how much of it is done: 0 to 1, or below 0 if nobody can tell.
  void Show(std::string_view text, double done = -1);
  // Makes room for a line of the answer, which may go to the same terminal.
  void Clear();

 private:
  enum Kind { kNone, kLines, kBar };

  void Draw(std::string_view text, double done);
  void Erase();

  const Kind kind_;
  std::mutex mutex_;
  Instant next_ = {};
  bool drawn_ = false;
};

}  // namespace headrace::cli
