#include "load/late.h"

#include "base/text.h"

namespace headrace {
namespace {

std::string Owner(const Strand& strand, const OwnerNames& names) {
  if (strand.epoch == 0) return "nobody has ever taken it";
  return Cat("owner ", OwnerText(strand.owner, names), ", epoch ", strand.epoch, ", ", strand.next_seq, " chunk",
             strand.next_seq == 1 ? "" : "s", " so far");
}

}  // namespace

std::string WhoIsLate(const Manifest& manifest, const StreamInfo& info, const OwnerNames& names) {
  if (info.order == Order::kArrival) {
    size_t taken = 0;
    size_t ended = 0;
    for (const Strand& strand : manifest.strands) {
      taken += strand.epoch > 0 ? 1 : 0;
      ended += strand.ended ? 1 : 0;
    }
    if (taken == 0) return "nobody has begun to write";
    return Cat("nothing new came from its writers (", taken - std::min(taken, ended), " of ", info.strands,
               " strands are in use)");
  }
  std::string text = Cat("block ", manifest.frontier_block, " is missing");
  for (size_t v = 0; v < manifest.strands.size(); ++v) {
    const Strand& strand = manifest.strands[v];
    if (strand.ended || strand.next_block != manifest.frontier_block) continue;
    text += Cat("; strand ", v, " makes it (", Owner(strand, names), ")");
    break;
  }
  if (manifest.AllEnded()) text = "all strands have ended, and nobody has sealed the stream yet";
  if (!manifest.parked.empty()) {
    text += Cat(", and ", manifest.parked.size(), " block", manifest.parked.size() == 1 ? "" : "s", " of others wait",
                manifest.parked.size() == 1 ? "s" : "", " for it");
  }
  return text;
}

}  // namespace headrace
