#include "plan/bins.h"

namespace headrace {

void Bins::Reset(PackMethod method, uint32_t count, uint32_t length, uint32_t align) {
  method_ = method;
  length_ = length;
  align_ = std::max<uint32_t>(align, 1);
  padding_ = total_room_ = uint64_t{count} * length;
  room_.assign(count, length);
  open_ = 0;
  if (method == PackMethod::kBestFit) {
    first_.assign(length + 1, kNone);
    next_.assign(count, kNone);
    bits_.assign((length + 1) / 64 + 1, 0);
    summary_.assign(bits_.size() / 64 + 1, 0);
    blocks_ = 0;
    many_blocks_ = summary_.size() > 64;
    Mark(length + 1);  // that no bin has
    // The list's head is the bin that was put in last: the first bins are to be filled first.
    for (uint32_t bin = count; bin-- > 0;) AddBest(bin, length);
  } else if (method == PackMethod::kFirstFit) {
    leaves_ = std::bit_ceil(std::max<uint32_t>(count, 1));
    most_.assign(2 * leaves_, 0);
    std::fill_n(most_.begin() + leaves_, count, length);
    for (uint32_t node = leaves_; node-- > 1;) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
  }
}

uint32_t Bins::OpenRoom() const { return open_ < room_.size() ? room_[open_] : 0; }

Bins::Place Bins::PutElsewhere(uint32_t size) {
  uint32_t bin = open_, node = 1;
  if (method_ == PackMethod::kFirstFit) {
    if (room_.empty() || most_[1] < size) return {};
    while (node < leaves_) node = most_[2 * node] >= size ? 2 * node : 2 * node + 1;
    bin = node - leaves_;
  } else if (OpenRoom() < size) {
    return {};
  }
  const uint32_t position = length_ - room_[bin], left = RoomAfter(position, size);
  total_room_ -= room_[bin] - left;
  room_[bin] = left;
  if (method_ == PackMethod::kFirstFit) {
    most_[node] = left;
    // As far up as it changes anything.
    while ((node /= 2) > 0) {
      const uint32_t most = std::max(most_[2 * node], most_[2 * node + 1]);
      if (most_[node] == most) break;
      most_[node] = most;
    }
  } else {
    while (open_ < room_.size() && room_[open_] == 0) ++open_;
  }
  return {bin, position};
}

}  // namespace headrace
