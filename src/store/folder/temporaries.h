// The files that are being written, in a hidden folder of the store's root.
//
// A name tells who owns it: the boot of the machine, the pid namespace, the process, and a number that makes it unique. So what a
// killed process left behind can be swept later, and a file that may have a living owner never is. The owner is gone for certain if
// it was of this boot and this namespace and its process is no more; or of another boot, on a file system that only this machine writes to.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <string>

#include "headrace/clock.h"
#include "store/folder/syscalls.h"

namespace headrace {

class Temporaries {
 public:
  static constexpr const char* kFolder = ".headrace-tmp";
  // Younger files are left alone even if their owner is gone: pids are used again, clocks of file servers differ.
  static constexpr std::chrono::hours kAge{1};

  Temporaries(FolderSyscalls& syscalls, const std::string& root);

  const std::string& folder() const { return folder_; }
  // A path in `folder` that nobody else uses.
  std::string NextPath();
  // Removes what dead processes left behind. Best effort: it never fails and never waits.
  void Sweep(WallTime now);

 private:
  bool OwnerIsGone(const std::string& name);

  FolderSyscalls& syscalls_;
  const std::string folder_;
  const std::string boot_;
  const std::string namespace_;
  const std::string nonce_;
  std::atomic<uint64_t> next_{0};
};

// A temporary file, removed at the end of its scope.
class Temporary {
 public:
  Temporary(FolderSyscalls& syscalls, std::string path) : syscalls_(&syscalls), path_(std::move(path)) {}
  Temporary(Temporary&& other) noexcept : syscalls_(other.syscalls_), path_(std::exchange(other.path_, "")) {}
  Temporary& operator=(Temporary&&) = delete;
  ~Temporary() {
    if (!path_.empty()) syscalls_->Unlink(path_);
  }

  const std::string& path() const { return path_; }
  // It has another name now, and none to remove.
  void Renamed() { path_.clear(); }

 private:
  FolderSyscalls* syscalls_;
  std::string path_;
};

}  // namespace headrace
