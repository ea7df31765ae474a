// Memory for what is decoded from files: blocks of some hundred kilobytes that come and go with every window.
//
// What is given back to the system has to be cleared by it when it returns, which took a quarter of a producer's time. Blocks are kept here instead, the
// last used first, up to a limit over the whole process; smaller and larger ones are left to Arrow's own pool.
//
// Thread-safe. Lives as long as the process, because arrays do not say when they are gone.
#pragma once

#include <arrow/memory_pool.h>

#include <cstdint>

namespace headrace {

arrow::MemoryPool* BlockPool();
// How much of it may lie idle. The largest of those who ask counts.
void KeepIdleBlocks(uint64_t bytes);
// For tests.
uint64_t IdleBlockBytes();

}  // namespace headrace
