// What all ranks, and all restarts of a job, said of some steps, brought together: each share counts once (docs/format/feedback.md).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "feedback/report.h"
#include "stream/stream_log.h"

namespace headrace {

struct StepFeedback {
  uint64_t step = 0;
  std::string reader;
  std::optional<uint32_t> mixture;
  double time = 0;  // of the latest report
  uint64_t lanes = 0;  // that somebody reported
  std::map<std::string, SourceLoss> loss;
  std::map<std::string, double> metrics;

  // Of all sources together.
  SourceLoss total() const;
};

struct Feedback {
  std::vector<StepFeedback> steps;  // ascending; a step may be there for each kind of reader
  uint64_t objects = 0;
  std::vector<std::pair<std::string, std::string>> damaged;  // objects, and what is wrong with them; the rest counts all the same
};

// Steps in [first, end). Costs two lists and one request for each object that has some of them. kUnavailable if objects are folded faster than they can be
// read.
Result<Feedback> ReadFeedback(StreamLog& log, uint64_t first, uint64_t end, const Deadline& deadline);

// The last `count` steps that were reported, looked for from the end of the stream backwards.
Result<Feedback> ReadLastFeedback(StreamLog& log, size_t count, const Deadline& deadline);

// The text of these objects; none of those that are gone.
Result<std::vector<std::optional<std::string>>> GetFeedback(StreamLog& log, const std::vector<std::string>& keys,
                                                            const Deadline& deadline);

// What counts of reports that are given with their sessions: the rule alone.
std::vector<StepFeedback> MergeFeedback(const std::vector<FeedbackObject>& objects, uint64_t first, uint64_t end);

}  // namespace headrace
