// A store in a folder: objects are files, keys are paths below the root.
//
// How an object comes into being, and why a crash at any point leaves it whole or absent:
//
//   1. write a temporary file in the hidden folder `.headrace-tmp` of the root,  2. fsync it: the bytes are on the disk,
//   3. link it to its name: one step of the kernel, which refuses if the name is taken,  4. fsync the folder: the name is on the disk,
//   5. remove the temporary name.
//
// So a name never leads to bytes that are not all there. Of many creators, on one machine or on many clients of NFS, the kernel or
// the server lets one link through. An answer that was lost on the network shows in the link count of the temporary file: with a second
// name, and that name being ours, the object was created whatever the error said. `Put` renames in place of step 3, so that readers
// see the old file or the new one. New folders are made durable in their parents before something is linked into them.
// Deletes remove folders that have become empty; who wanted to link into one makes it again.
//
// A read maps the file where only this machine writes to the file system (ext4, xfs, …): no copy is made, and the bytes stay valid
// after a delete or a replacement. On NFS and its like a file that another machine deletes would take the mapping with it, so there,
// and for small objects, bytes are read into memory. Nothing here truncates a file; somebody who does so by hand, or a disk that
// cannot read a mapped page, raises SIGBUS in the reader.
//
// Any number of processes may use one folder at the same time. The root is made by the first write; a store that made its root
// and leaves it empty takes it away again. Reading needs read permission only.
//
// Thread-safe. Holds no file open between calls. A create is 2 fsyncs and about ten other system calls.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_set>

#include "headrace/store.h"
#include "store/folder/syscalls.h"
#include "store/folder/temporaries.h"

namespace headrace {

struct FolderOptions {
  // Off: a power cut may take what was written in the last seconds, or leave it empty. A killed process still leaves every object whole or absent.
  bool sync = true;
  Clock* clock = &RealClock();
  FolderSyscalls* syscalls = &FolderSyscalls::Real();
};

class FolderStore final : public ObjectStore {
 public:
  // A relative path counts from the working directory of this moment.
  explicit FolderStore(const std::string& root, FolderOptions options = {});
  ~FolderStore() override;
  FolderStore(const FolderStore&) = delete;
  FolderStore& operator=(const FolderStore&) = delete;

  const std::string& root() const { return root_; }

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override;
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override;
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override;
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override;
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override;
  std::string Describe(const std::string& key = "") const override;

 private:
  class Call;
  // What a name stands for.
  enum class Occupant { kNothing, kObject, kFolder };

  std::string PathOf(std::string_view key) const;
  Result<Occupant> Look(const Call& call) const;
  // An empty folder where an object shall be is a leftover, and makes room; one with objects in it is an error.
  Status MakeRoom(const Call& call) const;

  Result<PutOutcome> LinkInPlace(const Call& call, const Temporary& temporary);
  Status RenameInPlace(const Call& call, Temporary& temporary);
  Result<Temporary> WriteTemporary(const Call& call, const Body& body);
  Status WriteBody(const Call& call, int file, const Body& body) const;
  // The folder of the key: open, made if it was not there, and durable in its parents.
  Result<OpenFile> OpenFolder(const Call& call);
  Status MakeFolder(const Call& call, const std::string& path);
  Status MakeDurable(const Call& call, const std::string& folder);
  // As fsync(2): -1 and errno. Nothing to do if `sync` is off.
  int SyncOpen(const OpenFile& file) const;
  int SyncPath(const std::string& path) const;
  int SyncFolder(const std::string& folder) const { return SyncPath(root_ + "/" + folder); }
  PutOutcome Landed(const Call& call, const OpenFile& folder) const;
  PutOutcome Exists(const Call& call) const;

  // Removes `folder` and the folders above it, up to the root, as far as they are empty. Returns the first one that stays.
  std::string Prune(std::string folder);
  Status CheckRoot(const Call& call) const;
  Result<Bytes> ReadBytes(const Call& call, int file, uint64_t offset, uint64_t count, std::span<std::byte> into);
  bool MapsFiles();

  const std::string root_;
  const bool sync_;
  Clock& clock_;
  FolderSyscalls& syscalls_;
  Temporaries temporaries_;
  std::once_flag swept_;
  std::atomic<bool> wrote_{false};
  enum class Mapping { kNotKnownYet, kYes, kNo };
  std::atomic<Mapping> mapping_{Mapping::kNotKnownYet};
  std::mutex mutex_;
  std::unordered_set<std::string> durable_;  // folders known to be durable in their parents
  std::string made_;  // the topmost folder that was made to have the root, if any
};

}  // namespace headrace
