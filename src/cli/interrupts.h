// Ctrl-C and its relatives, as a stop token.
//
// The first SIGINT, SIGTERM or SIGHUP asks the command to stop: it gives up what it waits for, cleans up and ends.
// A second one ends the process on the spot. SIGPIPE is ignored: a reader that has gone away must not keep a command from
// cleaning up.
//
// One per process, made before other threads start.
#pragma once

#include <stop_token>
#include <thread>

namespace headrace::cli {

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  std::stop_token stop() const { return source_.get_token(); }
  // The signal that came, 0 if none did. A shell's exit status for it is 128 + signal.
  static int caught();

 private:
  std::stop_source source_;
  std::thread waiter_;
};

}  // namespace headrace::cli
