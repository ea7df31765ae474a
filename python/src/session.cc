#include "session.h"

#include "base/random.h"
#include "base/text.h"

namespace headrace::python {

void Session::Check() const {
  if (forked()) {
    Raise(Status(
        Code::kInvalidArgument,
        Cat("this ", what_, " was opened by process ", pid_, " and is used by its child ", ::getpid(),
            ": a fork takes none of its threads along. Use it in the process that opened it. Around a loader, use no worker "
            "processes (num_workers=0): it reads ahead by itself. Other children open one of their own")));
  }
  if (closed_) Raise(Status(Code::kCancelled, Cat("this ", what_, " is closed")));
}

Result<std::shared_ptr<StreamLog>> Session::Open(const std::string& uri, const StorageOptions& storage, const Deadline& deadline,
                                                 std::optional<SlowOptions> slow) {
  HR_ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenStore(uri, storage));
  if (slow) store = std::make_shared<SlowStore>(std::move(store), *slow, RealClock(), Random::FromEntropy());
  return StreamLog::Open({std::move(store), executor_.get(), Random::FromEntropy()}, deadline);
}

void Session::Close() {
  if (forked()) {
    static_cast<void>(executor_.release());  // its threads are the parent's
    return;
  }
  closed_ = true;
  stop_.request_stop();
  std::lock_guard lock(mutex_);
  executor_ = nullptr;
}

void Session::Spawn(std::function<void()> work) {
  {
    nb::gil_scoped_release released;  // whoever ends the threads does not have it either
    std::lock_guard lock(mutex_);
    if (executor_) {
      executor_->Spawn(std::move(work));
      return;
    }
  }
  Check();
}

}  // namespace headrace::python
