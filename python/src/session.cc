#include "session.h"

#include "base/random.h"
#include "base/text.h"

namespace headrace::python {

void Session::Check() const {
  if (forked()) {
    Raise(Status(
        Code::kInvalidArgument,
        Cat("this ", what_, " was opened by process ", pid_, " and is used by its child ", ::getpid(),
            ": a fork takes none of its threads along. Open one in the child, start children by the method \"spawn\", or, around "
            "a loader, use no worker processes (num_workers=0): it reads ahead by itself")));
  }
  if (!executor_) Raise(Status(Code::kCancelled, Cat("this ", what_, " is closed")));
}

Result<std::shared_ptr<StreamLog>> Session::Open(const std::string& uri, const StorageOptions& storage,
                                                 const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenStore(uri, storage));
  return StreamLog::Open({std::move(store), executor_.get(), Random::FromEntropy()}, deadline);
}

void Session::Close() {
  if (forked()) {
    static_cast<void>(executor_.release());  // its threads are the parent's
    return;
  }
  stop_.request_stop();
  executor_ = nullptr;
}

}  // namespace headrace::python
