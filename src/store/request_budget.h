// How many extra requests (retries, hedges) a store may get for its ordinary ones.
//
// Every ordinary request earns a share of an extra one, time earns a trickle, and a burst can be saved up. So a short
// trouble is ridden out, and a long one is not made worse: when everything fails, a store that was asked 1,000 times a
// second is asked 1,200 times, not 10,000.
//
// Thread-safe.
#pragma once

#include <algorithm>
#include <mutex>

#include "headrace/clock.h"

namespace headrace {

class RequestBudget {
 public:
  struct Options {
    double share;           // of an extra request that an ordinary one earns
    double per_second = 0;  // extra requests that time earns, so that a quiet program is not left without
    double burst;           // the most that can be saved up, and what there is at the start
  };

  RequestBudget(const Options& options, Clock& clock)
      : options_(options), clock_(clock), saved_(options.burst), at_(clock.Now()) {}

  // An ordinary request is made.
  void Earn() {
    std::lock_guard lock(mutex_);
    saved_ = std::min(options_.burst, saved_ + options_.share);
  }

  // True if an extra one may be made now; it is paid for then.
  bool Spend() {
    std::lock_guard lock(mutex_);
    Instant now = clock_.Now();
    saved_ = std::min(options_.burst, saved_ + options_.per_second * std::chrono::duration<double>(now - at_).count());
    at_ = now;
    if (saved_ < 1) return false;
    saved_ -= 1;
    return true;
  }

 private:
  const Options options_;
  Clock& clock_;
  std::mutex mutex_;
  double saved_;
  Instant at_;
};

}  // namespace headrace
