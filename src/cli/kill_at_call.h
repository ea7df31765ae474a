// Ends the process at one of its store calls, as SIGKILL from outside would: for tests that want every such moment, not only those that
// chance brings.
//
//   HEADRACE_TEST_KILL_AT=7    before the 7th call: nothing of it happens
//   HEADRACE_TEST_KILL_AT=7+   after it: it has happened, and nobody hears of it
//
// Calls are those of the program, counted from 1 over all stores that it opened; a retry within a call does not count.
#pragma once

#include <memory>

#include "headrace/store.h"

namespace headrace::cli {

// The store itself if the variable is not set.
Result<std::shared_ptr<ObjectStore>> KillAtCallIfAsked(std::shared_ptr<ObjectStore> store);

}  // namespace headrace::cli
