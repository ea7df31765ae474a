// Sequences that are being filled, and where the next document goes.
//
// Best fit: where it leaves the least room. First fit: the first sequence that has room. Concat: the first sequence that is not full.
// A document begins at a multiple of `align`; an empty one takes a place of one token, so that every sequence ends.
//
// Not thread-safe. A placement costs some tens of nanoseconds whatever the number of sequences.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "recipe/recipe.h"

namespace headrace {

class Bins {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Place {
    uint32_t bin = kNone;  // it fits nowhere
    uint32_t position = 0;
    explicit operator bool() const { return bin != kNone; }
  };

  Bins() = default;
  Bins(PackMethod method, uint32_t count, uint32_t length, uint32_t align) { Reset(method, count, length, align); }

  // All empty, in the memory that is there.
  void Reset(PackMethod method, uint32_t count, uint32_t length, uint32_t align);
  [[gnu::always_inline]] Place Put(uint32_t length) {
    const uint32_t size = std::max<uint32_t>(length, 1);
    const Place place = method_ == PackMethod::kBestFit ? PutBest(size) : PutElsewhere(size);
    if (place) padding_ -= length;
    return place;
  }
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
  // Where a document of this size ends that begins at `position`, as far as room goes.
  uint32_t RoomAfter(uint32_t position, uint32_t size) const {
    const uint64_t end = uint64_t{position} + size, used = align_ == 1 ? end : (end + align_ - 1) / align_ * align_;
    return used >= length_ ? 0 : length_ - static_cast<uint32_t>(used);
  }

  // The heart of a step's plan, and so in sight of its caller's loop.
  [[gnu::always_inline]] Place PutBest(uint32_t size) {
    if (size > length_) return {};
    const uint32_t room = RoomFor(size);
    if (room > length_) return {};
    const uint32_t bin = first_[room], position = length_ - room, next = next_[bin];
    first_[room] = next;
    if (next == kNone) {
      uint64_t &bits = bits_[room / 64], &words = summary_[room / kBlock];
      bits &= ~(uint64_t{1} << (room % 64));
      words &= ~(uint64_t{bits == 0} << (room / 64 % 64));
      blocks_ &= ~(uint64_t{words == 0} << (room / kBlock % 64));
    }
    const uint32_t left = RoomAfter(position, size);
    total_room_ -= room - left;
    AddBest(bin, left);
    return {bin, position};
  }
  // The least room that is there and not less; more than the length if there is none: such a room is always there. Rooms are few and far between, so that the
  // one that is found is often in another block; which one cannot be foretold, and so is not searched for.
  uint32_t RoomFor(uint32_t size) const {
    if (const uint64_t here = bits_[size / 64] >> (size % 64); here != 0) return size + First(here);
    const uint32_t word = size / 64 + 1;
    uint32_t block = word / 64;
    uint64_t words = summary_[block] & (~uint64_t{0} << (word % 64));
    if (words == 0) {
      block = many_blocks_ ? BlockFrom(block + 1) : First(blocks_ & (~uint64_t{1} << block));
      words = summary_[block];
    }
    const uint32_t found = block * 64 + First(words);
    return found * 64 + First(bits_[found]);
  }
  // Where there are more blocks than bits to tell which of them have any room.
  uint32_t BlockFrom(uint32_t block) const {
    while (summary_[block] == 0) ++block;
    return block;
  }
  static uint32_t First(uint64_t bits) { return static_cast<uint32_t>(std::countr_zero(bits)); }

  void AddBest(uint32_t bin, uint32_t room) {
    room_[bin] = room;
    next_[bin] = first_[room];
    first_[room] = bin;
    Mark(room);
  }
  void Mark(uint32_t room) {
    bits_[room / 64] |= uint64_t{1} << (room % 64);
    summary_[room / kBlock] |= uint64_t{1} << (room / 64 % 64);
    blocks_ |= uint64_t{1} << (room / kBlock % 64);
  }
  Place PutElsewhere(uint32_t size);

  PackMethod method_ = PackMethod::kBestFit;
  uint32_t length_ = 0, align_ = 1;
  uint64_t padding_ = 0, total_room_ = 0;
  std::vector<uint32_t> room_;
  // Best fit: bins by their room, as lists; three levels of bits say which rooms there are.
  static constexpr uint32_t kBlock = 4096;
  std::vector<uint32_t> first_, next_;
  std::vector<uint64_t> bits_, summary_;
  uint64_t blocks_ = 0;
  bool many_blocks_ = false;
  // First fit: a tree of the most room below each node. Concat: the open bin.
  std::vector<uint32_t> most_;
  uint32_t leaves_ = 1;
  uint32_t open_ = 0;
};

}  // namespace headrace
