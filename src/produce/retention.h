// What a recipe's `retain` says about steps that were read: acted upon by one of the stream's producers, now and then.
//
// pins: what no pin needs goes. {steps: N}: the same, but N steps before the slowest training reader stay as well, held by a pin named
// "retain". all: nothing goes. Steps go below the lowest pin only, and not at all without one (docs/design/0005-deleting.md).
//
// Not thread-safe. Never needed for safety: it may be left out, run twice, or die at any moment.
#pragma once

#include <memory>
#include <optional>

#include "recipe/recipe.h"
#include "stream/collector.h"

namespace headrace {

inline constexpr const char* kRetainPin = "retain";

class Retention {
 public:
  Retention(const Recipe& recipe, std::shared_ptr<StreamLog> log) : recipe_(recipe), log_(log), collector_(std::move(log)) {}

  // `reader`: the next step of the slowest training reader, if there is any.
  Result<Collected> Act(std::optional<uint64_t> reader, Duration grace, const Deadline& deadline);

  // The lowest pin of a person or a training job.
  static std::optional<uint64_t> LowestPin(const Manifest& manifest);

 private:
  const Recipe& recipe_;
  std::shared_ptr<StreamLog> log_;
  Collector collector_;
};

}  // namespace headrace
