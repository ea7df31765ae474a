#include "cli/child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace headrace::cli {
namespace {

constexpr Duration kPoll = std::chrono::milliseconds(5);

int StatusOf(int waited) { return WIFEXITED(waited) ? WEXITSTATUS(waited) : 128 + WTERMSIG(waited); }

// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void Become(char* const* words, char* const* environment, const char* output, const char* errors) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
  int in = open("/dev/null", O_RDONLY);
  int out = open(output, kCreate, 0644);
  int err = open(errors, kCreate, 0644);
  if (in < 0 || out < 0 || err < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(126);
  execve("/proc/self/exe", words, environment);
  _exit(127);
}

}  // namespace

Result<Child> Child::Start(const std::vector<std::string>& words, const std::string& output) {
  std::vector<std::string> texts = {"headrace"};
  texts.insert(texts.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  std::string quiet = "HEADRACE_PROGRESS=0";
  std::vector<char*> environment = {quiet.data()};
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  environment.push_back(nullptr);
  std::string errors = output + ".err";
  pid_t process = fork();
  if (process < 0) return Status(Code::kUnavailable, fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (process == 0) Become(pointers.data(), environment.data(), output.c_str(), errors.c_str());
  return Child(process);
}

void Child::Kill() {
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
  process_ = 0;
}

Result<int> Child::Wait(Clock& clock, const Deadline& deadline) {
  while (true) {
    int waited = 0;
    pid_t ended = waitpid(process_, &waited, WNOHANG);
    if (ended == process_) {
      process_ = 0;
      return StatusOf(waited);
    }
    if (ended < 0 && errno != EINTR)
      return Status(Code::kInternal, fmt::format("cannot wait for a process: {}", std::strerror(errno)));
    HR_RETURN_IF_ERROR(deadline.Sleep(clock, kPoll, "wait for a process"));
  }
}

}  // namespace headrace::cli
