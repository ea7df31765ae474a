#include "headrace/clock.h"

#include <condition_variable>
#include <mutex>

namespace headrace {
namespace {

class MachineClock final : public Clock {
 public:
  Instant Now() override { return std::chrono::steady_clock::now(); }
  WallTime WallNow() override { return std::chrono::system_clock::now(); }
  void SleepUntil(Instant until, std::stop_token stop) override {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    // steady_clock::max() overflows inside wait_until; a century is long enough.
    wake.wait_until(lock, std::move(stop), std::min(until, Now() + std::chrono::hours(24 * 36500)), [] { return false; });
  }
};

}  // namespace

Clock& RealClock() {
  static MachineClock clock;
  return clock;
}

}  // namespace headrace
