// What every store refuses before it does anything, in the same words.
#pragma once

#include "headrace/store.h"

namespace headrace {

// A range of no bytes cannot be asked for.
Status CheckGet(const ObjectStore& store, const std::string& key, const GetOptions& options);

// The answer of `count` bytes is longer than the memory that the caller gave for it.
Status CheckFits(const ObjectStore& store, const std::string& key, uint64_t count, const GetOptions& options);

// A page of no entries would never come to an end.
Status CheckList(const ObjectStore& store, const ListOptions& options);

}  // namespace headrace
