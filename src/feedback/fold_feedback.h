// Makes few objects of the many that ranks wrote about steps that are trimmed (docs/design/0008-feedback.md).
//
// Nothing that was reported is lost: a fold holds the objects that it replaces, and these go when it is there. Any number of processes may fold at once and die at any
// moment; readers find what they look for before, after and in between.
#pragma once

#include <cstdint>

#include "stream/stream_log.h"

namespace headrace {

struct FoldedFeedback {
  uint64_t objects = 0;  // that were replaced
  uint64_t folds = 0;  // by so many
};

// Of the steps before `trim_step`, in whole spans of 1024. A dry run says what would be folded, from the listing alone.
Result<FoldedFeedback> FoldFeedback(StreamLog& log, uint64_t trim_step, bool dry_run, const Deadline& deadline);

}  // namespace headrace
