// Who keeps the stream waiting: read off the strand table and what producers say of themselves, for the person who is asked why the training
// stands still.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "headrace/clock.h"
#include "stream/manifest.h"
#include "stream/owners.h"
#include "stream/stream_info.h"

namespace headrace {

// The strand whose block everybody waits for; none if steps come in the order of their arrival, or all have ended.
std::optional<uint16_t> LateStrand(const Manifest& manifest, const StreamInfo& info);

// What is known of the owner of that strand, besides its number.
struct LateOwner {
  OwnerStatus status;
  Duration silent{0};  // for so long, at the least, it has given no sign
};

// Looks at that owner now and then. Whether it lives shows only between two looks, on our own clock: its own proves nothing.
//
// Thread-safe.
class LateOwnerWatch {
 public:
  LateOwner Look(ObjectStore& store, Clock& clock, const Manifest& manifest, const StreamInfo& info, const Deadline& deadline);

 private:
  std::mutex mutex_;
  uint64_t owner_ = 0;
  uint64_t counter_ = 0;
  std::optional<Instant> since_;
};

// "block 30 is missing, and 5 blocks of others wait for it; strand 2 makes it (owner trainer-3 (4f3a09bb2c1d7e65), epoch 3, 15 chunks so far)".
// Of an owner that has ended, or is silent, it says that, and what to do.
std::string WhoIsLate(const Manifest& manifest, const StreamInfo& info, const LateOwner& late = {});

}  // namespace headrace
