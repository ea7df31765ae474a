// Who owns a strand, in words: the strand table has a number, and producers say by the names of their status objects what people call them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "headrace/store.h"

namespace headrace {

// "4f3a09bb2c1d7e65": an owner as status objects, `inspect` and messages write it.
std::string OwnerText(uint64_t owner);

// What people call the producers of a stream (`--owner NAME`, or host and process), by the first 8 digits of their owner: of status/producer-NAME-4f3a09bb.
using OwnerNames = std::map<std::string, std::string>;

// One listing; none if the store does not answer: this is for messages only.
OwnerNames ReadOwnerNames(ObjectStore& store, const Deadline& deadline);

// What a producer says of itself in its status object; nothing if it has none (writers that no recipe describes), or the store does not answer.
struct OwnerStatus {
  std::string name;
  bool said = false;
  bool left = false;  // it ended in an orderly way
  uint64_t counter = 0;  // counts up as long as it lives
  std::vector<uint64_t> strands;  // that it holds
};
// One listing and one get: for messages only.
OwnerStatus ReadOwnerStatus(ObjectStore& store, uint64_t owner, const Deadline& deadline);

// What people call this one; empty if nobody knows.
std::string OwnerName(uint64_t owner, const OwnerNames& names);
// "trainer-3 (4f3a09bb2c1d7e65)", or the number alone.
std::string OwnerText(uint64_t owner, const OwnerNames& names);

}  // namespace headrace
