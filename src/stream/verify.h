// Reads everything that the newest manifest refers to and checks every checksum, every reference and the chain of every strand.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "stream/stream_reader.h"

namespace headrace {

struct Damage {
  std::string object;  // its URI
  std::string what;
};

struct VerifyReport {
  std::vector<Damage> damaged;
  std::vector<Damage> unchecked;  // what nobody can say of other objects, which may well be whole, because of the damage
  uint64_t chunks = 0, segments = 0, recipe_objects = 0, steps = 0, bytes = 0;
};

// Goes on after damage, so that all of it is named; fails only if the store cannot be read. `progress` is told the steps done and in all.
Result<VerifyReport> Verify(StreamLog& log, const Deadline& deadline,
                            const std::function<void(uint64_t done, uint64_t of)>& progress = nullptr);

}  // namespace headrace
