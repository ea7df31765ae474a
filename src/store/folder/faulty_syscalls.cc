#include "store/folder/faulty_syscalls.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace headrace {

template <typename Perform>
auto FaultySyscalls::Ask(const char* name, const std::string& path, Perform perform) -> decltype(perform()) {
  Call call{name, path, 0};
  {
    std::lock_guard lock(mutex_);
    call.number = trace_.size();
    trace_.push_back(Cat(name, " ", path));
  }
  std::optional<Fault> fault = on_call(call);
  if (!fault) return perform();
  if (fault->after_effect) perform();
  errno = fault->error;
  return -1;
}

std::vector<std::string> FaultySyscalls::Trace() {
  std::lock_guard lock(mutex_);
  return trace_;
}

void FaultySyscalls::Forget() {
  std::lock_guard lock(mutex_);
  trace_.clear();
}

std::string FaultySyscalls::PathOf(int file) {
  char path[4096];
  ssize_t size = ::readlink(Cat("/proc/self/fd/", file).c_str(), path, sizeof(path));
  return std::string(path, std::max<ssize_t>(size, 0));
}

int FaultySyscalls::Open(const std::string& path, int flags, mode_t mode) {
  return Ask("open", path, [&] { return FolderSyscalls::Open(path, flags, mode); });
}
ssize_t FaultySyscalls::Writev(int file, const iovec* pieces, int count) {
  return Ask("writev", PathOf(file), [&]() -> ssize_t {
    if (longest_write == SIZE_MAX) return FolderSyscalls::Writev(file, pieces, count);
    iovec first = {pieces[0].iov_base, std::min(pieces[0].iov_len, longest_write)};
    return FolderSyscalls::Writev(file, &first, 1);
  });
}
ssize_t FaultySyscalls::Pread(int file, void* into, size_t size, off_t offset) {
  return Ask("pread", PathOf(file), [&] { return FolderSyscalls::Pread(file, into, std::min(size, longest_write), offset); });
}
int FaultySyscalls::Fsync(int file) {
  return Ask("fsync", PathOf(file), [&] { return FolderSyscalls::Fsync(file); });
}
int FaultySyscalls::Close(int file) {
  // The kernel lets go of the file whatever it answers.
  const std::string path = PathOf(file);
  const int answer = FolderSyscalls::Close(file);
  return Ask("close", path, [&] { return answer; });
}
int FaultySyscalls::Fstat(int file, struct stat* answer) {
  return Ask("fstat", PathOf(file), [&] { return FolderSyscalls::Fstat(file, answer); });
}
int FaultySyscalls::Stat(const std::string& path, struct stat* answer) {
  return Ask("stat", path, [&] { return FolderSyscalls::Stat(path, answer); });
}
int FaultySyscalls::Link(const std::string& from, int folder, const std::string& name) {
  return Ask("link", Cat(PathOf(folder), "/", name), [&] { return FolderSyscalls::Link(from, folder, name); });
}
int FaultySyscalls::Rename(const std::string& from, int folder, const std::string& name) {
  return Ask("rename", Cat(PathOf(folder), "/", name), [&] { return FolderSyscalls::Rename(from, folder, name); });
}
int FaultySyscalls::Unlink(const std::string& path) {
  return Ask("unlink", path, [&] { return FolderSyscalls::Unlink(path); });
}
int FaultySyscalls::Mkdir(const std::string& path, mode_t mode) {
  return Ask("mkdir", path, [&] { return FolderSyscalls::Mkdir(path, mode); });
}
int FaultySyscalls::Rmdir(const std::string& path) {
  return Ask("rmdir", path, [&] { return FolderSyscalls::Rmdir(path); });
}

}  // namespace headrace
