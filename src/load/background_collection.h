// Gives back what no pin needs, again and again, beside a training job that asked for it; and folds what was reported of such steps.
#pragma once

#include <memory>
#include <mutex>
#include <stop_token>

#include "base/executor.h"
#include "stream/collector.h"

namespace headrace {

class BackgroundCollection {
 public:
  static std::shared_ptr<BackgroundCollection> Start(std::shared_ptr<StreamLog> log, Executor& executor, Duration every,
                                                     Duration grace);
  // Ends it soon, wherever it is: every step of a collection is safe alone.
  void Stop() { stop_.request_stop(); }

 private:
  std::stop_source stop_;
};

}  // namespace headrace
