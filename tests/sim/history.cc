#include "sim/history.h"

#include <algorithm>

#include "base/text.h"
#include "log/log.h"
#include "stream/index.h"

namespace headrace {

void History::Violate(std::string what) {
  if (violations_.size() < 20) violations_.push_back(std::move(what));
}

std::optional<Bytes> History::Load(const std::string& key) {
  auto object = truth_->Get(key, GetOptions{}, {});
  if (!object.ok() || !*object) return std::nullopt;
  return (**object).bytes;
}

Result<PutOutcome> History::PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) {
  Result<PutOutcome> outcome = truth_->PutIfAbsent(key, body, deadline);
  if (outcome.ok() && outcome->kind == PutOutcome::kCreated) {
    if (std::optional<uint64_t> number = ParseSlotKey(key)) OnSlot(*number, body);
  }
  return outcome;
}

Status History::Put(const std::string& key, const Body& body, const Deadline& deadline) {
  if (key != "log/hint" && !key.starts_with("status/") && key != "gc/floor") Violate(Cat("immutable ", key, " was overwritten"));
  return truth_->Put(key, body, deadline);
}

Status History::Delete(std::span<const std::string> keys, const Deadline& deadline) {
  for (const std::string& key : keys) {
    if (begun() && Exists(key)) OnDelete(key);
  }
  return truth_->Delete(keys, deadline);
}

void History::OnSlot(uint64_t number, const Body& body) {
  if (number < manifests_.size()) {
    ++zombies_;  // nobody may believe it
    return;
  }
  if (number > manifests_.size()) return Violate(Cat("slot ", number, " was created before slot ", manifests_.size()));
  Bytes bytes = body.Join();
  if (bytes.size() > Manifest::kMaxBytes) Violate(Cat("manifest ", number, " has ", bytes.size(), " bytes"));
  Result<Manifest> manifest = Manifest::Decode(bytes.span(), SlotKey(number));
  if (!manifest.ok()) Violate(manifest.status().message());
  manifests_.push_back(manifest.ok() ? *std::move(manifest) : begun() ? manifests_.back() : Manifest());
  encoded_.push_back(bytes.ToString());
  if (number > 0) CheckStep(manifests_[number - 1], manifests_[number], encoded_[number - 1]);
}

void History::CheckStep(const Manifest& before, const Manifest& after, const std::string& before_encoded) {
  auto monotone = [&](std::string_view what, uint64_t a, uint64_t b) {
    if (b < a) Violate(Cat(what, " went back from ", a, " to ", b, " in manifest ", after.number));
  };
  if (after.number != before.number + 1) Violate(Cat("manifest ", after.number, " follows ", before.number));
  if (after.previous != Manifest::Hash(before_encoded))
    Violate(Cat("manifest ", after.number, " does not continue the one before"));
  if (after.uuid != info_.uuid) Violate("another stream's manifest");
  monotone("the frontier", before.frontier_step, after.frontier_step);
  monotone("the trim point", before.trim_step, after.trim_step);
  monotone("the number of decisions", before.decisions, after.decisions);
  if (before.finished && (after.frontier_step != before.frontier_step || !after.finished))
    Violate("the stream changed after its seal");
  for (size_t v = 0; v < after.strands.size(); ++v) {
    monotone("an epoch", before.strands[v].epoch, after.strands[v].epoch);
    monotone("a sequence number", before.strands[v].next_seq, after.strands[v].next_seq);
    if (before.strands[v].ended && !after.strands[v].ended) Violate("a strand rose from its end");
  }
  for (const Pin& pin : after.pins) {
    if (pin.step < after.trim_step) {
      Violate(Cat("the pin ", pin.name, " holds step ", pin.step, ", but the stream was trimmed to ", after.trim_step));
    }
  }
  CheckNewChunks(before, after);
  CheckVisible(after);
  CheckReferences(before, after);
  CheckFrontierFits(after);
}

void History::CheckNewChunks(const Manifest& before, const Manifest& after) {
  std::vector<Entry> fresh;
  for (const auto* list : {&after.tail, &after.parked}) {
    std::ranges::copy_if(*list, std::back_inserter(fresh), [&](const Entry& entry) { return !block_of_.contains(entry.name); });
  }
  std::ranges::sort(fresh, {}, [](const Entry& entry) { return std::pair(entry.name.strand, entry.name.seq); });
  bool sealing = after.finished && !before.finished;
  std::map<uint16_t, Link> links;
  for (const Entry& entry : fresh) {
    const ChunkName& name = entry.name;
    std::string where = Cat("manifest ", after.number, ", chunk ", name.Key(), ", block ", entry.block);
    if (blocks_.contains(entry.block)) Violate(Cat(where, ": the block was there already, as ", blocks_[entry.block].name.Key()));
    // A manifest may carry a strand's chunk and then a bump of it, in this order.
    bool fits = name.epoch >= before.strands[name.strand].epoch && name.epoch <= after.strands[name.strand].epoch;
    if (!fits) Violate(Cat(where, ": committed in epoch ", after.strands[name.strand].epoch));
    if (info_.order == Order::kPlanned && !sealing) {
      if (entry.block % info_.strands != name.strand) Violate(Cat(where, ": not this strand's turn"));
      if (entry.steps != info_.blocks.Steps(entry.block)) Violate(Cat(where, ": has ", entry.steps, " steps"));
      if (entry.mixture != after.MixtureOf(entry.block)) Violate(Cat(where, ": drawn with mixture ", entry.mixture));
    }
    block_of_[name] = entry.block;
    blocks_[entry.block] = entry;
    std::optional<Bytes> object = Load(name.Key());
    if (!object) {
      Violate(Cat(where, ": the object is not there"));
      continue;
    }
    auto bytes = object->span().first(std::min<size_t>(object->size(), entry.header_bytes));
    Result<ChunkHeader> header = DecodeChunkHeader(bytes, entry, info_, name.Key());
    if (!header.ok()) {
      Violate(Cat(where, ": ", header.status().message()));
      continue;
    }
    Link link = links.contains(name.strand) ? links[name.strand] : before.strands[name.strand].link;
    if (header->edit.prev != link && !sealing) Violate(Cat(where, ": does not continue its strand's chain"));
    links[name.strand] = NextLink(header->edit);
    if (on_chunk) on_chunk(entry, *object);
  }
}

void History::CheckVisible(const Manifest& after) {
  uint64_t step = after.tail.empty() ? after.frontier_step : after.tail.front().first_step;
  for (const Entry& entry : after.tail) {
    if (entry.first_step != step) Violate(Cat("block ", entry.block, " begins at step ", entry.first_step, ", not ", step));
    step = entry.end_step();
    auto [known, is_new] = first_step_.try_emplace(entry.block, entry.first_step);
    if (!is_new && known->second != entry.first_step) Violate(Cat("block ", entry.block, " moved to step ", entry.first_step));
    blocks_[entry.block].first_step = entry.first_step;
  }
  if (step != after.frontier_step)
    Violate(Cat("the frontier of manifest ", after.number, " is at ", after.frontier_step, ", not ", step));
}

void History::CheckReferences(const Manifest& before, const Manifest& after) {
  SegmentReader reader(*truth_, info_.uuid);
  for (size_t level = 0; level < Manifest::kLevels; ++level) {
    for (const SegmentRef& ref : after.index[level]) {
      if (std::ranges::find(before.index[level], ref) != before.index[level].end()) continue;
      Result<std::vector<Entry>> entries = reader.Entries(ref, {});
      if (!entries.ok()) {
        Violate(Cat("manifest ", after.number, ": ", entries.status().message()));
        continue;
      }
      for (const Entry& entry : *entries) {
        auto known = blocks_.find(entry.block);
        if (known == blocks_.end() || known->second != entry)
          Violate(Cat(ref.Key(), " has a wrong entry for block ", entry.block));
      }
    }
  }
}

void History::CheckFrontierFits(const Manifest& manifest) {
  if (manifest.finished || info_.order == Order::kArrival || manifest.AllEnded()) return;
  auto v = static_cast<uint16_t>(manifest.frontier_block % info_.strands);
  const Strand& row = manifest.strands[v];
  if (row.ended) return;
  Manifest next = manifest;
  ++next.number;
  ChunkEdit edit;
  edit.uuid = info_.uuid;
  edit.name = {v, row.epoch, row.next_seq, 1};
  edit.prev = row.link;
  edit.block = manifest.frontier_block;
  edit.steps = info_.blocks.Steps(edit.block);
  edit.mixture = manifest.MixtureOf(edit.block);
  Status fits = Apply(next, edit, info_, rules_);
  bool sealable = manifest.tail.size() >= info_.segment_entries;
  if (!fits.ok() && !(fits.code() == Code::kFull && sealable)) {
    Violate(Cat("the frontier's block does not fit manifest ", manifest.number, ": ", fits.message()));
  }
}

void History::OnDelete(const std::string& key) {
  const Manifest& now = newest();
  if (std::optional<ChunkName> name = ChunkName::FromKey(key)) {
    OnDeleteChunk(*name);
  } else if (key.starts_with("index/")) {
    for (const auto& level : now.index) {
      for (const SegmentRef& ref : level) {
        if (ref.Key() == key) Violate(Cat(key, " was deleted, but manifest ", now.number, " refers to it"));
      }
    }
  } else if (std::optional<uint64_t> number = ParseSlotKey(key)) {
    if (*number + 1 >= manifests_.size()) Violate(Cat("the newest manifest, ", *number, ", was deleted"));
    bool marked = Exists(MarkerKey(*number / info_.slots_per_marker + 1)) || Exists("gc/floor");
    if (!marked) Violate(Cat("slot ", *number, " was deleted without a marker"));
  } else if (!key.starts_with("pending/")) {
    Violate(Cat(key, " was deleted"));
  }
}

void History::OnDeleteChunk(const ChunkName& name) {
  const Manifest& now = newest();
  if (now.LastChunk(name.strand) == name) Violate(Cat(name.Key(), " was deleted, but is the last chunk of its strand"));
  auto block = block_of_.find(name);
  if (block == block_of_.end()) return;  // an orphan; if somebody refers to it later, that is noticed then
  if (block->second >= now.trim_block) {
    Violate(
        Cat(name.Key(), " was deleted, but holds block ", block->second, ", and the stream begins at block ", now.trim_block));
  }
  auto later = std::find_if(std::next(blocks_.find(block->second)), blocks_.end(), [&](const auto& other) {
    return other.first < now.trim_block && other.second.name.strand == name.strand;
  });
  if (later == blocks_.end()) Violate(Cat(name.Key(), " was deleted, but a restart at the trim point needs its footer"));
}

void History::Saw(const Manifest& manifest, const Bytes& encoded) {
  if (manifest.number >= manifests_.size() || encoded_[manifest.number] != encoded.AsText()) {
    Violate(Cat("somebody believed a manifest ", manifest.number, " that never was"));
  }
}

void History::Read(uint64_t step, uint32_t lane, const Bytes& cell) {
  auto [known, first] = reads_.try_emplace({step, lane}, cell.ToString());
  if (first) Witness(Cat("read ", step, " ", lane));
  if (!first && known->second != cell.AsText()) Violate(Cat("step ", step, ", lane ", lane, " changed"));
}

void History::CheckAtRest() {
  for (const ChunkName& name : acknowledged_) {
    if (!block_of_.contains(name)) Violate(Cat("chunk ", name.Key(), " was acknowledged, but is not in the stream"));
  }
  for (const ChunkName& name : refused_) {
    if (block_of_.contains(name)) Violate(Cat("chunk ", name.Key(), " was reported as refused, but is in the stream"));
  }
  if (decided_ > newest().decisions) Violate(Cat("decision ", decided_, " was acknowledged, but is not in the stream"));
  if (!newest().finished)
    Violate(Cat("no progress: after the faults stopped the stream is at step ", newest().frontier_step, " and not sealed"));

  auto listed = [&](const std::string& prefix) { return *ListAll(*truth_, prefix, {}); };
  for (const ListEntry& entry : listed("pending/")) Violate(Cat("the intent ", entry.key, " was left behind"));
  for (const ListEntry& entry : listed("data/")) {
    ChunkName name = *ChunkName::FromKey(entry.key);
    bool kept = newest().KeptChunk(name.strand) == name || newest().LastChunk(name.strand) == name;
    auto block = block_of_.find(name);
    bool live = block != block_of_.end() && block->second >= newest().trim_block;
    if (!kept && !live) Violate(Cat("the orphan ", entry.key, " was left behind"));
  }
  std::set<std::string> used;
  Index index(*truth_, info_.uuid);
  Status walked = index.ForEachSegment(newest(), {}, [&](const SegmentRef& ref) {
    used.insert(ref.Key());
    return Status();
  });
  if (!walked.ok()) Violate(walked.message());
  for (const ListEntry& entry : listed("index/")) {
    if (!used.contains(entry.key)) Violate(Cat("the segment ", entry.key, " was left behind"));
  }
}

}  // namespace headrace
