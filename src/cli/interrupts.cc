#include "cli/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

namespace headrace::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// A handler may do next to nothing, and stop callbacks are arbitrary code: it writes a byte, a thread does the rest.
int pipe_ends[2] = {-1, -1};
std::atomic<int> caught_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void Handle(int number) {
  int none = 0;
  if (!caught_signal.compare_exchange_strong(none, number)) _exit(128 + number);
  int saved = errno;
  [[maybe_unused]] ssize_t written = write(pipe_ends[1], "s", 1);
  errno = saved;
}

}  // namespace

int Interrupts::caught() { return caught_signal.load(); }

Interrupts::Interrupts() {
  std::signal(SIGPIPE, SIG_IGN);
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return;  // no descriptor left: signals keep their plain meaning
  waiter_ = std::thread([this] {
    char what = 0;
    while (read(pipe_ends[0], &what, 1) < 0 && errno == EINTR) {
    }
    if (what == 's') source_.request_stop();
  });
  for (int number : kSignals) {
    struct sigaction before{};
    sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // nohup, or a shell's background job: stay deaf
    struct sigaction action{};
    action.sa_handler = Handle;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  if (!waiter_.joinable()) return;
  [[maybe_unused]] ssize_t written = write(pipe_ends[1], "q", 1);
  waiter_.join();
}

}  // namespace headrace::cli
