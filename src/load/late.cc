#include "load/late.h"

#include <algorithm>

#include "base/size.h"
#include "base/text.h"

namespace headrace {
namespace {

// As long as producers let pass between two signs, and as much again for a slow store.
constexpr Duration kSilent = std::chrono::seconds(5);

std::string Named(uint64_t owner, const OwnerStatus& status) {
  return status.name.empty() ? OwnerText(owner) : Cat(status.name, " (", OwnerText(owner), ")");
}

bool Holds(const OwnerStatus& status, uint16_t v) { return std::ranges::find(status.strands, v) != status.strands.end(); }

std::string Maker(uint16_t v, const Strand& strand, const LateOwner& late) {
  if (strand.epoch == 0) return Cat("strand ", v, " makes it (nobody has ever taken it)");
  const OwnerStatus& status = late.status;
  const std::string name = Named(strand.owner, status);
  const std::string so_far =
      Cat("epoch ", strand.epoch, ", ", strand.next_seq, " chunk", strand.next_seq == 1 ? "" : "s", " so far");
  if (status.said && (status.left || !Holds(status, v))) {
    return Cat("strand ", v, " makes it, and nobody holds that strand any more: its last owner ", name, " has ",
               status.left ? "ended" : "let go of it", " (", so_far,
               "). Any producer goes on with it: start one with the stream's recipe, if none runs");
  }
  std::string text = Cat("strand ", v, " makes it (owner ", name, ", ", so_far, ")");
  if (late.silent >= kSilent) {
    text += Cat(", whose owner has given no sign of life for ", FormatDuration(late.silent),
                ". If it is dead, any other producer takes the strand over: start one with the stream's recipe, if none runs");
  }
  return text;
}

}  // namespace

std::optional<uint16_t> LateStrand(const Manifest& manifest, const StreamInfo& info) {
  if (info.order == Order::kArrival) return {};
  for (size_t v = 0; v < manifest.strands.size(); ++v) {
    const Strand& strand = manifest.strands[v];
    if (!strand.ended && strand.next_block == manifest.frontier_block) return static_cast<uint16_t>(v);
  }
  return {};
}

LateOwner LateOwnerWatch::Look(ObjectStore& store, Clock& clock, const Manifest& manifest, const StreamInfo& info,
                               const Deadline& deadline) {
  const std::optional<uint16_t> strand = LateStrand(manifest, info);
  if (!strand || manifest.strands[*strand].epoch == 0) return {};
  const uint64_t owner = manifest.strands[*strand].owner;
  LateOwner late{ReadOwnerStatus(store, owner, deadline)};
  if (!late.status.said) return late;
  std::lock_guard lock(mutex_);
  if (!since_ || owner_ != owner || counter_ != late.status.counter) {
    owner_ = owner;
    counter_ = late.status.counter;
    since_ = clock.Now();
  }
  late.silent = clock.Now() - *since_;
  return late;
}

std::string WhoIsLate(const Manifest& manifest, const StreamInfo& info, const LateOwner& late) {
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
  std::string text = manifest.AllEnded() ? "all strands have ended, and nobody has sealed the stream yet"
                                         : Cat("block ", manifest.frontier_block, " is missing");
  if (!manifest.parked.empty()) {
    text += Cat(", and ", manifest.parked.size(), " block", manifest.parked.size() == 1 ? "" : "s", " of others wait",
                manifest.parked.size() == 1 ? "s" : "", " for it");
  }
  if (const std::optional<uint16_t> v = LateStrand(manifest, info)) text += Cat("; ", Maker(*v, manifest.strands[*v], late));
  return text;
}

}  // namespace headrace
