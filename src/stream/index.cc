#include "stream/index.h"

#include <algorithm>

#include "base/text.h"

namespace headrace {

Result<std::vector<Entry>> Index::FindAround(const Manifest& manifest, uint64_t step, const Deadline& deadline) {
  if (step < manifest.trim_step || step >= manifest.frontier_step) return std::vector<Entry>();
  auto after = std::ranges::upper_bound(manifest.tail, step, {}, &Entry::first_step);
  if (after != manifest.tail.begin()) return std::vector<Entry>{*std::prev(after)};
  for (const auto& level : manifest.index) {
    for (const SegmentRef& ref : level) {
      if (step >= ref.first_step && step < ref.end_step) return segments_.FindStep(ref, step, deadline);
    }
  }
  return std::vector<Entry>();
}

Result<std::optional<Entry>> Index::FindStep(const Manifest& manifest, uint64_t step, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::vector<Entry> entries, FindAround(manifest, step, deadline));
  for (const Entry& entry : entries) {
    if (step >= entry.first_step && step < entry.end_step()) return std::optional(entry);
  }
  return std::optional<Entry>();
}

Result<bool> Index::Holds(const Manifest& manifest, const ChunkName& name, const Deadline& deadline) {
  const Strand& row = manifest.strands[name.strand];
  if (name.seq >= row.next_seq) return false;
  if (manifest.LastChunk(name.strand) == name) return true;
  std::optional<ChunkName> kept = manifest.KeptChunk(name.strand);
  if (kept && name.seq == kept->seq) return name == *kept;
  if (kept && name.seq < kept->seq) {
    return Status(Code::kOutcomeUnknown,
                  Cat("cannot tell whether the chunk ", name.Key(), " became part of the stream: its place was given up since"));
  }
  auto is_it = [&](const Entry& entry) { return entry.name == name; };
  if (std::ranges::any_of(manifest.parked, is_it) || std::ranges::any_of(manifest.tail, is_it)) return true;
  // A chunk with a greater number of the same strand in the tail, or this number under another name, settles it only if
  // nothing older can be ours; so the sealed index is searched from its newest end back to where this number must be.
  for (const auto& level : manifest.index) {
    for (auto ref = level.rbegin(); ref != level.rend(); ++ref) {
      bool found = false;
      bool passed = false;
      HR_RETURN_IF_ERROR(segments_.ForEach(*ref, deadline, [&](const Entry& entry) {
        found = found || entry.name == name;
        passed = passed || (entry.name.strand == name.strand && entry.name.seq <= name.seq);
        return Status();
      }));
      if (found) return true;
      if (passed) return false;
    }
  }
  return false;
}

Status Index::ForEach(const Manifest& manifest, uint64_t first_block, uint64_t end_block, const Deadline& deadline,
                      const std::function<Status(const Entry&)>& visit) {
  auto inside = [&](const Entry& entry) -> Status {
    if (entry.block < first_block || entry.block >= end_block) return {};
    return visit(entry);
  };
  for (auto level = manifest.index.rbegin(); level != manifest.index.rend(); ++level) {
    for (const SegmentRef& ref : *level) {
      if (ref.end_block > first_block && ref.first_block < end_block)
        HR_RETURN_IF_ERROR(segments_.ForEach(ref, deadline, inside));
    }
  }
  for (const Entry& entry : manifest.tail) HR_RETURN_IF_ERROR(inside(entry));
  return {};
}

Status Index::ForEachSegment(const Manifest& manifest, const Deadline& deadline,
                             const std::function<Status(const SegmentRef&)>& visit) {
  std::vector<SegmentRef> rest;
  for (const auto& level : manifest.index) rest.insert(rest.end(), level.begin(), level.end());
  while (!rest.empty()) {
    SegmentRef ref = rest.back();
    rest.pop_back();
    HR_RETURN_IF_ERROR(visit(ref));
    if (ref.level < kEntryLevels) continue;
    HR_ASSIGN_OR_RETURN(std::vector<SegmentRef> children, segments_.Children(ref, deadline));
    rest.insert(rest.end(), children.begin(), children.end());
  }
  return {};
}

}  // namespace headrace
