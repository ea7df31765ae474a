// System calls that fail as a test wants them to, and remember what was asked of them.
//
// Thread-safe as long as `on_call` is.
#pragma once

#include <cerrno>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/folder/syscalls.h"

namespace headrace {

class FaultySyscalls final : public FolderSyscalls {
 public:
  struct Call {
    std::string name;  // "open", "writev", "fsync", …
    std::string path;  // of the file it is about
    size_t number;     // of this call among all, from 0
  };
  struct Fault {
    int error;
    bool after_effect = false;  // the call takes effect, and only its answer is lost
  };

  // What becomes of a call; nothing: the kernel decides. Asked before each call.
  std::function<std::optional<Fault>(const Call&)> on_call = [](const Call&) { return std::nullopt; };
  // A write takes this many bytes at the most.
  size_t longest_write = SIZE_MAX;
  bool local = true;

  // The calls so far, as "fsync /path".
  std::vector<std::string> Trace();
  void Forget();

  int Open(const std::string& path, int flags, mode_t mode) override;
  ssize_t Writev(int file, const iovec* pieces, int count) override;
  ssize_t Pread(int file, void* into, size_t size, off_t offset) override;
  int Fsync(int file) override;
  int Close(int file) override;
  int Fstat(int file, struct stat* answer) override;
  int Stat(const std::string& path, struct stat* answer) override;
  int Link(const std::string& from, int folder, const std::string& name) override;
  int Rename(const std::string& from, int folder, const std::string& name) override;
  int Unlink(const std::string& path) override;
  int Mkdir(const std::string& path, mode_t mode) override;
  int Rmdir(const std::string& path) override;
  bool IsLocal(const std::string&) override { return local; }

 private:
  template <typename Perform>
  auto Ask(const char* name, const std::string& path, Perform perform) -> decltype(perform());
  static std::string PathOf(int file);

  std::mutex mutex_;
  std::vector<std::string> trace_;
};

}  // namespace headrace
