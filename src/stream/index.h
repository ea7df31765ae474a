// Where a step is: the manifest's own entries, and the sealed index below it.
#pragma once

#include <functional>
#include <optional>

#include "headrace/store.h"
#include "stream/manifest.h"
#include "stream/segment.h"

namespace headrace {

class Index {
 public:
  Index(ObjectStore& store, const Uuid& uuid, Executor* executor = nullptr) : segments_(store, uuid, executor) {}

  // The entry that holds a visible step at or after the trim point.
  Result<std::optional<Entry>> FindStep(const Manifest& manifest, uint64_t step, const Deadline& deadline);
  // The same entry with neighbours of it that came in the same request, in order; none if there is no such step. What the manifest
  // itself holds comes alone.
  Result<std::vector<Entry>> FindAround(const Manifest& manifest, uint64_t step, const Deadline& deadline);

  // Whether a chunk of this name is part of the stream: visible, parked or sealed. kOutcomeUnknown: its place was given up by a trim,
  // and nobody can tell any more what stood there.
  Result<bool> Holds(const Manifest& manifest, const ChunkName& name, const Deadline& deadline);

  // Every visible entry of the blocks [first, end), in order.
  Status ForEach(const Manifest& manifest, uint64_t first_block, uint64_t end_block, const Deadline& deadline,
                 const std::function<Status(const Entry&)>& visit);

  // Every object of the sealed index, with all that lie below others.
  Status ForEachSegment(const Manifest& manifest, const Deadline& deadline,
                        const std::function<Status(const SegmentRef&)>& visit);

  SegmentReader& segments() { return segments_; }

 private:
  SegmentReader segments_;
};

}  // namespace headrace
