// Sequences that are being filled, and where the next document goes.
//
// Best fit: where it leaves the least room. First fit: the first sequence that has room. Concat: the first sequence that is not full.
// A document begins at a multiple of `align`; an empty one takes a place of one token, so that every sequence ends.
//
// Not thread-safe. A placement costs some tens of nanoseconds whatever the number of sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "recipe/recipe.h"

namespace headrace {

class Bins {
 public:
  struct Place {
    uint32_t bin = 0;
    uint32_t position = 0;
  };

  Bins(PackMethod method, uint32_t count, uint32_t length, uint32_t align);

  // Nothing if it fits nowhere.
  std::optional<Place> Put(uint32_t length);
  // Room of the bin that concat fills now; 0 when all are full.
  uint32_t OpenRoom() const;

  uint32_t count() const { return static_cast<uint32_t>(room_.size()); }
  uint32_t length() const { return length_; }
  // Tokens that no document stands on; what `align` leaves between documents is among them.
  uint64_t padding() const { return padding_; }
  // Room that is still to be had.
  uint64_t room() const { return total_room_; }
  uint32_t room(uint32_t bin) const { return room_[bin]; }

 private:
  std::optional<uint32_t> Find(uint32_t size) const;
  void SetRoom(uint32_t bin, uint32_t room);

  const PackMethod method_;
  const uint32_t length_, align_;
  uint64_t padding_ = 0, total_room_ = 0;
  std::vector<uint32_t> room_;
  // Best fit: bins by their room, as lists; two levels of bits say which rooms there are.
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> first_, next_;
  std::vector<uint64_t> bits_, summary_;
  // First fit: a tree of the most room below each node. Concat: the open bin.
  std::vector<uint32_t> most_;
  uint32_t leaves_ = 1;
  uint32_t open_ = 0;
};

}  // namespace headrace
