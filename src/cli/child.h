// Another `headrace` beside this one: the same program with other words.
//
// A child that is still running when its object goes, or when this process dies, is killed.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "headrace/deadline.h"
#include "headrace/result.h"

namespace headrace::cli {

class Child {
 public:
  // What it says goes into two files: `output` and `output`.err.
  static Result<Child> Start(const std::vector<std::string>& words, const std::string& output);
  Child(Child&& other) noexcept : process_(std::exchange(other.process_, 0)) {}
  Child& operator=(Child&& other) noexcept {
    std::swap(process_, other.process_);
    return *this;
  }
  ~Child() { Kill(); }

  pid_t process() const { return process_; }
  // SIGKILL: it has no chance to do anything more.
  void Kill();
  // Its exit status, or 128 + signal.
  Result<int> Wait(Clock& clock, const Deadline& deadline);

 private:
  explicit Child(pid_t process) : process_(process) {}
  pid_t process_;  // 0: gone
};

}  // namespace headrace::cli
