// `Surroundings` as the process really has them.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/text.h"
#include "store/s3/credentials.h"

extern char** environ;

namespace headrace {
namespace {

using namespace std::chrono_literals;

constexpr size_t kMostBytes = 4 << 20;  // no credentials file is larger
constexpr size_t kErrorBytes = 2000;    // of a command's complaints, the last ones
constexpr Duration kTick = 20ms;        // how soon a stop request and the end of a silent command are noticed

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void Reset(int fd) {
    Close();
    fd_ = fd;
  }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

Status SystemFailure(Code code, std::string_view what) { return Status(code, Cat(what, ": ", std::strerror(errno))); }

Result<std::optional<std::string>> ReadFile(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<std::string>();
    return SystemFailure(Code::kDenied, Cat("cannot read ", path));
  }
  std::string text;
  std::array<char, 1 << 14> piece;
  while (true) {
    ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemFailure(Code::kDenied, Cat("cannot read ", path));
    if (count == 0) return std::optional(std::move(text));
    text.append(piece.data(), static_cast<size_t>(count));
    if (text.size() > kMostBytes) return Status(Code::kInvalidArgument, Cat(path, " is too large to be what it should be"));
  }
}

// A shell command with its two outputs. Has a process group of its own, so that all of it can be ended.
class Command {
 public:
  ~Command() {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
    }
  }

  Status Start(const std::string& command) {
    Descriptor out_write, error_write;
    HR_RETURN_IF_ERROR(MakePipe(out_, out_write));
    HR_RETURN_IF_ERROR(MakePipe(error_, error_write));
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out_write.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, error_write.get(), STDERR_FILENO);
    // Whatever this process blocks or ignores (SIGINT while it drains, SIGPIPE) is no business of the command's.
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::array<char*, 4> words = {const_cast<char*>("sh"), const_cast<char*>("-c"), const_cast<char*>(command.c_str()), nullptr};
    int failure = ::posix_spawn(&pid_, "/bin/sh", &actions, &attributes, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failure == 0) return Status::Ok();
    pid_ = -1;
    errno = failure;
    return SystemFailure(Code::kUnavailable, "cannot start /bin/sh");
  }

  // Until the command has ended; its children may live on, and what they write then is not waited for.
  Status Finish(const Deadline& deadline) {
    while (!Ended()) {
      Status late = deadline.Check(RealClock(), "running the command");
      if (!late.ok()) return Status(late.code(), Cat(late.message(), "; it", Said()));
      Drain(std::min<Duration>(kTick, deadline.Remaining(RealClock())));
      if (output.size() > kMostBytes) return Status(Code::kInvalidArgument, "the command printed too much to be credentials");
    }
    while (Drain(Duration::zero())) {
    }
    return Outcome();
  }

  std::string output;
  std::string errors;

 private:
  static Status MakePipe(Descriptor& read_end, Descriptor& write_end) {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return SystemFailure(Code::kUnavailable, "cannot make a pipe");
    read_end.Reset(ends[0]);
    write_end.Reset(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return Status::Ok();
  }

  bool Ended() {
    pid_t ended = ::waitpid(pid_, &wait_status_, WNOHANG);
    // Where SIGCHLD is ignored nobody learns how it ended; what it printed has to do.
    if (ended != pid_ && !(ended < 0 && errno == ECHILD)) return false;
    pid_ = -1;
    return true;
  }

  // Takes what there is, waiting for it at most so long. True if there may be more.
  bool Drain(Duration wait) {
    std::array<pollfd, 2> ends = {pollfd{out_.get(), POLLIN, 0}, pollfd{error_.get(), POLLIN, 0}};
    int ready = ::poll(ends.data(), ends.size(), static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wait).count()));
    if (ready <= 0) return false;
    Take(out_, output, kMostBytes + 1);
    Take(error_, errors, kErrorBytes);
    return out_.open() || error_.open();
  }

  // Keeps the end of it if it is too much.
  static void Take(Descriptor& from, std::string& into, size_t most) {
    if (!from.open()) return;
    std::array<char, 1 << 14> piece;
    ssize_t count = ::read(from.get(), piece.data(), piece.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return from.Close();
    into.append(piece.data(), static_cast<size_t>(count));
    if (into.size() > most) into.erase(0, into.size() - most);
  }

  std::string Said() const {
    std::string_view complaint = Trim(errors);
    return complaint.empty() ? " said nothing" : Cat(" said: ", complaint);
  }

  Status Outcome() const {
    if (WIFEXITED(wait_status_) && WEXITSTATUS(wait_status_) == 0) return Status::Ok();
    if (WIFSIGNALED(wait_status_)) {
      return Status(Code::kUnavailable, Cat("the command was ended by signal ", WTERMSIG(wait_status_), " and", Said()));
    }
    int status = WEXITSTATUS(wait_status_);
    // How a shell says that there is no such command, or that it may not be run.
    Code code = status == 126 || status == 127 ? Code::kInvalidArgument : Code::kDenied;
    return Status(code, Cat("the command ended with status ", status, " and", Said()));
  }

  pid_t pid_ = -1;
  int wait_status_ = 0;
  Descriptor out_, error_;
};

Result<std::string> RunCommand(const std::string& text, const Deadline& deadline) {
  Command command;
  HR_RETURN_IF_ERROR(command.Start(text));
  HR_RETURN_IF_ERROR(command.Finish(deadline));
  return std::move(command.output);
}

}  // namespace

Surroundings Surroundings::Process() {
  Surroundings surroundings;
  surroundings.env = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  };
  surroundings.read = ReadFile;
  surroundings.run = RunCommand;
  return surroundings;
}

}  // namespace headrace
