#include "load/lanes.h"

#include <string>

#include "base/text.h"

namespace headrace {
namespace {

// "1, 2, 4, 8, …": the sizes that divide the lanes, at most eight of them around `size`.
std::string Divisors(uint32_t lanes, uint64_t size) {
  std::vector<uint32_t> all;
  for (uint32_t d = 1; d <= lanes; ++d) {
    if (lanes % d == 0) all.push_back(d);
  }
  size_t at = 0;
  while (at < all.size() && all[at] < size) ++at;
  size_t first = at > 4 ? at - 4 : 0;
  std::string text;
  for (size_t i = first; i < all.size() && i < first + 8; ++i) text += Cat(text.empty() ? "" : ", ", all[i]);
  return text;
}

}  // namespace

Result<LaneRange> LanesOfRank(uint32_t lanes, uint64_t rank, uint64_t size, bool uneven) {
  if (size == 0 || rank >= size) {
    return Status(Code::kInvalidArgument, Cat("there is no data-parallel rank ", rank, " of ", size, ": ranks count from 0"));
  }
  if (size > lanes) {
    return Status(Code::kInvalidArgument,
                  Cat(size, " data-parallel ranks are more than the stream's ", lanes,
                      " lanes: at least one lane for each is needed. Sizes that fit: ", Divisors(lanes, size)));
  }
  if (lanes % size != 0 && !uneven) {
    return Status(Code::kInvalidArgument, Cat("the stream's ", lanes, " lanes cannot be shared evenly by ", size,
                                              " data-parallel ranks. Sizes that fit: ", Divisors(lanes, size),
                                              "; or uneven=True, where some ranks get one lane more than others"));
  }
  return LaneRange{static_cast<uint32_t>(rank * lanes / size), static_cast<uint32_t>((rank + 1) * lanes / size)};
}

}  // namespace headrace
