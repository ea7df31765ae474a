#include "source/lake.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/text.h"
#include "store/open.h"
#include "store/uri.h"

namespace headrace {
namespace {

constexpr size_t kNamesPerListing = 4;  // of one folder: beyond it, the folder is listed once

// Small reads come in rows: the header of a message, its description, its body.
constexpr int64_t kAheadLocal = 64 << 10, kAheadRemote = 1 << 20;

class BytesBuffer final : public arrow::Buffer {
 public:
  explicit BytesBuffer(Bytes bytes)
      : arrow::Buffer(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int64_t>(bytes.size())),
        bytes_(std::move(bytes)) {}

 private:
  const Bytes bytes_;
};

// All entries under a prefix; large pages, since a folder is read anew for each.
Result<std::vector<ListEntry>> ListWhole(ObjectStore& store, const std::string& prefix, const Deadline& deadline) {
  std::vector<ListEntry> all;
  ListOptions options{.prefix = prefix, .limit = 1 << 20};
  do {
    HR_ASSIGN_OR_RETURN(ListPage page, store.List(options, deadline));
    std::ranges::move(page.entries, std::back_inserter(all));
    options.page = page.next;
  } while (!options.page.empty());
  std::ranges::sort(all, {}, &ListEntry::key);
  return all;
}

std::string_view FolderOf(std::string_view key) {
  const size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : key.substr(0, slash + 1);
}

std::string FixedPart(const std::string& glob) { return glob.substr(0, glob.find_first_of("*?[")); }

std::string Uri(const std::string& root, std::string_view key) { return Cat(root, root == "/" ? "" : "/", key); }

bool IsVisible(std::string_view key) {
  return std::ranges::none_of(Split(key, '/'), [](const std::string& name) { return name.starts_with('.'); });
}

// Finds the keys of one pattern; listings are remembered, since many patterns may share one.
class Finder {
 public:
  Finder(ObjectStore& store, const LakePattern& pattern, const Deadline& deadline)
      : store_(store), pattern_(pattern), deadline_(deadline) {}

  Result<std::vector<ListEntry>> Run() {
    std::map<std::string, std::vector<std::string>> globs, names;  // by what is listed for them
    for (const std::string& glob : pattern_.globs) {
      if (HasGlob(glob)) {
        globs[FixedPart(glob)].push_back(glob);
      } else {
        names[std::string(FolderOf(glob))].push_back(glob);
      }
    }
    for (const auto& [prefix, patterns] : globs) HR_RETURN_IF_ERROR(AddGlobs(prefix, patterns));
    for (auto& [folder, keys] : names) HR_RETURN_IF_ERROR(AddNames(keys));
    if (found_.empty()) {
      return Status(Code::kNotFound, Cat("no file matches \"", pattern_.written, "\" (looked in ", store_.Describe(),
                                         "); check the pattern and the path"));
    }
    if (!missing_.empty()) {
      std::string some;
      for (size_t i = 0; i < std::min<size_t>(3, missing_.size()); ++i) some += Cat(i ? ", " : "", store_.Describe(missing_[i]));
      return Status(Code::kNotFound, Cat(missing_.size(), " of the files that \"", pattern_.written, "\" names ",
                                         missing_.size() == 1 ? "is" : "are", " not there: ", some,
                                         missing_.size() > 3 ? ", …" : "", "; use a glob for files that may be missing"));
    }
    std::vector<ListEntry> entries;
    for (auto& [key, entry] : found_) entries.push_back(std::move(entry));
    return entries;
  }

 private:
  Status AddGlobs(const std::string& prefix, const std::vector<std::string>& patterns) {
    HR_ASSIGN_OR_RETURN(std::vector<ListEntry> entries, ListWhole(store_, prefix, deadline_));
    for (ListEntry& entry : entries) {
      if (entry.key.ends_with('/')) continue;  // a mark that some tools leave to make a folder show
      if (std::ranges::any_of(patterns, [&](const std::string& pattern) { return MatchGlob(pattern, entry.key); })) {
        found_.emplace(entry.key, std::move(entry));
      }
    }
    return {};
  }

  Status AddNames(std::vector<std::string>& keys) {
    std::ranges::sort(keys);
    std::map<std::string, ListEntry, std::less<>> there;
    if (keys.size() > kNamesPerListing) {
      const auto [a, b] = std::ranges::mismatch(keys.front(), keys.back());
      HR_ASSIGN_OR_RETURN(std::vector<ListEntry> entries, ListWhole(store_, std::string(keys.front().begin(), a), deadline_));
      for (ListEntry& entry : entries) there.emplace(entry.key, std::move(entry));
    }
    for (const std::string& key : keys) {
      if (keys.size() <= kNamesPerListing) {
        HR_ASSIGN_OR_RETURN(ListPage page, store_.List({.prefix = key, .limit = 1}, deadline_));
        if (!page.entries.empty() && page.entries.front().key == key) there.emplace(key, page.entries.front());
      }
      if (auto entry = there.find(key); entry != there.end()) {
        found_.emplace(key, entry->second);
        continue;
      }
      HR_ASSIGN_OR_RETURN(std::vector<ListEntry> below, ListWhole(store_, key + "/", deadline_));
      std::erase_if(below, [&](const ListEntry& entry) {
        return entry.key.ends_with('/') || !IsVisible(std::string_view(entry.key).substr(key.size() + 1));
      });
      if (below.empty()) missing_.push_back(key);
      for (ListEntry& entry : below) found_.emplace(entry.key, std::move(entry));
    }
    return {};
  }

  ObjectStore& store_;
  const LakePattern& pattern_;
  const Deadline& deadline_;
  std::map<std::string, ListEntry> found_;
  std::vector<std::string> missing_;
};

}  // namespace

std::shared_ptr<arrow::Buffer> ToBuffer(Bytes bytes) { return std::make_shared<BytesBuffer>(std::move(bytes)); }

Status Lake::AddRoot(const std::string& uri, const StorageOptions& query, const StorageOptions& options) {
  Root root{.uri = uri, .store = nullptr, .local = uri.find("://") == std::string::npos};
  StoreUri parsed;
  if (root.local) {
    parsed.path = uri;
  } else {
    HR_ASSIGN_OR_RETURN(parsed, ParseStoreUri(uri));
  }
  parsed.query = query;
  HR_ASSIGN_OR_RETURN(root.store, OpenStore(parsed, options, Surroundings::Process()));
  roots_.push_back(std::move(root));
  std::ranges::stable_sort(roots_, [](const Root& a, const Root& b) { return a.uri.size() > b.uri.size(); });
  return {};
}

Result<std::shared_ptr<Lake>> Lake::Open(const std::vector<std::string>& patterns, const std::string& folder,
                                         const StorageOptions& options) {
  auto lake = std::make_shared<Lake>();
  std::map<std::string, StorageOptions> queries;
  for (const std::string& written : patterns) {
    HR_ASSIGN_OR_RETURN(LakePattern pattern, ParsePattern(written, folder));
    if (auto [known, fresh] = queries.emplace(pattern.root, pattern.query); fresh) {
      HR_RETURN_IF_ERROR(lake->AddRoot(pattern.root, pattern.query, options));
    } else if (known->second != pattern.query) {
      return Status(Code::kInvalidArgument, Cat("the patterns of a source give different options for ", pattern.root,
                                                "; make two sources of them, or use storage_options"));
    }
    lake->patterns_.push_back(std::move(pattern));
  }
  return lake;
}

Result<std::shared_ptr<Lake>> Lake::OpenFor(const std::vector<LakeFile>& files, const std::vector<std::string>& patterns,
                                            const StorageOptions& options) {
  auto lake = std::make_shared<Lake>();
  std::map<std::string, StorageOptions> queries;
  StorageOptions of_folders;
  for (const std::string& written : patterns) {
    if (written.find("://") == std::string::npos) continue;
    HR_ASSIGN_OR_RETURN(LakePattern pattern, ParsePattern(written, ""));
    (pattern.root.starts_with('/') ? of_folders : queries[pattern.root]) = pattern.query;
  }
  std::string common;  // folder of all that lie in folders
  std::set<std::string> stores;
  for (const LakeFile& file : files) {
    if (const size_t colon = file.uri.find("://"); colon != std::string::npos) {
      stores.insert(file.uri.substr(0, file.uri.find('/', colon + 3)));
      continue;
    }
    const std::string_view folder = FolderOf(file.uri);
    if (common.empty()) {
      common = folder;
    } else if (!folder.starts_with(common)) {
      common.erase(std::ranges::mismatch(common, folder).in1, common.end());
      common = FolderOf(common);
    }
  }
  while (common.size() > 1 && common.ends_with('/')) common.pop_back();
  if (!common.empty()) HR_RETURN_IF_ERROR(lake->AddRoot(common, of_folders, options));
  for (const std::string& store : stores) HR_RETURN_IF_ERROR(lake->AddRoot(store, queries[store], options));
  return lake;
}

Result<std::vector<LakeFile>> Lake::Find(const Deadline& deadline) {
  std::map<std::string, LakeFile> files;
  for (const LakePattern& pattern : patterns_) {
    const auto root = std::ranges::find(roots_, pattern.root, &Root::uri);
    HR_ASSIGN_OR_RETURN(std::vector<ListEntry> entries, Finder(*root->store, pattern, deadline).Run());
    for (ListEntry& entry : entries) {
      std::string uri = Uri(pattern.root, entry.key);
      files.try_emplace(uri, LakeFile{.uri = uri, .bytes = entry.size, .version = std::move(entry.version)});
    }
  }
  std::vector<LakeFile> sorted;
  sorted.reserve(files.size());
  for (auto& [uri, file] : files) sorted.push_back(std::move(file));
  return sorted;
}

const Lake::Root* Lake::RootOf(const std::string& uri) const {
  for (const Root& root : roots_) {
    const size_t size = root.uri == "/" ? 0 : root.uri.size();
    if (uri.size() > size && uri[size] == '/' && uri.starts_with(root.uri)) return &root;
  }
  return nullptr;
}

Result<Lake::Place> Lake::Locate(const std::string& uri) const {
  const Root* root = RootOf(uri);
  if (!root) {
    return Status(
        Code::kInvalidArgument,
        Cat(uri, " does not lie where the source's files are said to be; the recipe was moved, or its files were renamed"));
  }
  return Place{root->store, uri.substr((root->uri == "/" ? 0 : root->uri.size()) + 1), root->local};
}

bool Lake::local(const std::string& uri) const {
  const Root* root = RootOf(uri);
  return root && root->local;
}

Result<Bytes> Lake::Read(const LakeFile& file, const ByteRange& range, const Deadline& deadline) const {
  HR_ASSIGN_OR_RETURN(Place place, Locate(file.uri));
  HR_ASSIGN_OR_RETURN(std::optional<Object> object, place.store->Get(place.key, {.range = range}, deadline));
  std::string changed;
  if (!object) {
    changed = "it is gone";
  } else if (object->size != file.bytes) {
    changed = Cat("it had ", file.bytes, " bytes and has ", object->size);
  } else if (!file.version.empty() && !object->version.empty() && file.version != object->version) {
    changed = Cat("its version was ", file.version, " and is ", object->version);
  }
  if (!changed.empty()) {
    return Status(Code::kCorrupt, Cat(file.uri, " has changed since the inventory of its source was made: ", changed,
                                      ". Put the old file back, or begin a new stream, which makes a new inventory"));
  }
  return std::move(object->bytes);
}

Result<std::optional<LakeFile>> Lake::Look(const std::string& uri, const Deadline& deadline) const {
  HR_ASSIGN_OR_RETURN(Place place, Locate(uri));
  HR_ASSIGN_OR_RETURN(ListPage page, place.store->List({.prefix = place.key, .limit = 1}, deadline));
  if (page.entries.empty() || page.entries.front().key != place.key) return std::optional<LakeFile>();
  return std::optional(LakeFile{.uri = uri, .bytes = page.entries.front().size, .version = page.entries.front().version});
}

Result<std::vector<LakeFile>> Lake::Below(const std::string& folder, const Deadline& deadline) const {
  HR_ASSIGN_OR_RETURN(Place place, Locate(folder + "/"));
  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> entries, ListWhole(*place.store, place.key, deadline));
  std::vector<LakeFile> files;
  for (ListEntry& entry : entries) {
    files.push_back(
        {.uri = folder + "/" + entry.key.substr(place.key.size()), .bytes = entry.size, .version = std::move(entry.version)});
  }
  return files;
}

LakeInput::LakeInput(std::shared_ptr<const Lake> lake, LakeFile file)
    : lake_(std::move(lake)), file_(std::move(file)), ahead_(lake_->local(file_.uri) ? kAheadLocal : kAheadRemote) {}

void LakeInput::Expect(int64_t position, int64_t bytes) {
  const bool fits = position >= 0 && bytes > 0 && bytes <= ahead_ && position + bytes <= static_cast<int64_t>(file_.bytes);
  expected_at_ = position;
  expected_bytes_ = fits ? bytes : 0;
}

void LakeInput::KeepLittle() {
  if (block_ && block_->size() > kAheadLocal) block_.reset();
}

Status LakeInput::Explain(const arrow::Status& failure, std::string_view what) const {
  if (failure.ok()) return {};
  if (!failure_.ok()) return failure_.Annotate(what);
  return Status(Code::kCorrupt, Cat(what, ": ", file_.uri, ": ", failure.message()));
}

arrow::Status LakeInput::Close() {
  closed_ = true;
  return arrow::Status::OK();
}

arrow::Status LakeInput::Seek(int64_t position) {
  position_ = position;
  return arrow::Status::OK();
}

arrow::Result<std::shared_ptr<arrow::Buffer>> LakeInput::ReadAt(int64_t position, int64_t bytes) {
  if (position < 0 || bytes < 0) return arrow::Status::Invalid("a read before the beginning");
  bytes = std::min(bytes, std::max<int64_t>(0, static_cast<int64_t>(file_.bytes) - position));
  if (bytes == 0) return std::make_shared<arrow::Buffer>(nullptr, 0);
  if (block_ && position >= block_at_ && position + bytes <= block_at_ + block_->size()) {
    return arrow::SliceBuffer(block_, position - block_at_, bytes);
  }
  const bool small = bytes < ahead_ / 2;
  // A small file comes whole: its parts are asked for in any order.
  int64_t from = position, length = small ? ahead_ : bytes;
  if (small && static_cast<int64_t>(file_.bytes) <= ahead_) {
    from = 0;
  } else if (small && position >= expected_at_ && position + bytes <= expected_at_ + expected_bytes_) {
    from = expected_at_;
    length = expected_bytes_;
  }
  Result<Bytes> read = lake_->Read(file_, ByteRange::At(from, length), deadline_);
  if (!read.ok()) {
    failure_ = read.status();
    return arrow::Status::IOError(failure_.message());
  }
  std::shared_ptr<arrow::Buffer> buffer = ToBuffer(*std::move(read));
  if (!small) return buffer;
  block_ = buffer;
  block_at_ = from;
  if (position - from + bytes > buffer->size()) return arrow::Status::IOError("a read beyond the end");
  return arrow::SliceBuffer(std::move(buffer), position - from, bytes);
}

arrow::Result<int64_t> LakeInput::ReadAt(int64_t position, int64_t bytes, void* out) {
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, ReadAt(position, bytes));
  if (buffer->size() > 0) std::memcpy(out, buffer->data(), buffer->size());
  return buffer->size();
}

arrow::Result<int64_t> LakeInput::Read(int64_t bytes, void* out) {
  ARROW_ASSIGN_OR_RAISE(int64_t read, ReadAt(position_, bytes, out));
  position_ += read;
  return read;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> LakeInput::Read(int64_t bytes) {
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, ReadAt(position_, bytes));
  position_ += buffer->size();
  return buffer;
}

}  // namespace headrace
