#include "base/executor.h"

namespace headrace {

TaskGroup::TaskGroup(Executor& executor) : executor_(executor), state_(std::make_shared<State>()) {
  state_->signal = executor.MakeSignal();
}

void TaskGroup::Spawn(std::function<void()> work) {
  {
    std::lock_guard lock(state_->mutex);
    ++state_->running;
  }
  // The state is shared, because the last piece may still be notifying when `Wait` returns.
  executor_.Spawn([state = state_, work = std::move(work)] {
    work();
    std::lock_guard lock(state->mutex);
    if (--state->running == 0) state->signal->NotifyAll();
  });
}

void TaskGroup::Wait() {
  std::unique_lock lock(state_->mutex);
  while (state_->running > 0) state_->signal->Wait(lock);
}

}  // namespace headrace
