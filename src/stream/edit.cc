#include "stream/edit.h"

#include <algorithm>

#include "base/codec.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "stream/rules.h"
#include "stream/segment.h"

namespace headrace {
namespace {

Status Refuse(std::string why) { return Status(Code::kConflict, std::move(why)); }

Status CheckStream(const Manifest& manifest, const Uuid& uuid, const Rules& rules) {
  if (rules.Holds(StreamRule::kCheckUuid) && uuid != manifest.uuid) {
    return Refuse(Cat("the edit belongs to the stream ", UuidText(uuid), ", not to ", UuidText(manifest.uuid)));
  }
  return {};
}

// Who may write to the strand, and where its chain stands.
Status CheckStrand(const Manifest& manifest, uint16_t strand, uint32_t epoch, const Link& prev, const Rules& rules) {
  if (strand >= manifest.strands.size()) return Refuse(Cat("there is no strand ", strand));
  const Strand& row = manifest.strands[strand];
  bool adopted = !rules.Holds(StreamRule::kNeverAdopt) && epoch < row.epoch;
  if (rules.Holds(StreamRule::kCheckEpoch) && epoch != row.epoch && !adopted) {
    return Status(Code::kFenced,
                  Cat("strand ", strand, " was taken over: it is in epoch ", row.epoch, ", this writer in ", epoch));
  }
  if (rules.Holds(StreamRule::kCheckPrev) && prev != row.link) {
    return Refuse(Cat("the edit does not continue the chain of strand ", strand));
  }
  return {};
}

// Moves the frontier over everything that has no gap before it. A block whose strand has ended is void: it has no steps.
void Advance(Manifest& manifest) {
  while (true) {
    if (!manifest.parked.empty() && manifest.parked.front().block == manifest.frontier_block) {
      Entry entry = manifest.parked.front();
      manifest.parked.erase(manifest.parked.begin());
      entry.first_step = manifest.frontier_step;
      manifest.frontier_step += entry.steps;
      manifest.tail.push_back(entry);
      ++manifest.frontier_block;
      continue;
    }
    const Strand& turn = manifest.strands[manifest.frontier_block % manifest.strands.size()];
    bool is_void = manifest.order == Order::kPlanned && turn.ended && turn.next_block <= manifest.frontier_block;
    if (!is_void || (manifest.AllEnded() && manifest.parked.empty())) return;
    ++manifest.frontier_block;
  }
}

void Append(Manifest& manifest, const ChunkEdit& edit, uint64_t block, uint32_t mixture) {
  Entry entry{edit.name, block, 0, edit.steps, edit.bytes, edit.header_bytes, edit.header_crc, mixture};
  manifest.parked.insert(std::ranges::upper_bound(manifest.parked, block, {}, &Entry::block), entry);
  Strand& row = manifest.strands[edit.name.strand];
  row.next_seq = edit.name.seq + 1;
  row.next_block = block + manifest.strands.size();
  row.link = NextLink(edit);
  row.idle_bumps = 0;
  row.changed = manifest.number;
  row.last_epoch = edit.name.epoch;
  row.last_nonce = edit.name.nonce;
  row.last_bytes = edit.bytes;
  row.last_footer_bytes = edit.footer_bytes;
}

Status ApplyEdit(Manifest& manifest, const ChunkEdit& edit, const StreamInfo& info, const Rules& rules) {
  HR_RETURN_IF_ERROR(CheckStream(manifest, edit.uuid, rules));
  if (manifest.finished) return Refuse("the stream is sealed: no step can follow");
  HR_RETURN_IF_ERROR(CheckStrand(manifest, edit.name.strand, edit.name.epoch, edit.prev, rules));
  Strand& row = manifest.strands[edit.name.strand];
  if (rules.Holds(StreamRule::kCheckPrev) && edit.name.seq != row.next_seq) {
    return Refuse(Cat("strand ", edit.name.strand, " is at sequence number ", row.next_seq, ", not ", edit.name.seq));
  }
  size_t entries = manifest.tail.size() + manifest.parked.size();
  if (edit.finish) {
    if (rules.Holds(StreamRule::kSealAfterEnds) && (!manifest.AllEnded() || !manifest.parked.empty())) {
      return Refuse("the stream cannot be sealed yet: not every strand has ended");
    }
    if (entries >= Manifest::kMaxEntries)
      return Status(Code::kFull, "the index has no room for the last chunk: seal a segment first");
    // Behind everybody's end, so that its number does not depend on the order in which the strands ended.
    uint64_t block = std::ranges::max(manifest.strands, {}, &Strand::next_block).next_block;
    manifest.frontier_block = std::max(manifest.frontier_block, block);
    Append(manifest, edit, manifest.frontier_block, manifest.MixtureOf(manifest.frontier_block));
    Advance(manifest);
    manifest.finished = true;
    return {};
  }
  if (row.ended) return Refuse(Cat("strand ", edit.name.strand, " has ended"));
  if (manifest.order == Order::kArrival) {
    if (edit.steps == 0) return Refuse("a chunk needs at least one step");
    if (entries >= Manifest::kMaxEntries) return Status(Code::kFull, "the index is full: seal a segment first");
    Append(manifest, edit, manifest.frontier_block, edit.mixture);
    Advance(manifest);
    return {};
  }
  if (edit.block != row.next_block) {
    return Refuse(Cat("strand ", edit.name.strand, " makes block ", row.next_block, " next, not ", edit.block));
  }
  if (rules.Holds(StreamRule::kStepsByBlock) && edit.steps != info.blocks.Steps(edit.block)) {
    return Refuse(Cat("block ", edit.block, " has ", info.blocks.Steps(edit.block), " steps, not ", edit.steps));
  }
  if (rules.Holds(StreamRule::kCheckMixture) && edit.mixture != manifest.MixtureOf(edit.block)) {
    return Refuse(Cat("block ", edit.block, " is drawn with mixture ", manifest.MixtureOf(edit.block), ", not ", edit.mixture));
  }
  if (rules.Holds(StreamRule::kParkByDistance)) {
    if (edit.block >= manifest.frontier_block + info.window) {
      return Status(Code::kStalled, Cat("block ", edit.block, " is too far ahead: the frontier is at block ",
                                        manifest.frontier_block, ", and at most ", info.window, " blocks may be parked"));
    }
  } else if (manifest.parked.size() + 1 >= info.window) {
    return Status(Code::kStalled, "too many blocks are parked");
  }
  // The frontier's own block may use the last place, since it frees others.
  size_t limit = edit.block == manifest.frontier_block ? Manifest::kMaxEntries : Manifest::kMaxEntries - 1;
  if (entries >= limit) return Status(Code::kFull, "the index is full: seal a segment first");
  Append(manifest, edit, edit.block, edit.mixture);
  Advance(manifest);
  return {};
}

Status ApplyEdit(Manifest& manifest, const EndEdit& edit, const StreamInfo&, const Rules& rules) {
  HR_RETURN_IF_ERROR(CheckStream(manifest, edit.uuid, rules));
  if (manifest.finished) return Refuse("the stream is sealed");
  HR_RETURN_IF_ERROR(CheckStrand(manifest, edit.strand, edit.epoch, edit.prev, rules));
  Strand& row = manifest.strands[edit.strand];
  if (row.ended) return Refuse(Cat("strand ", edit.strand, " has ended already"));
  if (manifest.order == Order::kPlanned && edit.block != row.next_block) {
    return Refuse(Cat("strand ", edit.strand, " ends at block ", row.next_block, ", not ", edit.block));
  }
  row.ended = true;
  row.link = NextLink(edit);
  row.changed = manifest.number;
  Advance(manifest);
  return {};
}

Status ApplyEdit(Manifest& manifest, const FinishEdit& edit, const StreamInfo&, const Rules& rules) {
  HR_RETURN_IF_ERROR(CheckStream(manifest, edit.uuid, rules));
  if (manifest.finished) return Refuse("the stream is sealed already");
  if (rules.Holds(StreamRule::kSealAfterEnds) && (!manifest.AllEnded() || !manifest.parked.empty())) {
    return Refuse("the stream cannot be sealed yet: not every strand has ended");
  }
  manifest.finished = true;
  return {};
}

Status ApplyEdit(Manifest& manifest, const BumpEdit& edit, const StreamInfo&, const Rules& rules) {
  HR_RETURN_IF_ERROR(CheckStream(manifest, edit.uuid, rules));
  if (edit.strand >= manifest.strands.size()) return Refuse(Cat("there is no strand ", edit.strand));
  if (manifest.finished) return Refuse("the stream is sealed");
  Strand& row = manifest.strands[edit.strand];
  if (edit.from_epoch != row.epoch) {
    return Status(Code::kFenced, Cat("strand ", edit.strand, " was taken by another process: it is in epoch ", row.epoch));
  }
  ++row.epoch;
  row.owner = edit.owner;
  row.idle_bumps = static_cast<uint8_t>(std::min(row.idle_bumps + 1, 255));
  row.changed = manifest.number;
  return {};
}

Status ApplyEdit(Manifest& manifest, const PinEdit& edit, const StreamInfo&, const Rules& rules) {
  const Pin& pin = edit.pin;
  if (pin.name.empty() || pin.name.size() > Manifest::kMaxPinName) {
    return Status(Code::kInvalidArgument, Cat("a pin's name has 1 to ", Manifest::kMaxPinName, " bytes"));
  }
  if (pin.step < manifest.trim_step) {
    return Status(Code::kTrimmed, Cat("cannot pin step ", pin.step, ": everything before step ", manifest.trim_step,
                                      " was given up; pin a step that is still there"));
  }
  if (pin.step > manifest.frontier_step) {
    return Status(Code::kInvalidArgument,
                  Cat("cannot pin step ", pin.step, ": the stream has ", manifest.frontier_step, " steps so far"));
  }
  std::erase_if(manifest.pins, [&](const Pin& old) { return old.name == pin.name || old.name == edit.instead_of; });
  if (rules.Holds(StreamRule::kReserve) && manifest.pins.size() >= Manifest::kMaxPins) {
    return Status(Code::kFull, Cat("there are ", Manifest::kMaxPins, " pins, which is all that fit: unpin one first"));
  }
  auto place = manifest.pins.insert(std::ranges::upper_bound(manifest.pins, pin.name, {}, &Pin::name), pin);
  place->counter = manifest.number;
  return {};
}

Status ApplyEdit(Manifest& manifest, const UnpinEdit& edit, const StreamInfo&, const Rules&) {
  if (std::erase_if(manifest.pins, [&](const Pin& pin) { return pin.name == edit.name; }) == 0) {
    return Status(Code::kNotFound, Cat("there is no pin named \"", edit.name, "\""));
  }
  return {};
}

Status ApplyEdit(Manifest& manifest, const RenewEdit& edit, const StreamInfo&, const Rules&) {
  auto pin = std::ranges::find(manifest.pins, edit.name, &Pin::name);
  if (pin == manifest.pins.end())
    return Status(Code::kNotFound, Cat("the pin \"", edit.name, "\" is gone: it was not renewed within its term"));
  pin->counter = manifest.number;
  return {};
}

Status ApplyEdit(Manifest& manifest, const ExpireEdit& edit, const StreamInfo&, const Rules&) {
  auto pin = std::ranges::find(manifest.pins, edit.name, &Pin::name);
  if (pin == manifest.pins.end() || pin->counter != edit.counter || pin->term_seconds == 0) {
    return Refuse(Cat("the pin \"", edit.name, "\" was renewed meanwhile"));
  }
  manifest.pins.erase(pin);
  return {};
}

Status ApplyEdit(Manifest& manifest, const TrimEdit& edit, const StreamInfo&, const Rules& rules) {
  if (edit.block <= manifest.trim_block) return Refuse("everything before that was given up already");
  if (edit.block > manifest.frontier_block) return Refuse("what is not visible yet cannot be given up");
  if (rules.Holds(StreamRule::kTrimAtRebase)) {
    std::optional<uint64_t> lowest = manifest.LowestPin();
    if (!lowest) return Refuse("nothing is given up while there is no pin");
    if (edit.step > *lowest) return Refuse(Cat("a pin holds step ", *lowest));
  }
  for (const ChunkName& kept : edit.keep) {
    bool fits = kept.strand < manifest.strands.size() && kept.nonce != 0 && kept.seq < manifest.strands[kept.strand].next_seq &&
                kept.seq >= manifest.strands[kept.strand].keep_seq;
    if (!fits) return Refuse(Cat("there is no chunk ", kept.Key(), " to keep"));
  }
  manifest.trim_block = edit.block;
  manifest.trim_step = edit.step;
  for (const ChunkName& kept : edit.keep) {
    Strand& row = manifest.strands[kept.strand];
    row.keep_seq = kept.seq;
    row.keep_epoch = kept.epoch;
    row.keep_nonce = kept.nonce;
  }
  for (auto& level : manifest.index) {
    std::erase_if(level, [&](const SegmentRef& ref) { return ref.end_block <= edit.block; });
  }
  // Entries leave the tail only if nothing sealed stands before them; the index has no holes.
  if (std::ranges::all_of(manifest.index, [](const auto& level) { return level.empty(); })) {
    std::erase_if(manifest.tail, [&](const Entry& entry) { return entry.block < edit.block; });
  }
  return {};
}

Status SealTail(Manifest& manifest, const SegmentRef& ref) {
  // Were it to begin before that, a collector would be right to delete it.
  if (ref.first_block != manifest.sealed_block()) return Refuse("the segment does not begin where the sealed index ends");
  auto end = std::ranges::lower_bound(manifest.tail, ref.end_block, {}, &Entry::block);
  std::vector<Entry> sealed(manifest.tail.begin(), end);
  if (sealed.empty() || SegmentOf(sealed, manifest.uuid, ref) != ref)
    return Refuse("the segment does not hold the oldest entries");
  if (manifest.index[0].size() >= Manifest::kMaxRefsPerLevel)
    return Status(Code::kFull, "too many small segments: fold them first");
  manifest.tail.erase(manifest.tail.begin(), end);
  manifest.index[0].push_back(ref);
  return {};
}

Status ApplyEdit(Manifest& manifest, const SealEdit& edit, const StreamInfo&, const Rules&) {
  const SegmentRef& ref = edit.ref;
  if (ref.level >= Manifest::kLevels) return Refuse(Cat("there is no index level ", ref.level));
  if (ref.level == 0) return SealTail(manifest, ref);
  auto& below = manifest.index[ref.level - 1];
  auto& level = manifest.index[ref.level];
  bool fits = below.size() >= Manifest::kFold && below.front().first_block == ref.first_block &&
              below[Manifest::kFold - 1].end_block == ref.end_block && below.front().first_step == ref.first_step &&
              below[Manifest::kFold - 1].end_step == ref.end_step;
  if (!fits) return Refuse("the segment does not hold the oldest segments of the level below");
  if (level.size() >= Manifest::kMaxRefsPerLevel)
    return Status(Code::kFull, Cat("index level ", ref.level, " is full: fold it first"));
  below.erase(below.begin(), below.begin() + Manifest::kFold);
  level.push_back(ref);
  return {};
}

Status ApplyEdit(Manifest& manifest, const MixtureEdit& edit, const StreamInfo&, const Rules& rules) {
  HR_RETURN_IF_ERROR(CheckStream(manifest, edit.uuid, rules));
  if (manifest.finished) return Refuse("the stream is sealed");
  if (edit.decision != manifest.decisions + 1)
    return Refuse(Cat("decision ", manifest.decisions + 1, " comes next, not ", edit.decision));
  // What is superseded for every block that can still come is not needed any more.
  while (manifest.mixtures.size() >= 2 && manifest.mixtures[1].first_block <= manifest.frontier_block) {
    manifest.mixtures.erase(manifest.mixtures.begin());
  }
  if (manifest.mixtures.size() >= Manifest::kMaxMixtures) {
    return Status(Code::kFull, "too many mixtures wait for their first block: wait until the frontier has moved");
  }
  uint64_t first = manifest.parked.empty() ? manifest.frontier_block : manifest.parked.back().block + 1;
  ++manifest.decisions;
  manifest.mixtures.push_back({static_cast<uint32_t>(edit.decision), first, edit.nonce});
  return {};
}

Link Digest(std::string_view text) {
  Sha256Digest digest = Sha256Of(text);
  Link link;
  std::copy_n(digest.begin(), link.size(), link.begin());
  return link;
}

void EncodeChunkEdit(const ChunkEdit& edit, Encoder& out) {
  out.PutRaw(edit.uuid.data(), edit.uuid.size());
  out.Put(edit.name.strand);
  out.Put(edit.name.epoch);
  out.Put(edit.name.seq);
  out.Put(edit.name.nonce);
  out.PutRaw(edit.prev.data(), edit.prev.size());
  out.Put(edit.block);
  out.Put(edit.steps);
  out.Put(edit.bytes);
  out.Put(edit.header_bytes);
  out.Put(edit.header_crc);
  out.Put(edit.footer_bytes);
  out.Put(edit.mixture);
}

void EncodeEndEdit(const EndEdit& edit, Encoder& out) {
  out.PutRaw(edit.uuid.data(), edit.uuid.size());
  out.Put(edit.strand);
  out.Put(edit.epoch);
  out.PutRaw(edit.prev.data(), edit.prev.size());
  out.Put(edit.block);
}

}  // namespace

Link NextLink(const ChunkEdit& edit) {
  Encoder out;
  EncodeChunkEdit(edit, out);
  return Digest(out.text());
}

Link NextLink(const EndEdit& edit) {
  Encoder out;
  EncodeEndEdit(edit, out);
  return Digest(out.text());
}

Status Apply(Manifest& manifest, const Edit& edit, const StreamInfo& info, const Rules& rules) {
  // Refusals come before the first change, except for pins, whose table is small enough to copy.
  return std::visit(
      [&](const auto& change) -> Status {
        if constexpr (std::is_same_v<std::decay_t<decltype(change)>, PinEdit>) {
          std::vector<Pin> before = manifest.pins;
          Status status = ApplyEdit(manifest, change, info, rules);
          if (!status.ok()) manifest.pins = std::move(before);
          return status;
        } else {
          return ApplyEdit(manifest, change, info, rules);
        }
      },
      edit);
}

Manifest Successor(const Manifest& before, std::string_view before_encoded, uint64_t nonce) {
  Manifest next = before;
  ++next.number;
  next.nonce = nonce;
  next.previous = Manifest::Hash(before_encoded);
  return next;
}

std::string IntentKey(const Edit& edit, uint64_t seq) {
  Encoder out;
  uint16_t strand = 0;
  uint32_t epoch = 0;
  if (const auto* chunk = std::get_if<ChunkEdit>(&edit)) {
    out.Put(uint8_t{1});
    EncodeChunkEdit(*chunk, out);
    strand = chunk->name.strand;
    epoch = chunk->name.epoch;
  } else if (const auto* bump = std::get_if<BumpEdit>(&edit)) {
    out.Put(uint8_t{3});
    out.PutRaw(bump->uuid.data(), bump->uuid.size());
    out.Put(bump->strand);
    out.Put(bump->from_epoch);
    out.Put(bump->owner);
    strand = bump->strand;
    epoch = bump->from_epoch;
  } else {
    const auto& end = std::get<EndEdit>(edit);
    out.Put(uint8_t{2});
    EncodeEndEdit(end, out);
    strand = end.strand;
    epoch = end.epoch;
  }
  std::string_view text = out.text();
  out.Put(Crc32c(std::as_bytes(std::span(text.data(), text.size()))));
  text = out.text();
  return Cat("pending/", strand, "-", epoch, "-", seq, "-", Hex(text.data(), text.size()));
}

bool Behind(const Intent& intent, const Manifest& manifest) {
  if (intent.strand >= manifest.strands.size() || manifest.finished) return true;
  const Strand& row = manifest.strands[intent.strand];
  if (intent.epoch < row.epoch) return true;
  if (std::holds_alternative<BumpEdit>(intent.edit)) return false;
  return intent.seq < row.next_seq || row.ended;
}

std::optional<Intent> ParseIntentKey(const std::string& key) {
  size_t dash = key.rfind('-');
  if (!key.starts_with("pending/") || dash == std::string::npos) return std::nullopt;
  std::string bytes;
  for (size_t i = dash + 1; i + 1 < key.size(); i += 2) {
    unsigned char byte = 0;
    auto [end, error] = std::from_chars(key.data() + i, key.data() + i + 2, byte, 16);
    if (error != std::errc() || end != key.data() + i + 2) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
  }
  if (bytes.size() < 5) return std::nullopt;
  uint32_t crc = Decoder(std::string_view(bytes).substr(bytes.size() - 4)).Get<uint32_t>();
  bytes.resize(bytes.size() - 4);
  if (crc != Crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())))) return std::nullopt;
  Decoder in{std::string_view(bytes)};
  Intent intent{key, {}, 0, 0, 0};
  auto kind = in.Get<uint8_t>();
  if (kind == 1) {
    ChunkEdit edit;
    in.GetInto(edit.uuid);
    edit.name.strand = in.Get<uint16_t>();
    edit.name.epoch = in.Get<uint32_t>();
    edit.name.seq = in.Get<uint64_t>();
    edit.name.nonce = in.Get<uint64_t>();
    in.GetInto(edit.prev);
    edit.block = in.Get<uint64_t>();
    edit.steps = in.Get<uint32_t>();
    edit.bytes = in.Get<uint64_t>();
    edit.header_bytes = in.Get<uint32_t>();
    edit.header_crc = in.Get<uint32_t>();
    edit.footer_bytes = in.Get<uint32_t>();
    edit.mixture = in.Get<uint32_t>();
    intent.strand = edit.name.strand;
    intent.epoch = edit.name.epoch;
    intent.seq = edit.name.seq;
    intent.edit = edit;
  } else if (kind == 2) {
    EndEdit edit;
    in.GetInto(edit.uuid);
    edit.strand = in.Get<uint16_t>();
    edit.epoch = in.Get<uint32_t>();
    in.GetInto(edit.prev);
    edit.block = in.Get<uint64_t>();
    intent.strand = edit.strand;
    intent.epoch = edit.epoch;
    intent.edit = edit;
  } else if (kind == 3) {
    BumpEdit edit;
    in.GetInto(edit.uuid);
    edit.strand = in.Get<uint16_t>();
    edit.from_epoch = in.Get<uint32_t>();
    edit.owner = in.Get<uint64_t>();
    intent.strand = edit.strand;
    intent.epoch = edit.from_epoch;
    intent.edit = edit;
  } else {
    return std::nullopt;
  }
  if (!in.Done()) return std::nullopt;
  std::vector<std::string> parts = Split(std::string_view(key).substr(8), '-');
  if (parts.size() != 4 || !ParseNumber(parts[2], intent.seq)) return std::nullopt;
  const auto* chunk = std::get_if<ChunkEdit>(&intent.edit);
  if (chunk != nullptr && chunk->name.seq != intent.seq) return std::nullopt;
  if (IntentKey(intent.edit, intent.seq) != key) return std::nullopt;
  return intent;
}

}  // namespace headrace
