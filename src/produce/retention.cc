#include "produce/retention.h"

#include <algorithm>

#include "feedback/fold_feedback.h"

namespace headrace {

std::optional<uint64_t> Retention::LowestPin(const Manifest& manifest) {
  std::optional<uint64_t> lowest;
  for (const Pin& pin : manifest.pins) {
    if (pin.name != kRetainPin) lowest = std::min(lowest.value_or(pin.step), pin.step);
  }
  return lowest;
}

Result<Collected> Retention::Act(std::optional<uint64_t> reader, Duration grace, const Deadline& deadline) {
  if (recipe_.retain == "all") return Collected{};
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->Refresh(deadline));
  const Manifest& manifest = state->manifest;
  const Pin* held = manifest.FindPin(kRetainPin);
  if (recipe_.retain != "steps") {
    // The recipe said something else before.
    if (held != nullptr) {
      Status unpinned = log_->Commit(UnpinEdit{kRetainPin}, deadline).status();
      if (!unpinned.ok() && unpinned.code() != Code::kNotFound) return unpinned;
    }
  } else {
    // Without a reader nobody has read anything further: what is held stays held.
    const uint64_t read = std::min(reader.value_or(0), manifest.frontier_step);
    const uint64_t keep = std::max(manifest.trim_step, read - std::min(read, recipe_.retain_steps));
    if (held == nullptr || keep > held->step) {
      PinEdit edit;
      edit.pin.name = kRetainPin;
      edit.pin.step = keep;
      HR_RETURN_IF_ERROR(log_->Commit(edit, deadline).status());
    }
  }
  CollectOptions options;
  options.grace = grace;
  HR_ASSIGN_OR_RETURN(Collected collected, collector_.Collect(options, deadline));
  HR_RETURN_IF_ERROR(FoldFeedback(*log_, collected.trim_step, /*dry_run=*/false, deadline).status());
  return collected;
}

}  // namespace headrace
