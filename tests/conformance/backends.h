// The stores that the suite runs against.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "headrace/store.h"

namespace headrace {

// A store with nothing in it, and what has to be done when it is not needed any more.
struct OpenedBackend {
  std::shared_ptr<ObjectStore> store;
  std::function<void()> remove = [] {};
};

struct Backend {
  std::string name;  // letters and digits: part of the names of the cases
  std::function<OpenedBackend()> open;
  // A create may be refused while another's delete empties its folder. versitygw on a POSIX disk removes empty folders, and answers
  // "409 ExistingObjectIsDirectory" to whoever was about to use one. It costs a retry and breaks no promise; but no case can be built on it.
  bool loses_empty_folders = false;
};

std::ostream& operator<<(std::ostream& out, const Backend& backend);

// Memory, folder, and the S3 servers of the environment. Says on stderr, once, which servers are left out.
const std::vector<Backend>& Backends();

}  // namespace headrace
