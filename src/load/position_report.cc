#include "load/position_report.h"

#include <nlohmann/json.hpp>

#include "base/log.h"

namespace headrace {
namespace {

constexpr Duration kAttempt = std::chrono::seconds(10);
constexpr Duration kAfterFailure = std::chrono::seconds(30);
constexpr Duration kRemoval = std::chrono::milliseconds(500);

}  // namespace

std::shared_ptr<PositionReport> PositionReport::Start(std::shared_ptr<StreamLog> log, Executor& executor, Options options,
                                                      std::function<uint64_t()> next_step) {
  auto report = std::make_shared<PositionReport>();
  executor.Spawn([report, log = std::move(log), options = std::move(options), next_step = std::move(next_step)] {
    std::stop_token stop = report->stop_.get_token();
    const std::string key = Key(options.id);
    bool written = false;
    bool said = false;
    uint64_t counter = 0;
    uint64_t last_step = next_step();
    Instant last = log->clock().Now();
    double rate = 0;
    while (!stop.stop_requested()) {
      const uint64_t step = next_step();
      const Instant now = log->clock().Now();
      const double seconds = std::chrono::duration<double>(now - last).count();
      if (seconds > 0) {
        const double current = step > last_step ? static_cast<double>(step - last_step) / seconds : 0;
        rate = counter < 2 ? current : 0.7 * rate + 0.3 * current;
      }
      last_step = step;
      last = now;
      nlohmann::json words = {{"role", "loader"},  {"id", options.id},         {"reader", options.reader},
                              {"next_step", step}, {"steps_per_second", rate}, {"counter", ++counter}};
      Status status = log->store().Put(key, Body(words.dump() + "\n"), Deadline::After(log->clock(), kAttempt, stop));
      written = written || status.ok();
      if (!status.ok() && !said && !stop.stop_requested()) {
        said = true;
        HR_LOG(kInfo, "producers are not told where this job is", {"stream", log->store().Describe()},
               {"reason", status.message()});
      }
      log->clock().SleepFor(status.ok() ? options.every : kAfterFailure, stop);
    }
    if (written) static_cast<void>(log->store().DeleteOne(key, Deadline::After(log->clock(), kRemoval)));
  });
  return report;
}

}  // namespace headrace
