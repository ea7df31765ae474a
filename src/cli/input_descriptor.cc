#include "cli/input_descriptor.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace headrace::cli {
namespace {

constexpr int kPollMilliseconds = 100;

Status Wait(int descriptor, const std::stop_token& stop) {
  struct pollfd wait = {descriptor, POLLIN, 0};
  // The signal itself ends a poll early, before anybody has asked to stop.
  for (int ready = 0; ready == 0 || (ready < 0 && errno == EINTR); ready = poll(&wait, 1, kPollMilliseconds)) {
    if (stop.stop_requested()) return Status(Code::kCancelled, "reading was stopped");
  }
  if (stop.stop_requested()) return Status(Code::kCancelled, "reading was stopped");
  return {};
}

}  // namespace

Result<size_t> ReadWhenReady(int descriptor, std::span<char> into, std::string_view name, const std::stop_token& stop) {
  while (true) {
    HR_RETURN_IF_ERROR(Wait(descriptor, stop));
    ssize_t got = read(descriptor, into.data(), into.size());
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) return Status(Code::kUnavailable, fmt::format("cannot read {}: {}", name, std::strerror(errno)));
  }
}

Result<std::string> PeekWhenReady(int descriptor, size_t bytes, const std::stop_token& stop) {
  struct stat facts{};
  if (fstat(descriptor, &facts) != 0) return std::string();
  std::string text(bytes, '\0');
  ssize_t got = 0;
  if (S_ISREG(facts.st_mode)) {
    got = pread(descriptor, text.data(), bytes, lseek(descriptor, 0, SEEK_CUR));
  } else if (S_ISSOCK(facts.st_mode)) {
    HR_RETURN_IF_ERROR(Wait(descriptor, stop));
    got = recv(descriptor, text.data(), bytes, MSG_PEEK);
  } else if (S_ISFIFO(facts.st_mode)) {
    HR_RETURN_IF_ERROR(Wait(descriptor, stop));
    int copy[2];
    if (pipe2(copy, O_CLOEXEC) != 0) return std::string();
    // Duplicates what is in the pipe without taking it out.
    got = tee(descriptor, copy[1], bytes, 0);
    if (got > 0) got = read(copy[0], text.data(), bytes);
    close(copy[0]);
    close(copy[1]);
  }
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

}  // namespace headrace::cli
