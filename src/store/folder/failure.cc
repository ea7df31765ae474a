#include "store/folder/failure.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/text.h"

namespace headrace {

Status FolderFailure(std::string_view doing, int error) {
  const std::string said = Lower(std::generic_category().message(error));
  switch (error) {
    case ENOSPC: return Status(Code::kFull, Cat(doing, ": no space left on device; free some and go on"));
    case EDQUOT:
      return Status(Code::kFull, Cat(doing, ": the disk quota is used up; free some space or raise the quota, and go on"));
    case EFBIG:
      return Status(Code::kFull, Cat(doing, ": ", said,
                                     "; raise the limit on the size of files (`ulimit -f`) or use a file system that allows it"));
    case EROFS:
      return Status(
          Code::kDenied,
          Cat(doing, ": the file system is read-only; mount it for writing (`mount -o remount,rw …`) or use another folder"));
    case EACCES:
      return Status(Code::kDenied,
                    Cat(doing, ": permission denied for user ", ::geteuid(),
                        "; give that user the right (`ls -ld` on the folder shows who has it), or use another folder"));
    case EPERM:
      return Status(Code::kDenied, Cat(doing, ": ", said, " for user ", ::geteuid(),
                                       "; the file may be immutable (`lsattr`) or the mount restricted"));
    case EXDEV:
      return Status(Code::kUnsupported, Cat(doing,
                                            ": the folder lies on another file system than the root of the store, "
                                            "and files cannot be linked across; keep a store on one file system"));
    case EOPNOTSUPP:
    case ENOSYS:
      return Status(Code::kUnsupported, Cat(doing, ": the file system cannot do this (", said,
                                            "); use one with hard links: ext4, xfs, btrfs, tmpfs, NFS"));
    case ENOTDIR: return Status(Code::kInvalidArgument, Cat(doing, ": a part of the path is a file, not a folder"));
    case ENAMETOOLONG:
    case ELOOP:
    case EISDIR:
    case EINVAL: return Status(Code::kInvalidArgument, Cat(doing, ": ", said));
    case EMFILE:
      return Status(Code::kUnavailable,
                    Cat(doing, ": this process has too many open files; raise the limit with `ulimit -n` and go on"));
    case ENFILE:
      return Status(Code::kUnavailable, Cat(doing, ": the machine has too many open files; raise `fs.file-max` and go on"));
    default: return Status(Code::kUnavailable, Cat(doing, ": ", said));
  }
}

}  // namespace headrace
