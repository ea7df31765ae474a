#include "stream/manifest.h"

#include <algorithm>
#include <charconv>

#include "base/codec.h"
#include "base/crc32c.h"
#include "base/text.h"

namespace headrace {
namespace {

constexpr std::string_view kMagic = "HRmanif1";
constexpr size_t kStrandBytes = 100;
constexpr size_t kPinFixedBytes = 2 + 8 + 8 + 4;
constexpr size_t kMixtureBytes = 20;
constexpr size_t kFixedBytes = 256;  // everything of which there is one

static_assert(kFixedBytes + StreamInfo::kMaxStrands * kStrandBytes + Manifest::kMaxEntries * kEntryBytes +
                      Manifest::kLevels * Manifest::kMaxRefsPerLevel * kSegmentRefBytes +
                      Manifest::kMaxPins * (kPinFixedBytes + Manifest::kMaxPinName) + Manifest::kMaxMixtures * kMixtureBytes <=
                  Manifest::kMaxBytes,
              "the tables of a manifest must fit together even when all are full");

void EncodeStrand(const Strand& strand, Encoder& out) {
  out.Put(strand.epoch);
  out.Put(strand.idle_bumps);
  out.Put(static_cast<uint8_t>(strand.ended));
  out.Put(uint16_t{0});
  out.Put(strand.owner);
  out.Put(strand.next_seq);
  out.Put(strand.next_block);
  out.PutRaw(strand.link.data(), strand.link.size());
  out.Put(strand.changed);
  out.Put(strand.keep_seq);
  out.Put(strand.keep_nonce);
  out.Put(strand.keep_epoch);
  out.Put(strand.last_epoch);
  out.Put(strand.last_footer_bytes);
  out.Put(strand.last_nonce);
  out.Put(strand.last_bytes);
}

Strand DecodeStrand(Decoder& in) {
  Strand strand;
  strand.epoch = in.Get<uint32_t>();
  strand.idle_bumps = in.Get<uint8_t>();
  strand.ended = in.GetAtMost<uint8_t>(1) != 0;
  in.Get<uint16_t>();
  strand.owner = in.Get<uint64_t>();
  strand.next_seq = in.Get<uint64_t>();
  strand.next_block = in.Get<uint64_t>();
  in.GetInto(strand.link);
  strand.changed = in.Get<uint64_t>();
  strand.keep_seq = in.Get<uint64_t>();
  strand.keep_nonce = in.Get<uint64_t>();
  strand.keep_epoch = in.Get<uint32_t>();
  strand.last_epoch = in.Get<uint32_t>();
  strand.last_footer_bytes = in.Get<uint32_t>();
  strand.last_nonce = in.Get<uint64_t>();
  strand.last_bytes = in.Get<uint64_t>();
  return strand;
}

// The numbers between the separators of a key, the last one in hexadecimal.
bool ParseNumbers(std::string_view text, std::span<uint64_t> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    bool last = i + 1 == numbers.size();
    size_t end = last ? text.size() : text.find_first_of("-/");
    if (end == std::string_view::npos || end == 0) return false;
    auto [stop, error] = std::from_chars(text.data(), text.data() + end, numbers[i], last ? 16 : 10);
    if (error != std::errc() || stop != text.data() + end) return false;
    text.remove_prefix(last ? end : end + 1);
  }
  return true;
}

std::string HexNonce(uint64_t nonce) {
  char digits[16];
  auto [end, _] = std::to_chars(digits, digits + 16, nonce, 16);
  return std::string(16 - static_cast<size_t>(end - digits), '0') + std::string(digits, end);
}

}  // namespace

std::string ChunkName::Key() const { return Cat("data/", strand, "/", epoch, "-", seq, "-", HexNonce(nonce)); }

std::optional<ChunkName> ChunkName::FromKey(const std::string& key) {
  std::array<uint64_t, 4> numbers{};
  if (!key.starts_with("data/") || !ParseNumbers(std::string_view(key).substr(5), numbers)) return std::nullopt;
  ChunkName name{static_cast<uint16_t>(numbers[0]), static_cast<uint32_t>(numbers[1]), numbers[2], numbers[3]};
  if (name.Key() != key) return std::nullopt;
  return name;
}

std::string SegmentRef::Key() const { return Cat("index/", level, "-", first_block, "-", end_block, "-", HexNonce(nonce)); }

std::optional<SegmentRef> SegmentRef::FromKey(const std::string& key) {
  std::array<uint64_t, 4> numbers{};
  if (!key.starts_with("index/") || !ParseNumbers(std::string_view(key).substr(6), numbers)) return std::nullopt;
  SegmentRef ref;
  ref.level = static_cast<uint8_t>(numbers[0]);
  ref.first_block = numbers[1];
  ref.end_block = numbers[2];
  ref.nonce = numbers[3];
  if (ref.Key() != key) return std::nullopt;
  return ref;
}

void EncodeEntry(const Entry& entry, Encoder& out) {
  out.Put(entry.block);
  out.Put(entry.first_step);
  out.Put(entry.name.seq);
  out.Put(entry.name.nonce);
  out.Put(entry.bytes);
  out.Put(entry.steps);
  out.Put(entry.name.epoch);
  out.Put(entry.header_bytes);
  out.Put(entry.header_crc);
  out.Put(entry.mixture);
  out.Put(entry.name.strand);
  out.Put(uint16_t{0});
}

Entry DecodeEntry(Decoder& in) {
  Entry entry;
  entry.block = in.Get<uint64_t>();
  entry.first_step = in.Get<uint64_t>();
  entry.name.seq = in.Get<uint64_t>();
  entry.name.nonce = in.Get<uint64_t>();
  entry.bytes = in.Get<uint64_t>();
  entry.steps = in.Get<uint32_t>();
  entry.name.epoch = in.Get<uint32_t>();
  entry.header_bytes = in.Get<uint32_t>();
  entry.header_crc = in.Get<uint32_t>();
  entry.mixture = in.Get<uint32_t>();
  entry.name.strand = in.Get<uint16_t>();
  in.Get<uint16_t>();
  return entry;
}

void EncodeSegmentRef(const SegmentRef& ref, Encoder& out) {
  out.Put(ref.first_block);
  out.Put(ref.end_block);
  out.Put(ref.first_step);
  out.Put(ref.end_step);
  out.Put(ref.nonce);
  out.Put(ref.count);
  out.Put(ref.crc);
  out.Put(ref.level);
  for (int i = 0; i < 7; ++i) out.Put(uint8_t{0});
}

SegmentRef DecodeSegmentRef(Decoder& in) {
  SegmentRef ref;
  ref.first_block = in.Get<uint64_t>();
  ref.end_block = in.Get<uint64_t>();
  ref.first_step = in.Get<uint64_t>();
  ref.end_step = in.Get<uint64_t>();
  ref.nonce = in.Get<uint64_t>();
  ref.count = in.Get<uint32_t>();
  ref.crc = in.Get<uint32_t>();
  ref.level = in.GetAtMost<uint8_t>(Manifest::kLevels - 1);
  in.GetRaw(7);
  return ref;
}

Manifest Manifest::First(const StreamInfo& info, uint64_t nonce) {
  Manifest first;
  first.uuid = info.uuid;
  first.nonce = nonce;
  first.order = info.order;
  first.strands.resize(info.strands);
  for (uint32_t v = 0; v < info.strands; ++v) {
    first.strands[v].next_block = v;
    first.strands[v].link = FirstLink(info, static_cast<uint16_t>(v));
  }
  return first;
}

Link Manifest::FirstLink(const StreamInfo& info, uint16_t strand) {
  Sha256Digest digest = Sha256Of(Cat(UuidText(info.uuid), "/", strand, "/", info.recipe_hash));
  Link link;
  std::copy_n(digest.begin(), link.size(), link.begin());
  return link;
}

std::string Manifest::Encode() const {
  Encoder out;
  out.PutRaw(kMagic);
  out.PutRaw(uuid.data(), uuid.size());
  out.Put(number);
  out.Put(nonce);
  out.PutRaw(previous.data(), previous.size());
  out.Put(static_cast<uint8_t>(order));
  out.Put(static_cast<uint8_t>(finished));
  out.Put(static_cast<uint16_t>(strands.size()));
  out.Put(static_cast<uint16_t>(tail.size()));
  out.Put(static_cast<uint16_t>(parked.size()));
  out.Put(static_cast<uint16_t>(pins.size()));
  out.Put(static_cast<uint16_t>(mixtures.size()));
  uint16_t refs = 0;
  for (const auto& level : index) refs = static_cast<uint16_t>(refs + level.size());
  out.Put(refs);
  out.Put(uint16_t{0});
  out.Put(frontier_block);
  out.Put(frontier_step);
  out.Put(trim_block);
  out.Put(trim_step);
  out.Put(decisions);
  for (const Strand& strand : strands) EncodeStrand(strand, out);
  for (const Entry& entry : tail) EncodeEntry(entry, out);
  for (const Entry& entry : parked) EncodeEntry(entry, out);
  for (const auto& level : index) {
    for (const SegmentRef& ref : level) EncodeSegmentRef(ref, out);
  }
  for (const Pin& pin : pins) {
    out.PutText(pin.name);
    out.Put(pin.step);
    out.Put(pin.counter);
    out.Put(pin.term_seconds);
  }
  for (const MixtureRef& mixture : mixtures) {
    out.Put(mixture.number);
    out.Put(mixture.first_block);
    out.Put(mixture.nonce);
  }
  std::string_view text = out.text();
  out.Put(Crc32c(std::as_bytes(std::span(text.data(), text.size()))));
  return out.Take();
}

Result<Manifest> Manifest::Decode(std::span<const std::byte> bytes, std::string_view what) {
  auto damaged = [&](std::string_view why) { return Status(Code::kCorrupt, Cat("the manifest ", what, " is damaged: ", why)); };
  if (bytes.size() > kMaxBytes) return damaged(Cat("it has ", bytes.size(), " bytes, more than any manifest"));
  if (bytes.size() < kMagic.size() + 4) return damaged(Cat("it has only ", bytes.size(), " bytes"));
  Decoder tail_in(bytes.last(4));
  if (tail_in.Get<uint32_t>() != Crc32c(bytes.first(bytes.size() - 4))) return damaged("its checksum does not fit its bytes");
  Decoder in(bytes.first(bytes.size() - 4));
  std::span<const std::byte> magic = in.GetRaw(kMagic.size());
  std::string_view seen(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (seen != kMagic) {
    if (seen.starts_with("HRmanif"))
      return Status(Code::kUnsupported, Cat("the manifest ", what, " has another format version: use a newer Headrace"));
    return damaged("it does not begin as one");
  }
  Manifest manifest;
  in.GetInto(manifest.uuid);
  manifest.number = in.Get<uint64_t>();
  manifest.nonce = in.Get<uint64_t>();
  in.GetInto(manifest.previous);
  manifest.order = static_cast<Order>(in.GetAtMost<uint8_t>(1));
  manifest.finished = in.GetAtMost<uint8_t>(1) != 0;
  auto strands = in.GetAtMost<uint16_t>(StreamInfo::kMaxStrands);
  auto tail = in.GetAtMost<uint16_t>(kMaxEntries);
  auto parked = in.GetAtMost<uint16_t>(kMaxEntries);
  auto pins = in.GetAtMost<uint16_t>(kMaxPins);
  auto mixtures = in.GetAtMost<uint16_t>(kMaxMixtures);
  auto refs = in.GetAtMost<uint16_t>(kLevels * kMaxRefsPerLevel);
  in.Get<uint16_t>();
  manifest.frontier_block = in.Get<uint64_t>();
  manifest.frontier_step = in.Get<uint64_t>();
  manifest.trim_block = in.Get<uint64_t>();
  manifest.trim_step = in.Get<uint64_t>();
  manifest.decisions = in.Get<uint64_t>();
  for (int i = 0; i < strands; ++i) manifest.strands.push_back(DecodeStrand(in));
  for (int i = 0; i < tail; ++i) manifest.tail.push_back(DecodeEntry(in));
  for (int i = 0; i < parked; ++i) manifest.parked.push_back(DecodeEntry(in));
  for (int i = 0; i < refs; ++i) {
    SegmentRef ref = DecodeSegmentRef(in);
    manifest.index[ref.level].push_back(ref);
  }
  for (int i = 0; i < pins; ++i) {
    Pin& pin = manifest.pins.emplace_back();
    pin.name = in.GetText(kMaxPinName);
    pin.step = in.Get<uint64_t>();
    pin.counter = in.Get<uint64_t>();
    pin.term_seconds = in.Get<uint32_t>();
  }
  for (int i = 0; i < mixtures; ++i) {
    MixtureRef& mixture = manifest.mixtures.emplace_back();
    mixture.number = in.Get<uint32_t>();
    mixture.first_block = in.Get<uint64_t>();
    mixture.nonce = in.Get<uint64_t>();
  }
  if (!in.Done()) return damaged("its tables do not fit its length");
  return manifest;
}

uint64_t Manifest::sealed_block() const {
  for (const auto& level : index) {
    if (!level.empty()) return level.back().end_block;
  }
  return trim_block;
}

uint64_t Manifest::NextSegmentBlock(size_t level) const {
  for (; level > 0; --level) {
    if (!index[level - 1].empty()) return index[level - 1].front().first_block;
  }
  return sealed_block();
}

bool Manifest::AllEnded() const { return std::ranges::all_of(strands, &Strand::ended); }

uint32_t Manifest::MixtureOf(uint64_t block) const {
  uint32_t in_force = 0;
  for (const MixtureRef& mixture : mixtures) {
    if (mixture.first_block <= block) in_force = mixture.number;
  }
  return in_force;
}

const Pin* Manifest::FindPin(std::string_view name) const {
  auto found = std::ranges::find(pins, name, &Pin::name);
  return found == pins.end() ? nullptr : &*found;
}

std::optional<uint64_t> Manifest::LowestPin() const {
  if (pins.empty()) return std::nullopt;
  return std::ranges::min(pins, {}, &Pin::step).step;
}

std::optional<ChunkName> Manifest::LastChunk(uint16_t strand) const {
  const Strand& row = strands[strand];
  if (row.next_seq == 0) return std::nullopt;
  return ChunkName{strand, row.last_epoch, row.next_seq - 1, row.last_nonce};
}

std::optional<ChunkName> Manifest::KeptChunk(uint16_t strand) const {
  const Strand& row = strands[strand];
  if (row.keep_nonce == 0) return std::nullopt;
  return ChunkName{strand, row.keep_epoch, row.keep_seq, row.keep_nonce};
}

}  // namespace headrace
