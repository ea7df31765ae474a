// Code under observation: every system call of it, seen from outside, and its death at any of them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace headrace {

// The calls that change files; others are "other".
struct TracedCall {
  std::string name;    // "open", "write", "fsync", "link", "rename", "unlink", "mkdir", "rmdir", "other"
  std::string path;    // what it was about; for link and rename the old name
  std::string target;  // for link and rename: the new name
  int64_t result = 0;  // as the kernel answered: -errno
};

struct TracedRun {
  std::vector<TracedCall> calls;  // those that came to their end
  bool killed = false;            // at the stop that was asked for; false: the code came to its own end before
  int exit_status = -1;
  pid_t process = 0;
};

// Runs `body` in a child process that is killed when it stops for the `kill_at`-th time (from 0): even numbers are the beginnings of its
// system calls, before they have any effect, odd ones their ends. The child ends with the status that `body` returns.
// Aborts if the kernel does not let us trace: there is nothing to be learnt then.
TracedRun RunTraced(const std::function<int()>& body, size_t kill_at = SIZE_MAX);

}  // namespace headrace
