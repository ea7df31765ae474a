#include "feedback/fold_feedback.h"

#include <algorithm>
#include <map>
#include <set>

#include "feedback/read_feedback.h"
#include "feedback/report.h"

namespace headrace {
namespace {

constexpr uint64_t kFoldBytes = 8'000'000;
// What is larger is not worth being written again.
constexpr uint64_t kInputBytes = kFoldBytes / 2;

struct Batch {
  std::vector<std::string> keys;
  uint64_t bytes = 0;
};

// What shall become one object each.
std::vector<Batch> Batches(std::vector<ListEntry> listed, uint64_t trim_step) {
  std::ranges::sort(listed, {}, &ListEntry::key);
  std::map<uint64_t, std::vector<Batch>> spans;
  for (ListEntry& entry : listed) {
    const std::optional<FeedbackKey> key = FeedbackKey::FromKey(entry.key);
    if (!key || entry.size > kInputBytes) continue;
    const uint64_t span = key->first_step / FeedbackKey::kSpan;
    if (span != key->last_step / FeedbackKey::kSpan || span >= trim_step / FeedbackKey::kSpan) continue;
    std::vector<Batch>& batches = spans[span];
    if (batches.empty() || batches.back().bytes + entry.size > kFoldBytes) batches.emplace_back();
    batches.back().keys.push_back(std::move(entry.key));
    batches.back().bytes += entry.size;
  }
  std::vector<Batch> all;
  for (auto& [span, batches] : spans) {
    for (Batch& batch : batches) {
      if (batch.keys.size() > 1) all.push_back(std::move(batch));
    }
  }
  return all;
}

Status Fold(StreamLog& log, const Batch& batch, FoldedFeedback& folded, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(const std::vector<std::optional<std::string>> texts, GetFeedback(log, batch.keys, deadline));
  std::vector<std::string> replaced;
  std::set<std::string_view> parts;  // other folds may hold the same ones
  std::string text;
  FeedbackKey key;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i]) continue;  // folded by another meanwhile
    const std::vector<std::string_view> here = SplitFold(*texts[i]);
    // What is damaged stays as it is, for whoever wants to look at it.
    if (!std::ranges::all_of(here, [](std::string_view part) { return DecodeFeedback(part).ok(); })) continue;
    for (std::string_view part : here) {
      if (parts.insert(part).second) text += part;
    }
    const FeedbackKey own = *FeedbackKey::FromKey(batch.keys[i]);
    key.first_step = replaced.empty() ? own.first_step : std::min(key.first_step, own.first_step);
    key.last_step = std::max(key.last_step, own.last_step);
    replaced.push_back(batch.keys[i]);
  }
  if (replaced.size() < 2) return {};
  // Never a name that could be one of those that go.
  key.nonce = log.NewNonce();
  HR_ASSIGN_OR_RETURN(const PutOutcome outcome, log.store().PutIfAbsent(key.Key(), Body(std::move(text)), deadline));
  if (outcome.kind != PutOutcome::kCreated)
    return {};  // whether it is there is in doubt: all others stay, and the next collection sees
  HR_RETURN_IF_ERROR(log.store().Delete(replaced, deadline));
  folded.objects += replaced.size();
  ++folded.folds;
  return {};
}

}  // namespace

Result<FoldedFeedback> FoldFeedback(StreamLog& log, uint64_t trim_step, bool dry_run, const Deadline& deadline) {
  FoldedFeedback folded;
  if (trim_step < FeedbackKey::kSpan) return folded;
  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> listed, ListAll(log.store(), "feedback/", deadline));
  for (const Batch& batch : Batches(std::move(listed), trim_step)) {
    if (dry_run) {
      folded.objects += batch.keys.size();
      ++folded.folds;
    } else {
      HR_RETURN_IF_ERROR(Fold(log, batch, folded, deadline));
    }
  }
  return folded;
}

}  // namespace headrace
