// The store that a command was given.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "headrace/store.h"
#include "store/open.h"
#include "store/uri.h"

namespace headrace::cli {

struct OpenedStore {
  StoreUri uri;
  std::shared_ptr<ObjectStore> store;  // as a program has it
  std::shared_ptr<ObjectStore> once;   // one attempt a call, no hedges: for whoever looks at single answers
  bool on_this_machine = false;        // a server at a loopback address
};

// Asks nobody yet.
Result<OpenedStore> OpenForCommand(const std::string& uri);

// Lists one entry: wrong credentials, a missing bucket or a dead server show at once, and not after a minute of patience that only
// a running job needs.
Status Reach(const OpenedStore& opened, std::stop_token stop);

}  // namespace headrace::cli
