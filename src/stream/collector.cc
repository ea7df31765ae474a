#include "stream/collector.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "stream/rules.h"

namespace headrace {
namespace {

// As often as its holder renews it: a pin must be seen to stand still this many times before it is taken for abandoned.
constexpr int kLooksPerTerm = 4;

}  // namespace

Status Collector::ExpirePins(Collected& counts, bool dry_run, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->Refresh(deadline));
  Instant now = log_->clock().Now();
  std::erase_if(seen_, [&](const auto& seen) { return state->manifest.FindPin(seen.first) == nullptr; });
  for (const Pin& pin : state->manifest.pins) {
    if (pin.term_seconds == 0) continue;
    const Duration term = std::chrono::seconds(pin.term_seconds);
    Seen& seen = seen_.try_emplace(pin.name, Seen{pin.counter, now, {}}).first->second;
    if (seen.counter != pin.counter) seen = {pin.counter, now, {}};
    // Whoever was suspended, or whose clock leapt, has not watched meanwhile; and perhaps the holder was suspended with him.
    seen.still += std::clamp<Duration>(now - seen.looked, Duration::zero(), term / kLooksPerTerm);
    seen.looked = now;
    if (seen.still < term) continue;
    ++counts.expired_pins;
    if (dry_run) continue;
    Status expired = log_->Commit(ExpireEdit{pin.name, pin.counter}, deadline).status();
    if (!expired.ok() && expired.code() != Code::kConflict) return expired;
  }
  return {};
}

Status Collector::Trim(bool dry_run, Manifest& planned, const Deadline& deadline) {
  while (true) {
    HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->Refresh(deadline));
    const Manifest& manifest = state->manifest;
    planned = manifest;
    std::optional<uint64_t> lowest = manifest.LowestPin();
    if (!lowest || *lowest <= manifest.trim_step) return {};
    // The trim point is the first step of a block: the one that holds the lowest pinned step, or the frontier's.
    TrimEdit edit{manifest.frontier_block, manifest.frontier_step, {}};
    if (*lowest < manifest.frontier_step) {
      HR_ASSIGN_OR_RETURN(std::optional<Entry> entry, log_->index().FindStep(manifest, *lowest, deadline));
      if (!entry) return Status(Code::kCorrupt, Cat("the index of ", log_->store().Describe(), " does not have step ", *lowest));
      edit.block = entry->block;
      edit.step = entry->first_step;
    }
    if (edit.block <= manifest.trim_block) return {};
    std::map<uint16_t, ChunkName> keep;
    HR_RETURN_IF_ERROR(log_->index().ForEach(manifest, manifest.trim_block, edit.block, deadline, [&](const Entry& entry) {
      keep[entry.name.strand] = entry.name;
      return Status();
    }));
    bool newest_only = !log_->context().rules.Holds(StreamRule::kKeepLastBeforeTrim);
    for (const auto& [strand, name] : keep) edit.keep.push_back(newest_only ? *manifest.LastChunk(strand) : name);
    if (dry_run) return Apply(planned, edit, log_->info(), log_->context().rules);
    Status trimmed = log_->Commit(edit, deadline).status();
    // A pin that came meanwhile lowers the point: look again.
    if (trimmed.code() == Code::kConflict) continue;
    return trimmed;
  }
}

Result<Collector::Garbage> Collector::Find(const Manifest* planned, const Deadline& deadline) {
  const Rules& rules = log_->context().rules;
  ObjectStore& store = log_->store();
  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> chunks, ListAll(store, "data/", deadline));
  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> lineage, ListAll(store, "lineage/", deadline));
  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> segments, ListAll(store, "index/", deadline));
  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> intents, ListAll(store, "pending/", deadline));
  // Listed first, judged by a manifest read afterwards: what it does not name and what lies behind it, nobody can bring in any more.
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->Refresh(deadline));
  const Manifest& manifest = planned ? *planned : state->manifest;

  std::set<ChunkName> live;
  auto keep = [&](const Entry& entry) {
    live.insert(entry.name);
    return Status();
  };
  HR_RETURN_IF_ERROR(log_->index().ForEach(manifest, manifest.trim_block, UINT64_MAX, deadline, keep));
  for (const Entry& entry : manifest.parked) (void)keep(entry);
  std::set<ChunkName> trimmed_but_kept;
  for (uint16_t v = 0; v < manifest.strands.size(); ++v) {
    for (const std::optional<ChunkName>& name : {manifest.LastChunk(v), manifest.KeptChunk(v)}) {
      if (name && live.insert(*name).second) trimmed_but_kept.insert(*name);
    }
  }
  Garbage garbage;
  chunks.insert(chunks.end(), lineage.begin(), lineage.end());
  for (ListEntry& object : chunks) {
    // Lineage lives and goes with its chunk: lineage/<as the chunk> beside data/<as the chunk>.
    const bool beside = object.key.starts_with("lineage/");
    std::optional<ChunkName> name = ChunkName::FromKey(beside ? "data/" + object.key.substr(8) : object.key);
    if (!name || name->strand >= manifest.strands.size()) continue;
    if (live.contains(*name)) {
      const bool stays = !beside && trimmed_but_kept.contains(*name);
      garbage.counts.kept_chunks += stays ? 1 : 0;
      garbage.counts.kept_chunk_bytes += stays ? object.size : 0;
      continue;
    }
    const Strand& row = manifest.strands[name->strand];
    bool trimmed = row.keep_nonce != 0 && name->seq < row.keep_seq;
    bool behind = name->epoch < row.epoch || name->seq < row.next_seq || manifest.finished;
    if (!trimmed && !behind && rules.Holds(StreamRule::kSweepOnlyBehind)) continue;
    garbage.keys.push_back(std::move(object.key));
    if (beside) continue;
    ++(trimmed ? garbage.counts.chunks : garbage.counts.orphans);
    (trimmed ? garbage.counts.chunk_bytes : garbage.counts.orphan_bytes) += object.size;
  }
  std::set<std::string> used;
  HR_RETURN_IF_ERROR(log_->index().ForEachSegment(manifest, deadline, [&](const SegmentRef& ref) {
    used.insert(ref.Key());
    return Status();
  }));
  for (ListEntry& object : segments) {
    std::optional<SegmentRef> ref = SegmentRef::FromKey(object.key);
    if (!ref || ref->level >= Manifest::kLevels || used.contains(object.key)) continue;
    // Behind where the next segment of its level begins, so that its edit can never fit.
    bool behind = ref->first_block < manifest.NextSegmentBlock(ref->level);
    if (!behind && rules.Holds(StreamRule::kSweepSegmentsBehind)) continue;
    garbage.keys.push_back(std::move(object.key));
    ++garbage.counts.segments;
  }
  for (ListEntry& object : intents) {
    std::optional<Intent> intent = ParseIntentKey(object.key);
    bool behind = !intent || Behind(*intent, manifest);
    if (!behind || !rules.Holds(StreamRule::kDeleteIntents)) continue;
    garbage.keys.push_back(std::move(object.key));
    ++garbage.counts.intents;
  }
  return garbage;
}

// A sealed stream's tail goes into the index as well: then no segment that somebody prepared can fit any more, and all that are left
// over can be swept.
Status Collector::SealRest(const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->Refresh(deadline));
  if (!state->manifest.finished) return {};
  for (bool more = true; more;) {
    HR_ASSIGN_OR_RETURN(more, log_->SealNow(deadline));
  }
  state = log_->known();
  const Manifest& manifest = state->manifest;
  if (manifest.tail.empty()) return {};
  SegmentRef wanted;
  wanted.nonce = log_->NewNonce();
  wanted.first_block = manifest.sealed_block();
  wanted.end_block = manifest.frontier_block;
  SegmentRef ref = SegmentOf(manifest.tail, manifest.uuid, wanted);
  Status put = log_->store().PutIfAbsent(ref.Key(), Body(EncodeSegment(manifest.tail, manifest.uuid, wanted)), deadline).status();
  HR_RETURN_IF_ERROR(put);
  HR_ASSIGN_OR_RETURN(std::optional<Object> there, log_->store().Get(ref.Key(), deadline));
  if (!there) return {};  // in doubt; the next collection tries again
  Status sealed = log_->Commit(SealEdit{ref}, deadline).status();
  return sealed.code() == Code::kConflict || sealed.code() == Code::kFull ? Status() : sealed;
}

Result<Collected> Collector::Collect(const CollectOptions& options, const Deadline& deadline) {
  Collected counts;
  HR_RETURN_IF_ERROR(ExpirePins(counts, options.dry_run, deadline));
  Manifest planned;
  HR_RETURN_IF_ERROR(Trim(options.dry_run, planned, deadline));
  if (!options.dry_run) HR_RETURN_IF_ERROR(SealRest(deadline));
  HR_ASSIGN_OR_RETURN(Garbage garbage, Find(options.dry_run ? &planned : nullptr, deadline));
  StreamLog::StatePtr state = log_->known();
  uint64_t newest = state->manifest.number;
  uint64_t forget = newest > options.keep_manifests ? newest - options.keep_manifests : 0;
  HR_ASSIGN_OR_RETURN(uint64_t floor, options.dry_run ? log_->log().Floor(deadline) : log_->log().RaiseFloor(forget, deadline));
  if (options.dry_run) floor = std::max(floor, forget / log_->info().slots_per_marker * log_->info().slots_per_marker);
  HR_ASSIGN_OR_RETURN(std::vector<std::string> forgotten, log_->log().Forgotten(floor, deadline));
  garbage.counts.manifests = forgotten.size();
  garbage.counts.expired_pins = counts.expired_pins;
  garbage.counts.trim_step = options.dry_run ? planned.trim_step : state->manifest.trim_step;
  if (options.dry_run) return garbage.counts;

  bool anything = !garbage.keys.empty() || !forgotten.empty();
  if (anything) HR_RETURN_IF_ERROR(deadline.Sleep(log_->clock(), options.grace, "grace period before deleting"));
  HR_RETURN_IF_ERROR(log_->store().Delete(garbage.keys, deadline));
  HR_RETURN_IF_ERROR(log_->store().Delete(forgotten, deadline));
  return garbage.counts;
}

}  // namespace headrace
