// For tests that fork: returns once all other threads of this process sleep.
//
// What another thread holds in the moment of a fork is held for ever in the child. The allocators of sanitizers have locks of that kind, and a
// thread that has just done a piece of work still frees what it needed for it.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace headrace {

inline bool OthersSleep() {
  const std::string own = std::to_string(::syscall(SYS_gettid));
  std::error_code absent;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", absent)) {
    if (task.path().filename() == own) continue;
    std::ifstream file(task.path() / "stat");
    const std::string stat((std::istreambuf_iterator<char>(file)), {});
    const size_t name = stat.rfind(')');  // the state follows it
    if (name != std::string::npos && stat.substr(name, 3) != ") S") return false;
  }
  return true;
}

inline void AwaitQuietThreads() {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (int in_a_row = 0; in_a_row < 3 && std::chrono::steady_clock::now() < give_up;) {
    in_a_row = OthersSleep() ? in_a_row + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace headrace
