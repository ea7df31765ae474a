// The state of a stream after one commit: immutable, self-contained, and never larger than 64 KiB.
//
// The newest manifest is the stream. It holds the strand table, the entries of the chunks that are visible but not yet sealed into
// the index, those that are parked beyond the frontier, references to the sealed index, pins, the trim point and the mixtures in
// force. Every table has a limit, and the limits together fit (`kMaxBytes`), however long the history.
//
// A manifest is a value. `Apply` (edit.h) makes the next one. docs/format/manifest.md has the bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "headrace/chunk.h"
#include "headrace/result.h"
#include "headrace/retention.h"
#include "stream/stream_info.h"

namespace headrace {

// The link of a strand's chain: what the next edit must name as `prev`.
using Link = std::array<unsigned char, 16>;

struct Strand {
  uint32_t epoch = 0;  // who may write: bumped by every start and take-over
  uint64_t owner = 0;  // a random number of the process that bumped it last; for people and for pace
  uint8_t idle_bumps = 0;  // bumps since the last chunk
  bool ended = false;
  uint64_t next_seq = 0;  // of the next chunk
  uint64_t next_block = 0;  // planned order: the block of the next chunk
  Link link{};  // what the next edit names as its prev
  uint64_t changed = 0;  // number of the manifest that changed this row last
  // The last chunk before the trim point, whose footer a restart there needs; those before it are not needed. A nonce of 0: none.
  uint64_t keep_seq = 0;
  uint32_t keep_epoch = 0;
  uint64_t keep_nonce = 0;
  // The last chunk, where the strand's state is; next_seq 0: none.
  uint32_t last_epoch = 0;
  uint64_t last_nonce = 0;
  uint64_t last_bytes = 0;
  uint32_t last_footer_bytes = 0;
  friend bool operator==(const Strand&, const Strand&) = default;
};

// A sealed piece of the index, an object of its own: the entries of the blocks [first_block, end_block).
struct SegmentRef {
  uint8_t level = 0;
  uint64_t first_block = 0;
  uint64_t end_block = 0;
  uint64_t first_step = 0;
  uint64_t end_step = 0;
  uint32_t count = 0;  // entries in it, or references below it
  uint32_t crc = 0;  // of its header
  uint64_t nonce = 0;

  std::string Key() const;  // index/<level>-<first block>-<end block>-<nonce>
  static std::optional<SegmentRef> FromKey(const std::string& key);  // without what a key does not say
  friend bool operator==(const SegmentRef&, const SegmentRef&) = default;
};

// From `first_block` on, blocks are drawn with the mixture `number`.
struct MixtureRef {
  uint32_t number = 0;
  uint64_t first_block = 0;
  uint64_t nonce = 0;  // of the object mixtures/<number>-<nonce>
  friend bool operator==(const MixtureRef&, const MixtureRef&) = default;
};

struct Manifest {
  static constexpr size_t kMaxBytes = 65536;
  static constexpr size_t kMaxEntries = 384;  // tail and parked together
  static constexpr size_t kFold = 8;  // segments of one level that become one of the next
  static constexpr size_t kLevels = 10;
  static constexpr size_t kMaxRefsPerLevel = 12;
  static constexpr size_t kMaxPins = 128;
  static constexpr size_t kMaxPinName = 40;
  static constexpr size_t kMaxMixtures = 8;

  Uuid uuid{};
  uint64_t number = 0;
  uint64_t nonce = 0;
  Sha256Digest previous{};  // hash of the manifest before

  Order order = Order::kPlanned;
  bool finished = false;  // sealed: no step will follow
  uint64_t frontier_block = 0;  // blocks below are visible (or void)
  uint64_t frontier_step = 0;  // steps below are visible
  uint64_t trim_block = 0;  // entries below are not needed any more
  uint64_t trim_step = 0;
  uint64_t decisions = 0;  // mixtures decided so far

  std::vector<Strand> strands;
  std::vector<Entry> tail;  // visible, not sealed; by block
  std::vector<Entry> parked;  // by block
  std::array<std::vector<SegmentRef>, kLevels> index;
  std::vector<Pin> pins;  // by name
  std::vector<MixtureRef> mixtures;

  // The first manifest of a stream.
  static Manifest First(const StreamInfo& info, uint64_t nonce);
  // What the first edit of a strand names as its prev: nobody else's chain begins like this.
  static Link FirstLink(const StreamInfo& info, uint16_t strand);

  std::string Encode() const;
  // `what` names the object, for the error.
  static Result<Manifest> Decode(std::span<const std::byte> bytes, std::string_view what);
  static Sha256Digest Hash(std::string_view encoded) { return Sha256Of(encoded); }

  // The block after the last sealed one.
  uint64_t sealed_block() const;
  // Where the next segment of a level must begin. Never goes back.
  uint64_t NextSegmentBlock(size_t level) const;
  bool AllEnded() const;
  // The mixture that a block must be drawn with.
  uint32_t MixtureOf(uint64_t block) const;
  const Pin* FindPin(std::string_view name) const;
  std::optional<uint64_t> LowestPin() const;
  std::optional<ChunkName> LastChunk(uint16_t strand) const;
  // The strand's last chunk before the trim point.
  std::optional<ChunkName> KeptChunk(uint16_t strand) const;
};

// How an entry and a reference stand in manifests and segments; the same bytes in both.
class Encoder;
class Decoder;
inline constexpr size_t kEntryBytes = 64;
inline constexpr size_t kSegmentRefBytes = 56;
void EncodeEntry(const Entry& entry, Encoder& out);
Entry DecodeEntry(Decoder& in);
void EncodeSegmentRef(const SegmentRef& ref, Encoder& out);
SegmentRef DecodeSegmentRef(Decoder& in);

}  // namespace headrace
