#include "store/folder/syscalls.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace headrace {
namespace {

// Those that <linux/magic.h> lacks.
constexpr unsigned long kXfsMagic = 0x58465342;
constexpr unsigned long kZfsMagic = 0x2FC12FC1;

}  // namespace

int FolderSyscalls::Open(const std::string& path, int flags, mode_t mode) {
  return ::open(path.c_str(), flags | O_CLOEXEC, mode);
}
ssize_t FolderSyscalls::Writev(int file, const iovec* pieces, int count) { return ::writev(file, pieces, count); }
ssize_t FolderSyscalls::Pread(int file, void* into, size_t size, off_t offset) { return ::pread(file, into, size, offset); }
int FolderSyscalls::Fsync(int file) { return ::fsync(file); }
int FolderSyscalls::Close(int file) { return ::close(file); }
int FolderSyscalls::Fstat(int file, struct stat* answer) { return ::fstat(file, answer); }
int FolderSyscalls::Stat(const std::string& path, struct stat* answer) { return ::stat(path.c_str(), answer); }
int FolderSyscalls::Link(const std::string& from, int folder, const std::string& name) {
  return ::linkat(AT_FDCWD, from.c_str(), folder, name.c_str(), 0);
}
int FolderSyscalls::Rename(const std::string& from, int folder, const std::string& name) {
  return ::renameat(AT_FDCWD, from.c_str(), folder, name.c_str());
}
int FolderSyscalls::Unlink(const std::string& path) { return ::unlink(path.c_str()); }
int FolderSyscalls::Mkdir(const std::string& path, mode_t mode) { return ::mkdir(path.c_str(), mode); }
int FolderSyscalls::Rmdir(const std::string& path) { return ::rmdir(path.c_str()); }

bool FolderSyscalls::IsLocal(const std::string& path) {
  static constexpr std::array<unsigned long, 7> kLocal = {EXT4_SUPER_MAGIC, kXfsMagic, BTRFS_SUPER_MAGIC,    F2FS_SUPER_MAGIC,
                                                          TMPFS_MAGIC,      kZfsMagic, OVERLAYFS_SUPER_MAGIC};
  struct statfs about;
  if (::statfs(path.c_str(), &about) != 0) return false;
  // f_type is signed on some machines, and the numbers are 32 bits.
  return std::ranges::count(kLocal, static_cast<unsigned long>(about.f_type) & 0xFFFFFFFF) > 0;
}

FolderSyscalls& FolderSyscalls::Real() {
  static FolderSyscalls syscalls;
  return syscalls;
}

OpenFile OpenFile::At(FolderSyscalls& syscalls, const std::string& path, int flags, mode_t mode) {
  return OpenFile(syscalls, Uninterrupted([&] { return syscalls.Open(path, flags, mode); }));
}

std::string VersionOf(const struct stat& about) {
  return Cat(static_cast<int64_t>(about.st_mtim.tv_sec) * 1'000'000'000 + about.st_mtim.tv_nsec);
}

}  // namespace headrace
