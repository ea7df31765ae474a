// What commits cost, as this process' metrics have it.
#pragma once

#include "base/metrics.h"

namespace headrace {

struct CommitMetrics {
  Histogram& duration = Metrics::Default().GetHistogram("headrace_commit_duration_seconds",
                                                        "From asking for a change of a stream until it is committed.");
  Counter& conflicts = Metrics::Default().GetCounter("headrace_commit_conflicts_total",
                                                     "Attempts to commit that another process was quicker with.");
  Counter& commits = Metrics::Default().GetCounter("headrace_commits_total", "Manifests that this process has written.");

  static CommitMetrics& OfProcess() {
    static CommitMetrics metrics;
    return metrics;
  }
};

}  // namespace headrace
