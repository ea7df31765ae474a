#include "sim/process_time.h"

namespace headrace {
namespace {

Duration SomeTime(Random& random) {
  constexpr Duration kMost[] = {std::chrono::seconds(100), std::chrono::hours(48), std::chrono::hours(24 * 400)};
  return Duration(static_cast<int64_t>(random.Uniform() * static_cast<double>(kMost[random.Below(3)].count())));
}

}  // namespace

class ProcessTime::OwnSignal final : public Signal {
 public:
  explicit OwnSignal(ProcessTime& time) : time_(time), signal_(time.simulation_.MakeSignal()) {}
  bool WaitUntil(std::unique_lock<std::mutex>& lock, Instant until) override {
    return signal_->WaitUntil(lock, time_.ToOthers(until));
  }
  void WaitInDestructor(std::unique_lock<std::mutex>& lock) override { signal_->WaitInDestructor(lock); }
  void NotifyOne() override { signal_->NotifyOne(); }
  void NotifyAll() override { signal_->NotifyAll(); }

 private:
  ProcessTime& time_;
  std::unique_ptr<Signal> signal_;
};

std::unique_ptr<Signal> ProcessTime::MakeSignal() { return std::make_unique<OwnSignal>(*this); }

void ProcessTime::Jump() {
  if (random_.Chance(0.5)) ahead_ += SomeTime(random_);
  calendar_ += random_.Chance(0.5) ? SomeTime(random_) : -SomeTime(random_);
}

}  // namespace headrace
