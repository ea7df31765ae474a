// The contract of an object store: the only thing that producers and trainers share.
//
// It is small on purpose: get (with range), create, put, list, delete. Everything a stream promises rests on five properties,
// and `Probe` (store/probe.h) checks them before a stream is created:
//
//   1. create is atomic: of any number of creators of one key exactly one is told `kCreated`, and its bytes stay;
//   2. a read that starts after a write or delete was answered sees it;
//   3. a range returns exactly the bytes asked for;
//   4. a list is complete: every object whose write was answered before the list began is in it (in any order);
//   5. bytes come back as they were written.
//
// "Not found" and "exists" are answers, not errors. One call is one attempt: nothing in a store retries; the decorator
// `RetryingStore` does, by a table. The outcome of a create is never guessed: what an error leaves open is `kUnknown`.
// `Create` (store/create.h) finds it out.
//
// Keys are UTF-8 paths relative to the store ("log/00000000000000000007"), checked by `CheckKey`. No key is also a
// folder of another key: "a" and "a/b" never exist together.
//
// Every store is thread-safe, and every call may block until its deadline.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headrace/bytes.h"
#include "headrace/deadline.h"
#include "headrace/result.h"

namespace headrace {

// Which bytes of an object. What lies behind its end is left out; an answer is shorter than the range only there.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = UINT64_MAX;  // never 0: S3 has no way to ask for nothing
  bool suffix = false;           // the last `length` bytes, wherever they are

  static ByteRange All() { return {}; }
  static ByteRange At(uint64_t offset, uint64_t length) { return {offset, length, false}; }
  static ByteRange From(uint64_t offset) { return {offset, UINT64_MAX, false}; }
  static ByteRange Last(uint64_t length) { return {0, length, true}; }

  bool all() const { return !suffix && offset == 0 && length == UINT64_MAX; }
  // The piece of an object of `size` bytes that this range names: {first byte, count}.
  std::pair<uint64_t, uint64_t> Within(uint64_t size) const;
  // As in an HTTP header: "bytes=0-99", "bytes=-8".
  std::string ToString() const;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

class BufferPool;

// Takes bytes as they arrive, piece by piece, where memory that holds all of them would only be copied from again.
class Landing {
 public:
  virtual ~Landing() = default;
  // The next bytes of the range, of which `offset` came before. 0 once more: they begin anew, with another attempt. Comes from any thread,
  // one call at a time, and not after the get has returned. Nothing is known to be right before the get was answered well.
  virtual void Take(uint64_t offset, std::span<const std::byte> piece) = 0;
};

struct GetOptions {
  ByteRange range = {};
  // Where the bytes shall land. Left empty, the store brings its own memory (a mapped file, a fresh buffer).
  // A longer answer than fits is an error, and nothing is promised about the memory after any error.
  std::span<std::byte> into = {};
  // Where a store that needs fresh memory takes it from. Lives until the call returns; the bytes may outlive it.
  BufferPool* pool = nullptr;
  // Who takes the bytes instead, if the store has them piece by piece; others leave it alone (see Object::landed). Not together with `into`.
  Landing* landing = nullptr;
};

// What a get brought: the bytes of the range (in `into`, borrowed, if that was given) and the whole object's size.
struct Object {
  Bytes bytes;
  uint64_t size = 0;
  // What tells this content from another one of the same key: the ETag, a file's time of change. Empty where the store has nothing of the kind.
  std::string version = {};
  // So many bytes went to the landing. `bytes` is empty then.
  uint64_t landed = 0;
};

// What to write, in pieces that need not be copied together.
class Body {
 public:
  Body() = default;
  Body(Bytes bytes) { Append(std::move(bytes)); }
  Body(std::string text) { Append(Bytes::FromString(std::move(text))); }
  explicit Body(std::vector<Bytes> parts) {
    for (Bytes& part : parts) Append(std::move(part));
  }

  void Append(Bytes bytes);
  uint64_t size() const { return size_; }
  const std::vector<Bytes>& parts() const { return parts_; }
  // The bytes in [offset, offset + length), clipped, without a copy.
  Body Slice(uint64_t offset, uint64_t length) const;
  // One run of memory; a copy only if there are several pieces.
  Bytes Join() const;
  bool Equals(std::span<const std::byte> other) const;

 private:
  std::vector<Bytes> parts_;
  uint64_t size_ = 0;
};

// What one attempt at a create came to.
struct PutOutcome {
  enum Kind {
    kCreated,  // the object is there, and these are its bytes
    kExists,   // the store says that the key was taken: by another writer, or by an earlier attempt of our own
    kUnknown,  // no answer that could be relied on: it may have happened, may not have, or may happen still
  };
  Kind kind;
  Status reason;  // why it is unknown
};

struct ListOptions {
  std::string prefix = {};       // any string; need not end at a '/'
  std::string start_after = {};  // only keys greater than this one, in byte order
  std::string page = {};         // the `next` of the page before; the other fields must be the same then
  size_t limit = 1000;           // entries a page at the most
};

struct ListEntry {
  std::string key;
  uint64_t size = 0;
  std::string version = {};  // as in Object
  // Versions are left out: two stores with the same objects list the same.
  friend bool operator==(const ListEntry& a, const ListEntry& b) { return a.key == b.key && a.size == b.size; }
};

struct ListPage {
  std::vector<ListEntry> entries;  // in any order
  std::string next;                // empty: this was the last page. A page may be empty and not the last
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Nothing there: an empty optional.
  virtual Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) = 0;

  // Creates `key` if it is absent. An error means that certainly nothing was or will be created by this call
  // (refused by name, denied, no space); everything in doubt is `kUnknown`.
  virtual Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) = 0;

  // Creates or replaces, atomically: a reader sees the old bytes or the new ones. For hints and status only, never for safety.
  virtual Status Put(const std::string& key, const Body& body, const Deadline& deadline) = 0;

  // One page of the keys under a prefix.
  virtual Result<ListPage> List(const ListOptions& options, const Deadline& deadline) = 0;

  // Removes the keys; absent ones are fine. On an error some may be gone.
  virtual Status Delete(std::span<const std::string> keys, const Deadline& deadline) = 0;

  // For messages: the URI of `key` in this store, or of the store itself.
  virtual std::string Describe(const std::string& key = "") const = 0;

  // Convenience over the above.
  Status DeleteOne(const std::string& key, const Deadline& deadline) { return Delete({&key, 1}, deadline); }
  Result<std::optional<Object>> Get(const std::string& key, const Deadline& deadline) { return Get(key, GetOptions{}, deadline); }
};

// All pages under `prefix`, sorted by key.
Result<std::vector<ListEntry>> ListAll(ObjectStore& store, const std::string& prefix, const Deadline& deadline);

// Ok if `key` is one that every store can hold: 1–900 bytes of UTF-8, no control characters, no empty, "." or ".." segment.
Status CheckKey(std::string_view key);

// How to reach a store beyond its URI, as words: "endpoint", "region", "access_key_id", … (docs/guide/stores.md).
// They win over the URI's query, which wins over the environment.
using StorageOptions = std::map<std::string, std::string>;

// The store behind a URI (s3://bucket/prefix, file:///path, /path, mem://name), with retries, limits, hedging and metrics as
// a program wants them. Asks nobody yet: wrong credentials show at the first call.
Result<std::shared_ptr<ObjectStore>> OpenStore(const std::string& uri, const StorageOptions& options = {});

}  // namespace headrace
