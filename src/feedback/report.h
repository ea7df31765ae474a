// What a rank says of a step, and the object that holds what it said between two flushes (docs/format/feedback.md).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headrace/bytes.h"
#include "headrace/clock.h"
#include "headrace/result.h"

namespace headrace {

struct SourceLoss {
  double sum = 0;
  double count = 0;
  friend bool operator==(const SourceLoss&, const SourceLoss&) = default;
};

// The part of a step that a rank trains on: some lanes, and of each of their sequences the part of its context-parallel rank.
struct FeedbackShare {
  uint32_t first_lane = 0, end_lane = 0;
  uint32_t cp_rank = 0, cp_size = 1;

  bool Overlaps(const FeedbackShare& other) const;
  friend bool operator==(const FeedbackShare&, const FeedbackShare&) = default;
};

// A rank's place: [rank, size] by the name of the axis.
using MeshCoordinates = std::map<std::string, std::pair<uint32_t, uint32_t>>;

struct Report {
  uint64_t step = 0;
  double time = 0;  // wall time, in seconds
  FeedbackShare share;
  MeshCoordinates mesh;
  std::optional<uint32_t> mixture;
  std::vector<std::pair<std::string, SourceLoss>> loss;
  std::vector<std::pair<std::string, double>> metrics;

  // About what it takes in memory and in the store.
  size_t bytes() const;
};

// One loader, from its first report on.
struct FeedbackSession {
  uint64_t manifest = 0;
  double started = 0;
  uint64_t nonce = 0;
  std::string reader;  // train, eval
};

struct FeedbackKey {
  // Of one object: the last step is less than this after the first, and no multiple of this lies between them.
  static constexpr uint64_t kSpan = 1024;

  uint64_t first_step = 0, last_step = 0;
  uint64_t nonce = 0;  // the session's
  uint64_t number = 0;

  std::string Key() const;
  static std::optional<FeedbackKey> FromKey(std::string_view key);
};

// The beginning of the keys of objects whose first step is `step`.
std::string FeedbackPrefix(uint64_t step);

struct FeedbackObject {
  FeedbackSession session;
  uint64_t number = 0;
  std::vector<Report> reports;
};

std::string EncodeFeedback(const FeedbackSession& session, uint64_t number, const std::vector<Report>& reports,
                           const std::string& stream);
// kCorrupt, in words that can stand behind the object's name.
Result<FeedbackObject> DecodeFeedback(std::string_view text);
// A fold is several such objects one behind another: the text of each. Of damaged text, whatever is left is the last one.
std::vector<std::string_view> SplitFold(std::string_view text);

double WallSeconds(WallTime time);

}  // namespace headrace
