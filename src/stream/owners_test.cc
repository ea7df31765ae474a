#include "stream/owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "store/memory_store.h"

namespace headrace {
namespace {

TEST(Owners, HaveTheNamesThatTheirStatusObjectsSay) {
  MemoryStore store("m", RealClock());
  const Deadline deadline;
  const uint64_t known = 0x1122334455667788, unknown = 5;
  for (const std::string& id :
       {Cat(PercentEncode("mill 3/a-b"), "-", OwnerText(known).substr(0, 8)), std::string("x"), std::string("-")})
    ASSERT_TRUE(store.Put(Cat("status/producer-", id), Body(std::string("{}")), deadline).ok());
  const OwnerNames names = ReadOwnerNames(store, deadline);
  EXPECT_EQ(OwnerName(known, names), "mill 3/a-b");
  EXPECT_EQ(OwnerText(known, names), Cat("mill 3/a-b (", OwnerText(known), ")"));
  EXPECT_EQ(OwnerName(unknown, names), "");
  EXPECT_EQ(OwnerText(unknown, names), OwnerText(unknown));
}

}  // namespace
}  // namespace headrace
