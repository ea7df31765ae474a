#include "stream/strand_watch.h"

#include <algorithm>

#include "stream/rules.h"

namespace headrace {
namespace {

constexpr int kMostDoublings = 6;

}  // namespace

std::vector<uint16_t> StrandWatch::Offered(const Manifest& manifest, uint64_t owner, Instant now) {
  std::vector<uint16_t> offered;
  bool first_look = seen_.empty();
  seen_.resize(manifest.strands.size());
  for (size_t v = 0; v < manifest.strands.size(); ++v) {
    const Strand& row = manifest.strands[v];
    Seen& seen = seen_[v];
    if (first_look || seen.epoch != row.epoch || seen.seq != row.next_seq) seen = {row.epoch, row.next_seq, now};
    if (row.ended || row.owner == owner) continue;
    int doublings = rules_.Holds(StreamRule::kDoubleTimeout) ? std::clamp(row.idle_bumps - 1, 0, kMostDoublings) : 0;
    bool free = row.epoch == 0;
    if (free || now - seen.since >= timeout_ * (int64_t{1} << doublings)) offered.push_back(static_cast<uint16_t>(v));
  }
  return offered;
}

}  // namespace headrace
