// The system calls of the folder store, in a form that tests can stand in front of: a full disk, a lost answer of a file
// server and a read-only mount are hard to have and easy to say.
//
// Each one is the call of its name: the same arguments, -1 and errno on failure.
//
// Thread-safe.
#pragma once

#include <sys/stat.h>
#include <sys/uio.h>

#include <cerrno>
#include <string>
#include <utility>

namespace headrace {

class FolderSyscalls {
 public:
  virtual ~FolderSyscalls() = default;

  virtual int Open(const std::string& path, int flags, mode_t mode);
  virtual ssize_t Writev(int file, const iovec* pieces, int count);
  virtual ssize_t Pread(int file, void* into, size_t size, off_t offset);
  virtual int Fsync(int file);
  virtual int Close(int file);
  virtual int Fstat(int file, struct stat* answer);
  virtual int Stat(const std::string& path, struct stat* answer);
  // The file at `from` gets a second name, or a new one, in the open directory `folder`.
  virtual int Link(const std::string& from, int folder, const std::string& name);
  virtual int Rename(const std::string& from, int folder, const std::string& name);
  virtual int Unlink(const std::string& path);
  virtual int Mkdir(const std::string& path, mode_t mode);
  virtual int Rmdir(const std::string& path);

  // True if `path` lies on a file system that only this machine writes to (ext4, xfs, …): a mapped file then stays readable
  // after it was deleted, and a file that another boot left behind has no owner any more. False for NFS and its like, and in doubt.
  virtual bool IsLocal(const std::string& path);

  static FolderSyscalls& Real();
};

// Two contents of one file differ in this, unless somebody sets the time back: nanoseconds of the last change.
std::string VersionOf(const struct stat& about);

// Repeats `call` for as long as a signal cut it short.
template <typename Call>
auto Uninterrupted(Call call) {
  auto answer = call();
  while (answer < 0 && errno == EINTR) answer = call();
  return answer;
}

// An open file or directory, closed at the end of its scope.
class OpenFile {
 public:
  OpenFile() = default;
  OpenFile(FolderSyscalls& syscalls, int file) : syscalls_(&syscalls), file_(file) {}
  OpenFile(OpenFile&& other) noexcept : syscalls_(other.syscalls_), file_(std::exchange(other.file_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    Close();
    syscalls_ = other.syscalls_;
    file_ = std::exchange(other.file_, -1);
    return *this;
  }
  ~OpenFile() { Close(); }

  // Follows the convention of open(2): -1 and errno if there is no such file.
  static OpenFile At(FolderSyscalls& syscalls, const std::string& path, int flags, mode_t mode = 0);

  bool open() const { return file_ >= 0; }
  int get() const { return file_; }
  int Release() { return std::exchange(file_, -1); }
  // The answer of close(2): on a network it may be the first to say that a write failed.
  int Close() { return file_ < 0 ? 0 : syscalls_->Close(std::exchange(file_, -1)); }

 private:
  FolderSyscalls* syscalls_ = nullptr;
  int file_ = -1;
};

}  // namespace headrace
