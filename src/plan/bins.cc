#include "plan/bins.h"

#include <algorithm>
#include <bit>

namespace headrace {

Bins::Bins(PackMethod method, uint32_t count, uint32_t length, uint32_t align)
    : method_(method), length_(length), align_(std::max<uint32_t>(align, 1)), room_(count, 0) {
  padding_ = uint64_t{count} * length;
  if (method == PackMethod::kBestFit) {
    first_.assign(length + 1, kNone);
    next_.assign(count, kNone);
    bits_.assign(length / 64 + 1, 0);
    summary_.assign(bits_.size() / 64 + 1, 0);
    // The list's head is the bin that was put in last: the first bins are to be filled first.
    for (uint32_t bin = count; bin-- > 0;) SetRoom(bin, length);
  } else {
    leaves_ = std::bit_ceil(std::max<uint32_t>(count, 1));
    if (method == PackMethod::kFirstFit) most_.assign(2 * leaves_, 0);
    for (uint32_t bin = 0; bin < count; ++bin) SetRoom(bin, length);
  }
}

void Bins::SetRoom(uint32_t bin, uint32_t room) {
  total_room_ += room;
  total_room_ -= room_[bin];
  room_[bin] = room;
  if (method_ == PackMethod::kBestFit) {
    next_[bin] = first_[room];
    first_[room] = bin;
    bits_[room / 64] |= uint64_t{1} << (room % 64);
    summary_[room / 4096] |= uint64_t{1} << (room / 64 % 64);
  } else if (method_ == PackMethod::kFirstFit) {
    uint32_t node = leaves_ + bin;
    most_[node] = room;
    while ((node /= 2) > 0) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
  }
}

std::optional<uint32_t> Bins::Find(uint32_t size) const {
  switch (method_) {
    case PackMethod::kBestFit: {
      if (size > length_) return std::nullopt;
      uint32_t word = size / 64;
      uint64_t here = bits_[word] & (~uint64_t{0} << (size % 64));
      if (here == 0) {
        ++word;
        uint32_t block = word / 64;
        uint64_t blocks = block < summary_.size() ? summary_[block] & (~uint64_t{0} << (word % 64)) : 0;
        while (blocks == 0)
          if (++block < summary_.size())
            blocks = summary_[block];
          else
            return std::nullopt;
        word = block * 64 + static_cast<uint32_t>(std::countr_zero(blocks));
        here = bits_[word];
      }
      return first_[word * 64 + static_cast<uint32_t>(std::countr_zero(here))];
    }
    case PackMethod::kFirstFit: {
      if (room_.empty() || most_[1] < size) return std::nullopt;
      uint32_t node = 1;
      while (node < leaves_) node = most_[2 * node] >= size ? 2 * node : 2 * node + 1;
      return node - leaves_;
    }
    case PackMethod::kConcat:
      if (open_ < room_.size() && room_[open_] >= size) return open_;
      return std::nullopt;
  }
  return std::nullopt;
}

uint32_t Bins::OpenRoom() const { return open_ < room_.size() ? room_[open_] : 0; }

std::optional<Bins::Place> Bins::Put(uint32_t length) {
  const uint32_t size = std::max<uint32_t>(length, 1);
  const std::optional<uint32_t> bin = Find(size);
  if (!bin) return std::nullopt;
  const uint32_t position = length_ - room_[*bin];
  const uint64_t used = (uint64_t{position} + size + align_ - 1) / align_ * align_;
  if (method_ == PackMethod::kBestFit) {
    const uint32_t room = room_[*bin];
    first_[room] = next_[*bin];
    if (first_[room] == kNone) {
      bits_[room / 64] &= ~(uint64_t{1} << (room % 64));
      if (bits_[room / 64] == 0) summary_[room / 4096] &= ~(uint64_t{1} << (room / 64 % 64));
    }
  }
  SetRoom(*bin, used >= length_ ? 0 : length_ - static_cast<uint32_t>(used));
  padding_ -= length;
  if (method_ == PackMethod::kConcat)
    while (open_ < room_.size() && room_[open_] == 0) ++open_;
  return Place{*bin, position};
}

}  // namespace headrace
