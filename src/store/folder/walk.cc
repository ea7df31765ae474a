#include "store/folder/walk.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "base/text.h"
#include "store/folder/failure.h"
#include "store/folder/temporaries.h"

namespace headrace {
namespace {

constexpr size_t kLongestKey = 900;
constexpr size_t kEntriesPerLook = 4096;  // at the deadline
// Behind a folder's '/': greater than all its keys, for UTF-8 has no such byte.
constexpr std::string_view kBehindAll = "\xFF";

// Names that `CheckKey` refuses are other people's files: they cannot be read through a store, so they are not in its lists either.
bool CanBeInAKey(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && !IsHiddenName(name) && IsUtf8(name) &&
         std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

class Walk {
 public:
  Walk(FolderSyscalls& syscalls, const std::string& root, const ListOptions& options, const std::function<Status()>& in_time)
      : syscalls_(syscalls),
        root_(root),
        options_(options),
        behind_(std::max(options.start_after, options.page)),
        in_time_(in_time) {}

  Result<ListPage> Run() {
    // Only the last folder of the prefix needs to be looked into; and not even that if no key can go through it.
    std::string top = options_.prefix.substr(0, options_.prefix.rfind('/') + 1);
    if (top.empty() || std::ranges::all_of(Split(top.substr(0, top.size() - 1), '/'), CanBeInAKey))
      HR_RETURN_IF_ERROR(Visit(top));
    return std::move(page_);
  }

 private:
  struct Listing {
    DIR* stream;
    ~Listing() {
      if (stream) ::closedir(stream);
    }
  };

  // The wanted entries of one folder that come first: keys of files, and folders with their '/'.
  struct Starts {
    std::vector<std::string> first;  // in order
    bool all = true;                 // false: there are more behind these
  };

  bool Over() const { return page_.entries.size() == options_.limit || !page_.next.empty(); }

  // False if no key that begins with `start` can be wanted. For a file `start` is the key.
  bool Wanted(const std::string& start, bool folder) const {
    if (!folder) return start > behind_ && start.starts_with(options_.prefix);
    if (!start.starts_with(options_.prefix) && !options_.prefix.starts_with(start)) return false;
    return start > behind_ || (behind_.starts_with(start) && std::string_view(behind_).substr(start.size()) != kBehindAll);
  }

  // `folder` is the beginning of the keys in it: "", or with a '/' at its end.
  Status Visit(const std::string& folder) {
    HR_ASSIGN_OR_RETURN(Starts starts, Read(folder));
    for (const std::string& start : starts.first) {
      if (Over()) break;
      HR_RETURN_IF_ERROR(start.ends_with('/') ? Visit(start) : Add(start));
    }
    if (page_.entries.size() == options_.limit) {
      page_.next = page_.entries.back().key;
    } else if (!starts.all && page_.next.empty()) {
      // The page has room left, since some of the first were gone or empty when their turn came.
      page_.next = starts.first.back();
      if (page_.next.ends_with('/')) page_.next += kBehindAll;
    }
    return {};
  }

  Status Add(const std::string& key) {
    struct stat about;
    if (syscalls_.Stat(Cat(root_, "/", key), &about) == 0) {
      if (S_ISREG(about.st_mode)) page_.entries.push_back({key, static_cast<uint64_t>(about.st_size), VersionOf(about)});
      return {};
    }
    if (IsGone(errno)) return {};
    return Failure(key, errno);
  }

  Result<Starts> Read(const std::string& folder) {
    HR_RETURN_IF_ERROR(in_time_());
    Starts starts;
    OpenFile file = OpenFile::At(syscalls_, Cat(root_, "/", folder), O_RDONLY | O_DIRECTORY);
    if (!file.open()) {
      if (IsGone(errno)) return starts;
      return Failure(folder, errno);
    }
    Listing listing{::fdopendir(file.get())};
    if (!listing.stream) return Failure(folder, errno);
    file.Release();  // the listing closes it

    // Every entry is looked at, and few are kept: those that fit into the page, as a heap with the last of them on top.
    const size_t room = options_.limit - page_.entries.size();
    std::string start;
    for (size_t seen = 1;; ++seen) {
      if (seen % kEntriesPerLook == 0) HR_RETURN_IF_ERROR(in_time_());
      errno = 0;
      const dirent* entry = ::readdir(listing.stream);
      if (!entry) break;
      const std::string_view name = entry->d_name;
      start.assign(folder).append(name);
      bool is_folder = entry->d_type == DT_DIR;
      if (entry->d_type != DT_DIR && entry->d_type != DT_REG) {
        struct stat about;
        if (syscalls_.Stat(Cat(root_, "/", start), &about) != 0) {
          if (IsGone(errno)) continue;
          return Failure(start, errno);
        }
        is_folder = S_ISDIR(about.st_mode);
      }
      if (is_folder) start += '/';
      if (!Wanted(start, is_folder) || !CanBeInAKey(name) || start.size() > kLongestKey) continue;
      if (starts.first.size() == room) {
        starts.all = false;
        if (starts.first.front() < start) continue;
        std::ranges::pop_heap(starts.first);
        starts.first.pop_back();
      }
      starts.first.push_back(start);
      std::ranges::push_heap(starts.first);
    }
    if (errno != 0) return Failure(folder, errno);
    std::ranges::sort_heap(starts.first);
    return starts;
  }

  // Deleted since its name was read, a link to nowhere, or a prefix that no key can have.
  static bool IsGone(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG; }

  Status Failure(const std::string& key, int error) const {
    return FolderFailure(Cat("cannot list file://", root_, "/", key), error);
  }

  FolderSyscalls& syscalls_;
  const std::string& root_;
  const ListOptions& options_;
  const std::string& behind_;
  const std::function<Status()>& in_time_;
  ListPage page_;
};

}  // namespace

bool IsHiddenName(std::string_view name) {
  if (name == Temporaries::kFolder) return true;
  if (!name.starts_with(".nfs") || name.size() < 20) return false;
  return std::ranges::all_of(name.substr(4), [](unsigned char c) { return std::isxdigit(c); });
}

Result<ListPage> WalkFolder(FolderSyscalls& syscalls, const std::string& root, const ListOptions& options,
                            const std::function<Status()>& in_time) {
  return Walk(syscalls, root, options, in_time).Run();
}

}  // namespace headrace
