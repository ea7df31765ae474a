#include "plan/bins.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>

namespace headrace {
namespace {

RC_GTEST_PROP(Bins, DocumentsAreWhereTheMethodSaysAndNeverOverlap, ()) {
  const auto count = *rc::gen::inRange<uint32_t>(1, 20);
  const auto align = *rc::gen::element<uint32_t>(1, 4, 7);
  const auto length = *rc::gen::element<uint32_t>(1, 62, 63, 64, 200, 5000, 65536, 262'142, 300'000) * align;
  const auto method = *rc::gen::element(PackMethod::kBestFit, PackMethod::kFirstFit);
  Bins bins(method, count, length, align);
  std::vector<uint32_t> used(count, 0);  // a slow and simple copy of what should happen
  uint64_t tokens = 0;
  for (int i = 0; i < 200; ++i) {
    const auto document = *rc::gen::inRange<uint32_t>(0, length + 2);
    const uint32_t size = std::max<uint32_t>(document, 1);
    const auto place = bins.Put(document);
    uint32_t least = UINT32_MAX, first = count;
    for (uint32_t bin = 0; bin < count; ++bin)
      if (length - used[bin] >= size) {
        least = std::min(least, length - used[bin]);
        if (first == count) first = bin;
      }
    RC_ASSERT(static_cast<bool>(place) == (first != count));
    if (!place) continue;
    RC_ASSERT(place.position == used[place.bin]);
    if (method == PackMethod::kBestFit)
      RC_ASSERT(length - used[place.bin] == least);
    else
      RC_ASSERT(place.bin == first);
    used[place.bin] = (used[place.bin] + size + align - 1) / align * align;
    tokens += document;
    RC_ASSERT(bins.padding() == uint64_t{count} * length - tokens);
    RC_ASSERT(bins.room(place.bin) == length - used[place.bin]);
  }
}

TEST(Bins, ConcatFillsOneAfterTheOther) {
  Bins bins(PackMethod::kConcat, 2, 10, 1);
  EXPECT_EQ(bins.OpenRoom(), 10u);
  EXPECT_EQ(bins.Put(4).bin, 0u);
  EXPECT_FALSE(bins.Put(7));
  EXPECT_EQ(bins.Put(bins.OpenRoom()).position, 4u);
  EXPECT_EQ(bins.Put(10).bin, 1u);
  EXPECT_EQ(bins.OpenRoom(), 0u);
  EXPECT_FALSE(bins.Put(1));
}

}  // namespace
}  // namespace headrace
