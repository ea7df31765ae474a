// The files of a source, wherever they lie: one store per fixed beginning of its patterns, opened through OpenStore, so that limits, retries and metrics hold for the lake too.
//
// Every read is held against what the inventory says of the file: one that has changed since ends with an error that names it.
//
// Thread-safe.
#pragma once

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>

#include <memory>
#include <string>
#include <vector>

#include "headrace/store.h"
#include "source/inventory.h"

namespace headrace {

// A pattern, taken apart: where its store is, what must begin its keys, and what they are held against.
struct LakePattern {
  std::string written;  // as in the recipe
  std::string root;  // URI of the store, without options
  StorageOptions query;
  std::vector<std::string> globs;  // keys in the store, braces expanded
};
Result<LakePattern> ParsePattern(const std::string& written, const std::string& folder);

// "{00..12}" and "{a,b}" become the texts that they stand for; a brace without range or comma stays as it is.
Result<std::vector<std::string>> ExpandBraces(const std::string& text);
bool HasGlob(std::string_view text);
// `*` and `?` stay inside a name, `**` crosses folders, [a-z] and [!a-z] are one character of a name. A name that begins with a '.' is met by a pattern that does.
bool MatchGlob(std::string_view pattern, std::string_view key);

class Lake {
 public:
  static Result<std::shared_ptr<Lake>> Open(const std::vector<std::string>& patterns, const std::string& folder,
                                            const StorageOptions& options);

  // For files that are known already, wherever the recipe lies now: of the patterns only the stores' options are used.
  static Result<std::shared_ptr<Lake>> OpenFor(const std::vector<LakeFile>& files, const std::vector<std::string>& patterns,
                                               const StorageOptions& options);

  Result<std::vector<LakeFile>> Find(const Deadline& deadline);

  struct Place {
    std::shared_ptr<ObjectStore> store;
    std::string key;
    bool local = false;  // in a folder, so that many small reads cost little
  };
  Result<Place> Locate(const std::string& uri) const;

  // Bytes of a file; exactly `range` clipped to its end. kCorrupt if it is not the file of the inventory any more:
  // another try will not mend that, as it does a lost race.
  Result<Bytes> Read(const LakeFile& file, const ByteRange& range, const Deadline& deadline) const;
  // A file beside the ones of the patterns, such as an index; nothing if it is not there.
  Result<std::optional<LakeFile>> Look(const std::string& uri, const Deadline& deadline) const;
  // All files below a folder of the lake, sorted.
  Result<std::vector<LakeFile>> Below(const std::string& folder, const Deadline& deadline) const;
  bool local(const std::string& uri) const;

 private:
  struct Root {
    std::string uri;
    std::shared_ptr<ObjectStore> store;
    bool local = false;
  };
  Status AddRoot(const std::string& uri, const StorageOptions& query, const StorageOptions& options);
  const Root* RootOf(const std::string& uri) const;
  std::vector<LakePattern> patterns_;
  std::vector<Root> roots_;  // longest first
};

// Arrow's view of a file of the lake. One user at a time: whoever has it sets the deadline.
class LakeInput final : public arrow::io::RandomAccessFile {
 public:
  LakeInput(std::shared_ptr<const Lake> lake, LakeFile file);

  void SetDeadline(const Deadline& deadline) { deadline_ = deadline; }
  // This will be read, in small reads: the first of them brings it all, and nothing else.
  void Expect(int64_t position, int64_t bytes);
  // Of what it has read, no more than a little stays: it is not in use for some time.
  void KeepLittle();
  // What Arrow made of a failure of the store is text only; this is the failure itself.
  Status Explain(const arrow::Status& failure, std::string_view what) const;

  arrow::Status Close() override;
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override;
  arrow::Result<int64_t> GetSize() override { return static_cast<int64_t>(file_.bytes); }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes) override;
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override;

 private:
  const std::shared_ptr<const Lake> lake_;
  const LakeFile file_;
  const int64_t ahead_;  // what a small read brings along
  std::shared_ptr<arrow::Buffer> block_;
  int64_t block_at_ = 0;
  int64_t expected_at_ = 0, expected_bytes_ = 0;
  Deadline deadline_;
  Status failure_;
  int64_t position_ = 0;
  bool closed_ = false;
};

std::shared_ptr<arrow::Buffer> ToBuffer(Bytes bytes);

}  // namespace headrace
