// Which strands somebody else should take: those that nobody ever took, and those whose owner seems to be dead.
//
// Time is on the observer's own clock: a strand is offered when its row has stood still for the timeout since this observer first saw it
// like that. The timeout doubles with every bump that brought no chunk, so that a strand whose blocks take longer than the timeout
// is not taken from each owner in turn for ever; 64 times the timeout is the most. A wrong guess is never unsafe: the former owner is fenced.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rules.h"
#include "headrace/clock.h"
#include "stream/manifest.h"

namespace headrace {

class StrandWatch {
 public:
  StrandWatch(Duration timeout, Rules rules = {}) : timeout_(timeout), rules_(rules) {}

  // The strands that are offered now, by the newest manifest; none of `owner`'s own.
  std::vector<uint16_t> Offered(const Manifest& manifest, uint64_t owner, Instant now);

 private:
  struct Seen {
    uint32_t epoch = 0;
    uint64_t seq = 0;
    Instant since{};
  };
  Duration timeout_;
  Rules rules_;
  std::vector<Seen> seen_;
};

}  // namespace headrace
