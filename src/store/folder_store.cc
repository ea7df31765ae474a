#include "store/folder_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "store/checks.h"
#include "store/folder/failure.h"
#include "store/folder/walk.h"

namespace headrace {
namespace {

// Mapping and unmapping cost more than a copy below this (bench/bench_folder.cc).
constexpr uint64_t kMapFrom = 256 << 10;
// The deadline is looked at between pieces of this size.
constexpr uint64_t kPiece = 8 << 20;
// How often a folder may vanish under a writer before that is no accident any more.
constexpr int kAttempts = 100;
constexpr size_t kDurableFolders = 10000;

constexpr std::string_view kTemporaryVanished =
    "its temporary file was removed by somebody else; leave .headrace-tmp alone, and try again";
constexpr std::string_view kFolderVanishes = "its folder was removed again and again by others; try later";

std::string_view FolderOf(std::string_view path) { return path.substr(0, std::min(path.rfind('/'), path.size())); }

// The folder of a key, relative to the root: "" for the root itself.
std::string_view FolderOfKey(std::string_view key) {
  size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : key.substr(0, slash);
}

std::string RootPath(const std::string& path) {
  std::error_code failed;
  std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  std::string root = (failed ? std::filesystem::path(path) : absolute).lexically_normal().string();
  while (root.size() > 1 && root.ends_with('/')) root.pop_back();
  return root == "/" ? "" : root;
}

// True if this answer of link(2) or rename(2) says for certain that nothing happened.
bool IsRefusal(int error) {
  static constexpr std::array kRefusals = {EACCES,       EPERM,   EROFS, ENOSPC, EDQUOT, EFBIG,  EMLINK,
                                           ENAMETOOLONG, ENOTDIR, EXDEV, ELOOP,  EINVAL, ENOSYS, EOPNOTSUPP};
  return std::ranges::count(kRefusals, error) > 0;
}

}  // namespace

// A call that is under way: its deadline, and the words of its errors.
class FolderStore::Call {
 public:
  Call(const FolderStore& store, std::string_view verb, const std::string& key, const Deadline& deadline)
      : store_(store), verb_(verb), key_(key), deadline_(deadline) {}

  const std::string& key() const { return key_; }
  std::string folder() const { return std::string(FolderOfKey(key_)); }
  std::string name() const { return key_.substr(key_.rfind('/') + 1); }
  std::string path() const { return store_.PathOf(key_); }
  const Deadline& deadline() const { return deadline_; }

  std::string What() const { return Cat("cannot ", verb_, " ", store_.Describe(key_)); }
  Status Failure(int error) const { return FolderFailure(What(), error); }
  Status Refusal(Code code, std::string_view why) const { return Status(code, Cat(What(), ": ", why)); }

  Status CheckKeyAndTime() const {
    HR_RETURN_IF_ERROR(CheckKey(key_));
    if (std::ranges::any_of(Split(key_, '/'), IsHiddenName)) {
      return Refusal(Code::kInvalidArgument, "the name is reserved for the store's own files; use another key");
    }
    return InTime();
  }
  Status InTime() const {
    bool late = deadline_.stop().stop_requested() || (!deadline_.never() && store_.clock_.Now() >= deadline_.at());
    return late ? deadline_.Check(store_.clock_, What()) : Status::Ok();
  }

 private:
  const FolderStore& store_;
  std::string_view verb_;
  const std::string& key_;
  const Deadline& deadline_;
};

FolderStore::FolderStore(const std::string& root, FolderOptions options)
    : root_(RootPath(root)),
      sync_(options.sync),
      clock_(*options.clock),
      syscalls_(*options.syscalls),
      temporaries_(syscalls_, root_) {}

FolderStore::~FolderStore() {
  if (!wrote_) return;
  syscalls_.Rmdir(temporaries_.folder());
  if (made_.empty()) return;
  for (std::string path = root_; path.size() >= made_.size() && syscalls_.Rmdir(path) == 0; path = FolderOf(path)) {
  }
}

std::string FolderStore::Describe(const std::string& key) const {
  return Cat("file://", key.empty() && root_.empty() ? "/" : PathOf(key));
}

std::string FolderStore::PathOf(std::string_view key) const { return key.empty() ? root_ : Cat(root_, "/", key); }

Status FolderStore::CheckRoot(const Call& call) const {
  struct stat about;
  if (syscalls_.Stat(Cat(root_, "/."), &about) == 0 || errno != ENOTDIR) return {};
  return call.Refusal(Code::kInvalidArgument, Cat(root_, " is a file, or goes through one; a store needs a folder"));
}

Result<std::optional<Object>> FolderStore::Get(const std::string& key, const GetOptions& options, const Deadline& deadline) {
  Call call(*this, "read", key, deadline);
  HR_RETURN_IF_ERROR(call.CheckKeyAndTime());
  HR_RETURN_IF_ERROR(CheckGet(*this, key, options));
  // Without O_NONBLOCK, a pipe that somebody put there would be waited for.
  OpenFile file = OpenFile::At(syscalls_, call.path(), O_RDONLY | O_NONBLOCK);
  if (!file.open()) {
    const int error = errno;
    if (error == ENOTDIR) HR_RETURN_IF_ERROR(CheckRoot(call));
    if (error == ENOENT || error == ENOTDIR) return std::optional<Object>();
    return call.Failure(error);
  }
  struct stat about;
  if (syscalls_.Fstat(file.get(), &about) != 0) return call.Failure(errno);
  if (S_ISDIR(about.st_mode)) return std::optional<Object>();
  if (!S_ISREG(about.st_mode))
    return call.Refusal(Code::kInvalidArgument, "it is neither a file nor a folder, so it is no object");
  Object object{.bytes = {}, .size = static_cast<uint64_t>(about.st_size), .version = VersionOf(about)};
  auto [offset, count] = options.range.Within(object.size);
  HR_RETURN_IF_ERROR(CheckFits(*this, key, count, options));
  if (count > 0) {
    HR_ASSIGN_OR_RETURN(object.bytes, ReadBytes(call, file.get(), offset, count, options.into));
  }
  return std::optional(std::move(object));
}

Result<Bytes> FolderStore::ReadBytes(const Call& call, int file, uint64_t offset, uint64_t count, std::span<std::byte> into) {
  if (into.empty() && count >= kMapFrom && MapsFiles()) {
    static const uint64_t kPage = ::sysconf(_SC_PAGESIZE);
    const uint64_t lead = offset % kPage;
    const size_t length = lead + count;
    void* memory = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file, static_cast<off_t>(offset - lead));
    if (memory != MAP_FAILED) {
      std::shared_ptr<const void> owner(memory, [length](const void* mapped) { ::munmap(const_cast<void*>(mapped), length); });
      return Bytes({static_cast<const std::byte*>(memory) + lead, count}, std::move(owner));
    }
    // A process may have only so many mappings; reading does without.
    if (errno != ENOMEM && errno != ENODEV) return call.Failure(errno);
  }
  std::optional<Buffer> own;
  std::span<std::byte> left = into.empty() ? own.emplace(count).span() : into.first(count);
  while (!left.empty()) {
    HR_RETURN_IF_ERROR(call.InTime());
    ssize_t got = Uninterrupted([&] {
      return syscalls_.Pread(file, left.data(), std::min<uint64_t>(left.size(), kPiece),
                             static_cast<off_t>(offset + count - left.size()));
    });
    if (got < 0) return call.Failure(errno);
    if (got == 0)
      return call.Refusal(Code::kCorrupt,
                          "the file became shorter while it was read; somebody else changes the files of this store");
    left = left.subspan(got);
  }
  return own ? std::move(*own).Freeze() : Bytes::Borrow(into.first(count));
}

bool FolderStore::MapsFiles() {
  Mapping mapping = mapping_.load(std::memory_order_relaxed);
  if (mapping == Mapping::kNotKnownYet) {
    mapping = syscalls_.IsLocal(root_) ? Mapping::kYes : Mapping::kNo;
    mapping_.store(mapping, std::memory_order_relaxed);
  }
  return mapping == Mapping::kYes;
}

Result<ListPage> FolderStore::List(const ListOptions& options, const Deadline& deadline) {
  Call call(*this, "list", options.prefix, deadline);
  HR_RETURN_IF_ERROR(CheckList(*this, options));
  HR_RETURN_IF_ERROR(call.InTime());
  HR_ASSIGN_OR_RETURN(ListPage page, WalkFolder(syscalls_, root_, options, [&] { return call.InTime(); }));
  if (page.entries.empty()) HR_RETURN_IF_ERROR(CheckRoot(call));
  return page;
}

Result<PutOutcome> FolderStore::PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) {
  Call call(*this, "create", key, deadline);
  HR_RETURN_IF_ERROR(call.CheckKeyAndTime());
  // Saves the losers of a race the work; `link` decides.
  HR_ASSIGN_OR_RETURN(Occupant occupant, Look(call));
  if (occupant == Occupant::kObject) return Exists(call);
  HR_ASSIGN_OR_RETURN(Temporary temporary, WriteTemporary(call, body));
  Result<PutOutcome> outcome = LinkInPlace(call, temporary);
  if (!outcome.ok()) Prune(call.folder());
  return outcome;
}

Result<PutOutcome> FolderStore::LinkInPlace(const Call& call, const Temporary& temporary) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    HR_RETURN_IF_ERROR(call.InTime());
    HR_ASSIGN_OR_RETURN(OpenFile folder, OpenFolder(call));
    if (syscalls_.Link(temporary.path(), folder.get(), call.name()) == 0) return Landed(call, folder);
    const int error = errno;
    const PutOutcome unknown{PutOutcome::kUnknown, call.Failure(error)};

    // The error may be that of the answer alone. Opened anew, since that makes a client of NFS ask the server for the count.
    struct stat mine, there;
    OpenFile written = OpenFile::At(syscalls_, temporary.path(), O_RDONLY);
    if (!written.open() && errno == ENOENT && error == ENOENT) return call.Refusal(Code::kUnavailable, kTemporaryVanished);
    if (!written.open() || syscalls_.Fstat(written.get(), &mine) != 0) return unknown;
    if (mine.st_nlink > 1) {
      bool ours = syscalls_.Stat(call.path(), &there) == 0 && there.st_ino == mine.st_ino && there.st_dev == mine.st_dev;
      return ours ? Landed(call, folder) : unknown;
    }

    if (error == EEXIST) {
      HR_ASSIGN_OR_RETURN(Occupant occupant, Look(call));
      if (occupant == Occupant::kObject) return Exists(call);
      if (occupant == Occupant::kFolder) HR_RETURN_IF_ERROR(MakeRoom(call));
    } else if (error == EPERM) {
      return call.Refusal(Code::kUnsupported,
                          "the file system refuses hard links; use one that has them: ext4, xfs, btrfs, tmpfs, NFS");
    } else if (IsRefusal(error)) {
      return call.Failure(error);
    } else if (error != ENOENT && error != EINTR) {
      return unknown;
    }
  }
  return call.Refusal(Code::kUnavailable, kFolderVanishes);
}

Status FolderStore::Put(const std::string& key, const Body& body, const Deadline& deadline) {
  Call call(*this, "write", key, deadline);
  HR_RETURN_IF_ERROR(call.CheckKeyAndTime());
  HR_ASSIGN_OR_RETURN(Temporary temporary, WriteTemporary(call, body));
  Status outcome = RenameInPlace(call, temporary);
  if (!outcome.ok()) Prune(call.folder());
  return outcome;
}

Status FolderStore::RenameInPlace(const Call& call, Temporary& temporary) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    HR_RETURN_IF_ERROR(call.InTime());
    HR_ASSIGN_OR_RETURN(OpenFile folder, OpenFolder(call));
    if (syscalls_.Rename(temporary.path(), folder.get(), call.name()) == 0) {
      temporary.Renamed();
      return SyncOpen(folder) == 0 ? Status::Ok() : call.Failure(errno);
    }
    if (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST) {
      HR_RETURN_IF_ERROR(MakeRoom(call));
    } else if (errno != ENOENT) {
      return call.Failure(errno);
    } else if (struct stat about; syscalls_.Stat(temporary.path(), &about) != 0) {
      return call.Refusal(Code::kUnavailable, kTemporaryVanished);
    }
  }
  return call.Refusal(Code::kUnavailable, kFolderVanishes);
}

Result<FolderStore::Occupant> FolderStore::Look(const Call& call) const {
  struct stat about;
  if (syscalls_.Stat(call.path(), &about) == 0) return S_ISDIR(about.st_mode) ? Occupant::kFolder : Occupant::kObject;
  const int error = errno;
  if (error == ENOENT) return Occupant::kNothing;
  if (error != ENOTDIR) return call.Failure(error);
  HR_RETURN_IF_ERROR(CheckRoot(call));
  return call.Refusal(Code::kInvalidArgument, "a part of its path is an object, so nothing can be stored below it");
}

Status FolderStore::MakeRoom(const Call& call) const {
  if (syscalls_.Rmdir(call.path()) == 0 || errno == ENOENT || errno == ENOTDIR) return {};
  if (errno != ENOTEMPTY && errno != EEXIST) return call.Failure(errno);
  return call.Refusal(Code::kInvalidArgument, "there are objects below it; no key may be the folder of another");
}

Result<Temporary> FolderStore::WriteTemporary(const Call& call, const Body& body) {
  std::call_once(swept_, [&] { temporaries_.Sweep(clock_.WallNow()); });
  wrote_.store(true, std::memory_order_relaxed);
  OpenFile file;
  std::string path;
  for (int attempt = 0; !file.open(); ++attempt) {
    path = temporaries_.NextPath();
    file = OpenFile::At(syscalls_, path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (file.open() || (errno == EEXIST && attempt < kAttempts)) continue;
    if (errno != ENOENT || attempt >= kAttempts) return call.Failure(errno);
    HR_RETURN_IF_ERROR(MakeFolder(call, temporaries_.folder()));
  }
  Temporary temporary(syscalls_, std::move(path));
  HR_RETURN_IF_ERROR(WriteBody(call, file.get(), body));
  HR_RETURN_IF_ERROR(call.InTime());
  if (SyncOpen(file) != 0) return call.Failure(errno);
  // Without the fsync, a network file system may say only now that a write failed.
  if (file.Close() != 0 && errno != EINTR) return call.Failure(errno);
  return temporary;
}

Status FolderStore::WriteBody(const Call& call, int file, const Body& body) const {
  std::array<iovec, 256> pieces;
  size_t part = 0, offset = 0;  // of the first byte that is not written yet
  while (part < body.parts().size()) {
    HR_RETURN_IF_ERROR(call.InTime());
    size_t count = 0, size = 0;
    for (size_t i = part; i < body.parts().size() && count < pieces.size() && size < kPiece; ++i) {
      std::span<const std::byte> rest = body.parts()[i].span().subspan(i == part ? offset : 0);
      rest = rest.first(std::min<size_t>(rest.size(), kPiece - size));
      pieces[count++] = {const_cast<std::byte*>(rest.data()), rest.size()};
      size += rest.size();
    }
    ssize_t written = Uninterrupted([&] { return syscalls_.Writev(file, pieces.data(), static_cast<int>(count)); });
    if (written < 0) return call.Failure(errno);
    if (written == 0) return call.Failure(ENOSPC);
    offset += written;
    while (part < body.parts().size() && offset >= body.parts()[part].size()) offset -= body.parts()[part++].size();
  }
  return {};
}

Result<OpenFile> FolderStore::OpenFolder(const Call& call) {
  const std::string folder = call.folder();
  const std::string path = Cat(root_, "/", folder);
  for (int attempt = 0;; ++attempt) {
    OpenFile file = OpenFile::At(syscalls_, path, O_RDONLY | O_DIRECTORY);
    if (file.open()) {
      if (sync_) HR_RETURN_IF_ERROR(MakeDurable(call, folder));
      return file;
    }
    if (errno != ENOENT || attempt >= kAttempts) return call.Failure(errno);
    {
      std::lock_guard lock(mutex_);
      durable_.erase(folder);
    }
    HR_RETURN_IF_ERROR(call.InTime());
    HR_RETURN_IF_ERROR(MakeFolder(call, PathOf(folder)));
  }
}

Status FolderStore::MakeFolder(const Call& call, const std::string& path) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (syscalls_.Mkdir(path, 0777) == 0) {
      if (path.size() > root_.size()) return {};
      std::lock_guard lock(mutex_);
      if (made_.empty() || path.size() < made_.size()) made_ = path;
      return {};
    }
    if (errno == EEXIST) return {};
    if (errno != ENOENT || path.empty()) return call.Failure(errno);
    HR_RETURN_IF_ERROR(MakeFolder(call, std::string(FolderOf(path))));
  }
  // The folder above is there every time: waiting will not help (/proc answers so).
  return call.Refusal(Code::kDenied,
                      Cat("no folder can be made at ", path, ", although the one above is there; use another folder"));
}

Status FolderStore::MakeDurable(const Call& call, const std::string& folder) {
  {
    std::lock_guard lock(mutex_);
    if (durable_.contains(folder)) return {};
  }
  // A folder may have been made a moment ago by somebody who has not come to syncing it yet; so even one that was there is synced
  // once. The folders above it may be closed to us: then they are others' care.
  if (!folder.empty()) {
    std::string parent(FolderOfKey(folder));
    HR_RETURN_IF_ERROR(MakeDurable(call, parent));
    if (SyncFolder(parent) != 0 && errno != ENOENT && errno != EACCES) return call.Failure(errno);
  } else {
    std::string top;
    {
      std::lock_guard lock(mutex_);
      top = made_.empty() ? root_ : made_;
    }
    for (std::string path = root_; path.size() >= top.size() && !path.empty(); path = FolderOf(path)) {
      if (SyncPath(Cat(FolderOf(path), "/")) != 0 && errno != EACCES) return call.Failure(errno);
    }
  }
  std::lock_guard lock(mutex_);
  if (durable_.size() >= kDurableFolders) durable_.clear();
  durable_.insert(folder);
  return {};
}

int FolderStore::SyncOpen(const OpenFile& file) const {
  if (!sync_ || Uninterrupted([&] { return syscalls_.Fsync(file.get()); }) == 0) return 0;
  return errno == EINVAL ? 0 : -1;  // a file system that has no such thing for folders
}

int FolderStore::SyncPath(const std::string& path) const {
  if (!sync_) return 0;
  OpenFile folder = OpenFile::At(syscalls_, path, O_RDONLY | O_DIRECTORY);
  return folder.open() ? SyncOpen(folder) : -1;
}

PutOutcome FolderStore::Landed(const Call& call, const OpenFile& folder) const {
  if (SyncOpen(folder) == 0) return {PutOutcome::kCreated, {}};
  return {PutOutcome::kUnknown, call.Failure(errno)};
}

PutOutcome FolderStore::Exists(const Call& call) const {
  // Others build on this answer, so it has to outlive a power cut as the winner's own does. Best effort: true it is in any case.
  SyncFolder(call.folder());
  return {PutOutcome::kExists, {}};
}

Status FolderStore::Delete(std::span<const std::string> keys, const Deadline& deadline) {
  for (const std::string& key : keys) HR_RETURN_IF_ERROR(Call(*this, "delete", key, deadline).CheckKeyAndTime());
  std::set<std::string> emptied, changed;
  Status failed;
  for (const std::string& key : keys) {
    Call call(*this, "delete", key, deadline);
    if (failed = call.InTime(); !failed.ok()) break;
    if (syscalls_.Unlink(call.path()) == 0) {
      changed.insert(call.folder());
    } else if (errno != ENOENT && errno != ENOTDIR && errno != EISDIR) {
      failed = call.Failure(errno);
      break;
    } else if (errno == ENOTDIR) {
      if (failed = CheckRoot(call); !failed.ok()) break;
    }
    emptied.insert(call.folder());
  }
  for (const std::string& folder : emptied) {
    std::string stays = Prune(folder);
    if (stays != folder) changed.insert(stays);
  }
  for (const std::string& folder : changed) {
    if (!failed.ok()) break;
    // A folder that is gone by now was synced away by whoever removed it.
    if (SyncFolder(folder) != 0 && errno != ENOENT && errno != ENOTDIR) {
      failed = FolderFailure(Cat("cannot delete from ", Describe(folder)), errno);
    }
  }
  return failed;
}

std::string FolderStore::Prune(std::string folder) {
  while (!folder.empty() && syscalls_.Rmdir(PathOf(folder)) == 0) {
    {
      std::lock_guard lock(mutex_);
      durable_.erase(folder);
    }
    folder = FolderOfKey(folder);
  }
  return folder;
}

}  // namespace headrace
