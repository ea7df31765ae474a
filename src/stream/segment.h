// A sealed piece of the index: an immutable object that the manifest, or a segment above, refers to.
//
// Levels 0 to 3 hold entries (128, 1,024, 8,192, 65,536 of them), in groups of 128 that are checked and can be read one by one; the
// levels above hold references to eight segments of the level below. docs/format/segment.md has the bytes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

// Looks things up in a stream's sealed index: one or two requests a segment. Thread-safe; keeps nothing.
class SegmentReader {
 public:
  SegmentReader(ObjectStore& store, const Uuid& uuid) : store_(store), uuid_(uuid) {}

  // The neighbouring entries among which is the one that holds `step`, which lies in the segment; none if `step` is behind its last entry.
  Result<std::vector<Entry>> FindStep(const SegmentRef& ref, uint64_t step, const Deadline& deadline);
  // All entries, in order.
  Status ForEach(const SegmentRef& ref, const Deadline& deadline, const std::function<Status(const Entry&)>& visit);
  Result<std::vector<Entry>> Entries(const SegmentRef& ref, const Deadline& deadline);
  Result<std::vector<SegmentRef>> Children(const SegmentRef& ref, const Deadline& deadline);

 private:
  // The header with the first step and checksum of every group.
  struct Fence {
    uint64_t first_step;
    uint32_t crc;
  };
  Result<std::vector<Fence>> Fences(const SegmentRef& ref, const Deadline& deadline);
  Result<std::vector<Entry>> Group(const SegmentRef& ref, size_t group, const Fence& fence, const Deadline& deadline);
  Result<Bytes> Read(const SegmentRef& ref, uint64_t offset, uint64_t length, const Deadline& deadline);
  Status Damaged(const SegmentRef& ref, std::string_view why) const;

  ObjectStore& store_;
  Uuid uuid_;
};

}  // namespace headrace
