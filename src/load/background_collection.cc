#include "load/background_collection.h"

#include "base/log.h"
#include "feedback/fold_feedback.h"

namespace headrace {

std::shared_ptr<BackgroundCollection> BackgroundCollection::Start(std::shared_ptr<StreamLog> log, Executor& executor,
                                                                  Duration every, Duration grace) {
  auto collection = std::make_shared<BackgroundCollection>();
  executor.Spawn([collection, log = std::move(log), every, grace] {
    std::stop_token stop = collection->stop_.get_token();
    Collector collector(log);
    while (!stop.stop_requested()) {
      CollectOptions options;
      options.grace = grace;
      Result<Collected> collected = collector.Collect(options, Deadline::OnlyStop(stop));
      Status done = collected.status();
      if (done.ok()) done = FoldFeedback(*log, collected->trim_step, /*dry_run=*/false, Deadline::OnlyStop(stop)).status();
      if (!done.ok() && !stop.stop_requested()) {
        HR_LOG(kWarning, "old steps could not be given back; it is tried again", {"stream", log->store().Describe()},
               {"reason", done.message()});
      }
      log->clock().SleepFor(every, stop);
    }
  });
  return collection;
}

}  // namespace headrace
