#include "feedback/read_feedback.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <tuple>

#include "base/executor.h"
#include "base/text.h"

namespace headrace {
namespace {

constexpr size_t kSideBySide = 16;
constexpr int kRounds = 5;

// A report, and its place among all others: later ones are greater.
struct Placed {
  std::tuple<uint64_t, double, uint64_t, uint64_t, size_t> order;
  const Report* report;
};

// What counts of one name: the latest report of each share.
template <typename Value>
using Counting = std::vector<std::pair<const FeedbackShare*, Value>>;

template <typename Value>
void TakeUnlessReplaced(Counting<Value>& counting, const FeedbackShare& share, const Value& value) {
  for (const auto& [later, _] : counting) {
    if (later->Overlaps(share)) return;
  }
  counting.emplace_back(&share, value);
}

uint64_t LanesOf(std::vector<std::pair<uint32_t, uint32_t>> ranges) {
  std::ranges::sort(ranges);
  uint64_t lanes = 0;
  uint32_t end = 0;
  for (const auto& [first, last] : ranges) {
    if (last > end) lanes += last - std::max(first, end);
    end = std::max(end, last);
  }
  return lanes;
}

StepFeedback Merge(uint64_t step, const std::string& reader, std::vector<Placed> reports) {
  std::ranges::sort(reports, [](const Placed& a, const Placed& b) { return a.order > b.order; });
  StepFeedback merged{.step = step, .reader = reader, .mixture = {}, .loss = {}, .metrics = {}};
  std::map<std::string, Counting<SourceLoss>> losses;
  std::map<std::string, Counting<double>> metrics;
  std::vector<std::pair<uint32_t, uint32_t>> lanes;
  for (const Placed& placed : reports) {
    const Report& report = *placed.report;
    for (const auto& [source, loss] : report.loss) TakeUnlessReplaced(losses[source], report.share, loss);
    for (const auto& [name, value] : report.metrics) TakeUnlessReplaced(metrics[name], report.share, value);
    if (!merged.mixture) merged.mixture = report.mixture;
    merged.time = std::max(merged.time, report.time);
    lanes.emplace_back(report.share.first_lane, report.share.end_lane);
  }
  merged.lanes = LanesOf(std::move(lanes));
  for (const auto& [source, counting] : losses) {
    SourceLoss& loss = merged.loss[source];
    for (const auto& [_, value] : counting) {
      loss.sum += value.sum;
      loss.count += value.count;
    }
  }
  for (const auto& [name, counting] : metrics) {
    double sum = 0;
    for (const auto& [_, value] : counting) sum += value;
    merged.metrics[name] = sum / static_cast<double>(counting.size());
  }
  return merged;
}

// The keys whose first step is in [first, end).
Result<std::vector<std::string>> ListBetween(ObjectStore& store, uint64_t first, uint64_t end, const Deadline& deadline) {
  ListOptions options;
  const std::string low = FeedbackPrefix(first);
  const std::string high = FeedbackPrefix(end);
  options.prefix = low.substr(0, static_cast<size_t>(std::ranges::mismatch(low, high).in1 - low.begin()));
  options.start_after = low;  // keys go on after the number
  std::vector<std::string> keys;
  while (true) {
    HR_ASSIGN_OR_RETURN(ListPage page, store.List(options, deadline));
    for (ListEntry& entry : page.entries) {
      std::optional<FeedbackKey> key = FeedbackKey::FromKey(entry.key);
      if (key && key->first_step >= first && key->first_step < end) keys.push_back(std::move(entry.key));
    }
    if (page.next.empty()) break;
    options.page = page.next;
  }
  std::ranges::sort(keys);
  return keys;
}

struct Fetched {
  std::vector<FeedbackObject> objects;
  std::vector<std::pair<std::string, std::string>> damaged;
  uint64_t whole = 0;  // objects without damage
  bool gone = false;  // some of them: folded meanwhile, or deleted by somebody
};

Status Decode(const std::string& text, const std::string& name, Fetched& fetched) {
  for (const std::string_view part : SplitFold(text)) {
    Result<FeedbackObject> object = DecodeFeedback(part);
    if (object.ok()) {
      fetched.objects.push_back(*std::move(object));
    } else if (object.code() == Code::kCorrupt || object.code() == Code::kUnsupported) {
      fetched.damaged.emplace_back(name, object.status().message());
    } else {
      return object.status();
    }
  }
  return {};
}

Status Fetch(StreamLog& log, const std::vector<std::string>& keys, Fetched& fetched, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(const std::vector<std::optional<std::string>> texts, GetFeedback(log, keys, deadline));
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!texts[i]) {
      fetched.gone = true;
    } else {
      const size_t damaged = fetched.damaged.size();
      HR_RETURN_IF_ERROR(Decode(*texts[i], log.store().Describe(keys[i]), fetched));
      fetched.whole += fetched.damaged.size() == damaged ? 1 : 0;
    }
  }
  return {};
}

}  // namespace

Result<std::vector<std::optional<std::string>>> GetFeedback(StreamLog& log, const std::vector<std::string>& keys,
                                                            const Deadline& deadline) {
  std::vector<Result<std::optional<Object>>> results(keys.size(), Status(Code::kInternal, "not read"));
  {
    std::atomic<size_t> next = 0;
    TaskGroup readers(*log.context().executor);
    for (size_t i = 0; i < std::min(kSideBySide, keys.size()); ++i) {
      readers.Spawn([&] {
        for (size_t at = next++; at < keys.size(); at = next++) results[at] = log.store().Get(keys[at], deadline);
      });
    }
    readers.Wait();
  }
  std::vector<std::optional<std::string>> texts;
  for (Result<std::optional<Object>>& result : results) {
    HR_RETURN_IF_ERROR(result.status());
    texts.push_back(*result ? std::optional((*result)->bytes.ToString()) : std::nullopt);
  }
  return texts;
}

SourceLoss StepFeedback::total() const {
  SourceLoss total;
  for (const auto& [_, one] : loss) {
    total.sum += one.sum;
    total.count += one.count;
  }
  return total;
}

std::vector<StepFeedback> MergeFeedback(const std::vector<FeedbackObject>& objects, uint64_t first, uint64_t end) {
  std::map<std::pair<uint64_t, std::string>, std::vector<Placed>> by_step;
  for (const FeedbackObject& object : objects) {
    const FeedbackSession& session = object.session;
    for (size_t i = 0; i < object.reports.size(); ++i) {
      const Report& report = object.reports[i];
      if (report.step < first || report.step >= end) continue;
      by_step[{report.step, session.reader}].push_back(
          {{session.manifest, session.started, session.nonce, object.number, i}, &report});
    }
  }
  std::vector<StepFeedback> merged;
  for (auto& [which, reports] : by_step) merged.push_back(Merge(which.first, which.second, std::move(reports)));
  return merged;
}

Result<Feedback> ReadFeedback(StreamLog& log, uint64_t first, uint64_t end, const Deadline& deadline) {
  Feedback feedback;
  if (first >= end) return feedback;
  const uint64_t from = first - std::min(first, FeedbackKey::kSpan - 1);
  Fetched fetched;
  std::set<std::string> seen;
  for (int round = 0;; ++round) {
    // What a listing shows may be folded before it is read, or while it is listed: only when one has nothing new is everything read.
    HR_ASSIGN_OR_RETURN(std::vector<std::string> keys, ListBetween(log.store(), from, end, deadline));
    std::erase_if(
        keys, [&](const std::string& key) { return FeedbackKey::FromKey(key)->last_step < first || !seen.insert(key).second; });
    if (keys.empty()) break;
    if (round == kRounds) {
      if (!fetched.gone) break;  // somebody just goes on reporting
      return Status(Code::kUnavailable, Cat("the reports of steps ", first, " to ", end - 1, " of ", log.store().Describe(),
                                            " are being folded by somebody who collects, again and again; ask again"));
    }
    fetched.gone = false;
    HR_RETURN_IF_ERROR(Fetch(log, keys, fetched, deadline));
  }
  feedback.objects = fetched.whole;
  feedback.damaged = std::move(fetched.damaged);
  feedback.steps = MergeFeedback(fetched.objects, first, end);
  return feedback;
}

Result<Feedback> ReadLastFeedback(StreamLog& log, size_t count, const Deadline& deadline) {
  // Nobody reports what is not there yet.
  const uint64_t frontier = log.known()->manifest.frontier_step;
  std::optional<uint64_t> last;
  for (uint64_t back = FeedbackKey::kSpan; !last; back *= 16) {
    const uint64_t from = frontier - std::min(frontier, back);
    HR_ASSIGN_OR_RETURN(std::vector<std::string> keys, ListBetween(log.store(), from, frontier, deadline));
    for (const std::string& key : keys) last = std::max(last.value_or(0), FeedbackKey::FromKey(key)->last_step);
    if (from == 0) break;
  }
  if (!last) return Feedback{};
  // Some report every step, some one in a hundred. Where few steps are reported, there are few objects, too.
  for (uint64_t width = count;; width *= 8) {
    const uint64_t first = *last + 1 - std::min<uint64_t>(*last + 1, width);
    HR_ASSIGN_OR_RETURN(Feedback feedback, ReadFeedback(log, first, *last + 1, deadline));
    if (feedback.steps.size() < count && first > 0) continue;
    if (feedback.steps.size() > count)
      feedback.steps.erase(feedback.steps.begin(), feedback.steps.end() - static_cast<ptrdiff_t>(count));
    return feedback;
  }
}

}  // namespace headrace
