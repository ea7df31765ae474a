#include "base/executor.h"

namespace headrace {

// Counts itself down when it goes, so that it does not matter whether it ran, was cut short or was never started.
class TaskGroup::Task {
 public:
  // The state is shared, because the last piece may still be notifying when `Wait` returns.
  Task(std::shared_ptr<State> state, std::function<void()> work) : state_(std::move(state)), work_(std::move(work)) {
    std::lock_guard lock(state_->mutex);
    ++state_->running;
  }
  ~Task() {
    work_ = nullptr;
    std::lock_guard lock(state_->mutex);
    if (--state_->running == 0) state_->signal->NotifyAll();
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  void Run() { work_(); }

 private:
  std::shared_ptr<State> state_;
  std::function<void()> work_;
};

TaskGroup::TaskGroup(Executor& executor) : executor_(executor), state_(std::make_shared<State>()) {
  state_->signal = executor.MakeSignal();
}

TaskGroup::~TaskGroup() {
  std::unique_lock lock(state_->mutex);
  while (state_->running > 0) state_->signal->WaitInDestructor(lock);
}

void TaskGroup::Spawn(std::function<void()> work) {
  executor_.Spawn([task = std::make_shared<Task>(state_, std::move(work))] { task->Run(); });
}

void TaskGroup::Wait() {
  std::unique_lock lock(state_->mutex);
  while (state_->running > 0) state_->signal->Wait(lock);
}

}  // namespace headrace
