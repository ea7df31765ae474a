// A sealed piece of the index: an immutable object that the manifest, or a segment above, refers to.
//
// Levels 0 to 3 hold entries (128, 1,024, 8,192, 65,536 of them), in groups of 128 that are checked and can be read one by one; the
// levels above hold references to eight segments of the level below. docs/format/segment.md has the bytes.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/executor.h"
#include "headrace/store.h"
#include "stream/manifest.h"

namespace headrace {

inline constexpr int kEntryLevels = 4;

// The object that holds `entries`, and its reference: level, blocks and nonce are those of `wanted`.
std::string EncodeSegment(std::span<const Entry> entries, const Uuid& uuid, const SegmentRef& wanted);
std::string EncodeSegment(std::span<const SegmentRef> children, const Uuid& uuid, const SegmentRef& wanted);
// The reference to what `EncodeSegment` makes: steps, count and checksum filled in.
SegmentRef SegmentOf(std::span<const Entry> entries, const Uuid& uuid, const SegmentRef& wanted);
SegmentRef SegmentOf(std::span<const SegmentRef> children, const Uuid& uuid, const SegmentRef& wanted);

// Looks things up in a stream's sealed index.
//
// A small segment is read whole, of a large one the header and the group that probably holds the step, side by side. What was read to find a
// step is kept for a while, so that finding its neighbours costs nothing; segments never change, so what is kept is never wrong.
//
// Thread-safe. Keeps at most 2 MiB. Without an executor, requests follow each other.
class SegmentReader {
 public:
  SegmentReader(ObjectStore& store, const Uuid& uuid, Executor* executor = nullptr)
      : store_(store), uuid_(uuid), executor_(executor) {}

  // The neighbouring entries among which is the one that holds `step`, which lies in the segment; none if `step` is behind its last entry.
  Result<std::vector<Entry>> FindStep(const SegmentRef& ref, uint64_t step, const Deadline& deadline);
  // All entries, in order: one request for each segment with entries, and none of it from what is kept.
  Status ForEach(const SegmentRef& ref, const Deadline& deadline, const std::function<Status(const Entry&)>& visit);
  Result<std::vector<Entry>> Entries(const SegmentRef& ref, const Deadline& deadline);
  // Of several segments, read side by side.
  Result<std::vector<Entry>> Entries(std::span<const SegmentRef> refs, const Deadline& deadline);
  Result<std::vector<SegmentRef>> Children(const SegmentRef& ref, const Deadline& deadline);

 private:
  // The first step and checksum of a group.
  struct Fence {
    uint64_t first_step;
    uint32_t crc;
  };
  // Some of what a segment holds.
  struct Part {
    std::vector<Fence> fences;
    std::vector<Entry> entries;
    std::vector<SegmentRef> children;
    size_t bytes() const;
  };
  using PartPtr = std::shared_ptr<const Part>;
  struct PartName {
    uint8_t level;
    uint64_t first_block;
    uint64_t nonce;
    size_t group;  // or kHeader
    friend bool operator==(const PartName&, const PartName&) = default;
  };
  static constexpr size_t kHeader = SIZE_MAX;

  PartPtr Kept(const PartName& name);
  void Keep(const PartName& name, PartPtr part);

  Result<std::vector<Fence>> DecodeFences(const SegmentRef& ref, std::span<const std::byte> header) const;
  Result<std::vector<Entry>> DecodeGroup(const SegmentRef& ref, size_t group, const Fence& fence,
                                         std::span<const std::byte> bytes) const;
  Result<Bytes> ReadGroup(const SegmentRef& ref, size_t group, const Deadline& deadline);
  Result<Bytes> Read(const SegmentRef& ref, uint64_t offset, uint64_t length, const Deadline& deadline);
  Status Damaged(const SegmentRef& ref, std::string_view why) const;

  ObjectStore& store_;
  Uuid uuid_;
  Executor* executor_;
  std::mutex mutex_;
  std::list<std::pair<PartName, PartPtr>> kept_;  // newest use first
  size_t kept_bytes_ = 0;
};

}  // namespace headrace
