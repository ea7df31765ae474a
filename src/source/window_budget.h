// What all loaders of a process keep: windows, and places in granules that are open for whoever reads on. Both are forgotten by need, last used last.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "source/source_loader.h"

namespace headrace {

struct GroupKey {
  uint64_t loader = 0;
  uint16_t strand = 0;
  uint32_t epoch = 0;
  uint32_t group = 0;
  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

// A place in a group of granules, with the reader that is there.
class GroupCursor {
 public:
  virtual ~GroupCursor() = default;
  virtual uint64_t bytes() const = 0;
};

// Part of a file, decoded once for all of its granules. Whoever locks it first fills it.
struct SharedPart {
  std::mutex mutex;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  bool filled = false;
};
struct PartKey {
  uint64_t loader = 0;
  uint32_t file = 0, part = 0;
  friend auto operator<=>(const PartKey&, const PartKey&) = default;
};

class WindowBudget {
 public:
  explicit WindowBudget(uint64_t bytes) : limit_(bytes) {}

  void SetLimit(uint64_t bytes) { limit_ = bytes; }
  // Of a window's part, for as long as somebody has what is returned: kept here, or in use by a strand, or both.
  std::shared_ptr<const void> Count(uint64_t bytes);
  // More is in use than there may be. Who holds windows that he could load again lets go of them then.
  bool Tight() const { return Used() > limit_; }
  bool Crowded() const { return Used() > limit_ / 2; }

  std::shared_ptr<const Window> Find(const GroupKey& group, uint32_t piece);
  void Keep(const GroupKey& group, uint32_t piece, std::shared_ptr<const Window> window);
  void Forget(const GroupKey& group, uint32_t piece);

  std::unique_ptr<GroupCursor> Take(const GroupKey& group);
  void Give(const GroupKey& group, std::unique_ptr<GroupCursor> cursor);

  // True if a part of so many bytes may be shared at all.
  bool CanShare(uint64_t bytes) const { return bytes <= limit_ / 4; }
  std::shared_ptr<SharedPart> Share(const PartKey& key, uint64_t bytes);

  void Forget(uint64_t loader);

  // Lets something be loaded ahead if it fits beside what is kept; `Done` gives the place back.
  bool BeginAhead(uint64_t bytes);
  void Done(uint64_t bytes);

  uint64_t NextLoader() { return ++loaders_; }
  uint64_t bytes() const;
  size_t cursors() const;

 private:
  struct Kept {
    GroupKey group;
    uint32_t piece = 0;
    std::shared_ptr<const Window> window;
  };
  struct Open {
    GroupKey group;
    std::unique_ptr<GroupCursor> cursor;
    uint64_t bytes = 0;
  };
  struct Shared {
    PartKey key;
    std::shared_ptr<SharedPart> part;
    uint64_t bytes = 0;
  };
  uint64_t Used() const { return *live_ + cursor_bytes_ + part_bytes_; }

  std::atomic<uint64_t> limit_;
  const std::shared_ptr<std::atomic<uint64_t>> live_ = std::make_shared<std::atomic<uint64_t>>(0);  // outlives windows
  std::atomic<uint64_t> loaders_{0};
  mutable std::mutex mutex_;
  std::list<Kept> windows_;  // last used first
  std::map<std::pair<GroupKey, uint32_t>, std::list<Kept>::iterator> places_;
  std::list<Open> cursors_;  // last used first
  std::list<Shared> parts_;  // last used first
  std::atomic<uint64_t> cursor_bytes_{0}, part_bytes_{0};  // read without the lock
  uint64_t window_bytes_ = 0, ahead_bytes_ = 0;
  size_t ahead_ = 0;
};

}  // namespace headrace
