// What a producer of a recipe needs of memory, before it begins: so that too little is refused with a number, and what is given is kept to.
//
// Windows of samples do not shrink: which rows are shuffled together is part of the stream. A strand has one of each source at a time, so that is what a
// producer asks for, beside itself, its Python workers and one block in the making. These are estimates: where windows turn out larger, those that were not
// used for longest are given up and read again. (With half of them a producer does little else: it was twenty times slower.)
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "headrace/result.h"
#include "recipe/recipe.h"
#include "source/inventory.h"

namespace headrace {

struct MemoryNeed {
  uint64_t process = 0;  // the program and its libraries
  uint64_t workers = 0;  // processes for Python
  uint64_t block = 0;  // one in the making, with the samples of a step
  uint64_t carried = 0;  // samples that the strands' last steps had no room for
  uint64_t windows = 0;  // of all sources and strands at once
  uint64_t row_group = 0;  // the largest piece that is decoded at once
  size_t sources = 0;
  uint32_t strands = 0;

  uint64_t least() const;
  // With the row groups that they come from, and what is lost around them.
  uint64_t AllWindows() const;

  // How `memory` is divided: blocks in the making, `most` of them or fewer; the rest is for windows.
  uint64_t ForBlocks(uint64_t memory, uint32_t most) const;
  uint64_t ForWindows(uint64_t memory, uint32_t most) const;

  // kInvalidArgument, with what is needed and for what, if `memory` is less than `least`.
  Status Check(uint64_t memory, const std::string& recipe) const;
};

// `strands`: that the producer takes at the most.
MemoryNeed NeedOf(const Recipe& recipe, std::span<const Inventory* const> inventories, uint32_t strands);

}  // namespace headrace
