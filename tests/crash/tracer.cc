#include "tracer.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"

namespace headrace {
namespace {

[[noreturn]] void Abort(const char* what) {
  std::perror(what);
  std::abort();
}

std::string LinkTarget(const std::string& link) {
  char target[4096];
  ssize_t size = ::readlink(link.c_str(), target, sizeof(target));
  return std::string(target, std::max<ssize_t>(size, 0));
}

class Tracee {
 public:
  explicit Tracee(pid_t process) : process_(process) {}

  __ptrace_syscall_info Info() const {
    __ptrace_syscall_info about{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, process_, sizeof(about), &about) < 0) Abort("PTRACE_GET_SYSCALL_INFO");
    return about;
  }

  std::string Open(uint64_t file) const { return LinkTarget(Cat("/proc/", process_, "/fd/", static_cast<int>(file))); }

  // The path that the child means by a name relative to an open folder.
  std::string Path(int folder, uint64_t address) const {
    std::string name = Text(address);
    if (name.starts_with('/')) return name;
    return Cat(folder == AT_FDCWD ? LinkTarget(Cat("/proc/", process_, "/cwd")) : Open(folder), "/", name);
  }

  TracedCall Describe(const __ptrace_syscall_info& about) const {
    const auto& args = about.entry.args;
    auto at = [&](int folder, int name) { return Path(static_cast<int>(args[folder]), args[name]); };
    switch (about.entry.nr) {
      case SYS_openat: return {.name = "open", .path = at(0, 1), .target = {}};
      case SYS_write:
      case SYS_writev: return {.name = "write", .path = Open(args[0]), .target = {}};
      case SYS_fsync: return {.name = "fsync", .path = Open(args[0]), .target = {}};
      case SYS_linkat: return {.name = "link", .path = at(0, 1), .target = at(2, 3)};
      case SYS_renameat2:
#ifdef SYS_renameat
      case SYS_renameat:
#endif
        return {.name = "rename", .path = at(0, 1), .target = at(2, 3)};
      case SYS_unlinkat: return {.name = (args[2] & AT_REMOVEDIR) ? "rmdir" : "unlink", .path = at(0, 1), .target = {}};
      case SYS_mkdirat: return {.name = "mkdir", .path = at(0, 1), .target = {}};
#ifdef SYS_unlink  // only older machines have those without a folder
      case SYS_open: return {.name = "open", .path = Path(AT_FDCWD, args[0]), .target = {}};
      case SYS_link: return {.name = "link", .path = Path(AT_FDCWD, args[0]), .target = Path(AT_FDCWD, args[1])};
      case SYS_rename: return {.name = "rename", .path = Path(AT_FDCWD, args[0]), .target = Path(AT_FDCWD, args[1])};
      case SYS_unlink: return {.name = "unlink", .path = Path(AT_FDCWD, args[0]), .target = {}};
      case SYS_mkdir: return {.name = "mkdir", .path = Path(AT_FDCWD, args[0]), .target = {}};
      case SYS_rmdir: return {.name = "rmdir", .path = Path(AT_FDCWD, args[0]), .target = {}};
#endif
      default: return {.name = "other", .path = {}, .target = {}};
    }
  }

 private:
  std::string Text(uint64_t address) const {
    std::string text;
    char piece[256];
    while (text.size() < 4096) {
      // Not across a page that may not be there.
      size_t size = std::min<size_t>(sizeof(piece), 4096 - (address + text.size()) % 4096);
      iovec here{piece, size}, there{reinterpret_cast<void*>(address + text.size()), size};
      ssize_t got = ::process_vm_readv(process_, &here, 1, &there, 1, 0);
      if (got <= 0) break;
      const size_t length = std::find(piece, piece + got, '\0') - piece;
      text.append(piece, length);
      if (length < static_cast<size_t>(got)) break;
    }
    return text;
  }

  const pid_t process_;
};

}  // namespace

TracedRun RunTraced(const std::function<int()>& body, size_t kill_at) {
  TracedRun run;
  run.process = ::fork();
  if (run.process < 0) Abort("fork");
  if (run.process == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(125);
    ::raise(SIGSTOP);
    ::_exit(body());
  }
  int status = 0;
  if (::waitpid(run.process, &status, 0) != run.process || !WIFSTOPPED(status)) Abort("the child could not be traced (ptrace)");
  if (::ptrace(PTRACE_SETOPTIONS, run.process, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0)
    Abort("PTRACE_SETOPTIONS");

  const Tracee tracee(run.process);
  TracedCall current;
  int signal = 0;
  for (size_t stops = 0;;) {
    if (::ptrace(PTRACE_SYSCALL, run.process, nullptr, signal) != 0) Abort("PTRACE_SYSCALL");
    if (::waitpid(run.process, &status, 0) != run.process) Abort("waitpid");
    if (!WIFSTOPPED(status)) break;
    signal = 0;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
      signal = WSTOPSIG(status);
      continue;
    }
    const __ptrace_syscall_info about = tracee.Info();
    if (about.op == PTRACE_SYSCALL_INFO_ENTRY) {
      current = tracee.Describe(about);
    } else if (about.op == PTRACE_SYSCALL_INFO_EXIT) {
      current.result = about.exit.rval;
      run.calls.push_back(current);
    }
    if (stops++ == kill_at) {
      ::kill(run.process, SIGKILL);
      if (::waitpid(run.process, &status, 0) != run.process) Abort("waitpid");
      run.killed = true;
      break;
    }
  }
  run.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return run;
}

}  // namespace headrace
