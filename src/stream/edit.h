// A change of a stream: it fits the manifest that it extends, or it does not.
//
// `Apply` is the only place where the rules of the protocol are decided: the same check for a fresh edit, one that was rebased, one
// that another process posted as an intent, and one of a zombie. docs/design/0003-stream.md says which interleaving each rule excludes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/rules.h"
#include "headrace/status.h"
#include "stream/manifest.h"

namespace headrace {

// A finished chunk joins the stream.
struct ChunkEdit {
  Uuid uuid{};
  ChunkName name;
  Link prev{};
  uint64_t block = 0;  // planned order; in arrival order the commit decides
  uint32_t steps = 0;
  uint64_t bytes = 0;
  uint32_t header_bytes = 0;
  uint32_t header_crc = 0;
  uint32_t footer_bytes = 0;
  uint32_t mixture = 0;
  bool finish = false;  // the last chunk of the stream, packed from what the ended strands had left; seals it
  friend bool operator==(const ChunkEdit&, const ChunkEdit&) = default;
};

// A strand has run dry: its turn from `block` on falls to nobody.
struct EndEdit {
  Uuid uuid{};
  uint16_t strand = 0;
  uint32_t epoch = 0;
  Link prev{};
  uint64_t block = 0;
  friend bool operator==(const EndEdit&, const EndEdit&) = default;
};

// Seals a stream whose strands have all ended and left nothing.
struct FinishEdit {
  Uuid uuid{};
  friend bool operator==(const FinishEdit&, const FinishEdit&) = default;
};

// Takes a strand: whoever wrote under the old epoch is fenced from here on.
struct BumpEdit {
  Uuid uuid{};
  uint16_t strand = 0;
  uint32_t from_epoch = 0;
  uint64_t owner = 0;
  friend bool operator==(const BumpEdit&, const BumpEdit&) = default;
};

// Holds a step, and may let go of another pin in the same commit. The same name again moves the pin.
struct PinEdit {
  Pin pin;
  std::string instead_of;
  friend bool operator==(const PinEdit&, const PinEdit&) = default;
};
struct UnpinEdit {
  std::string name;
  friend bool operator==(const UnpinEdit&, const UnpinEdit&) = default;
};
// Shows that the holder of a pin with a term is alive.
struct RenewEdit {
  std::string name;
  friend bool operator==(const RenewEdit&, const RenewEdit&) = default;
};
// Takes away a pin whose counter stood at `counter` for its whole term on the observer's clock.
struct ExpireEdit {
  std::string name;
  uint64_t counter = 0;
  friend bool operator==(const ExpireEdit&, const ExpireEdit&) = default;
};

// Gives up everything before `block`, whose first step is `step`. `keep` has, for strands with chunks before that, the last of
// them, which stays.
struct TrimEdit {
  uint64_t block = 0;
  uint64_t step = 0;
  std::vector<ChunkName> keep;
  friend bool operator==(const TrimEdit&, const TrimEdit&) = default;
};

// Moves the oldest entries of the tail into a segment (level 0), or the oldest segments of one level into one of the next.
struct SealEdit {
  SegmentRef ref;
  friend bool operator==(const SealEdit&, const SealEdit&) = default;
};

// The `decision`-th mixture: in force from the first block after everything committed or parked.
struct MixtureEdit {
  Uuid uuid{};
  uint64_t decision = 0;
  uint64_t nonce = 0;
  friend bool operator==(const MixtureEdit&, const MixtureEdit&) = default;
};

using Edit = std::variant<ChunkEdit, EndEdit, FinishEdit, BumpEdit, PinEdit, UnpinEdit, RenewEdit, ExpireEdit, TrimEdit, SealEdit,
                          MixtureEdit>;

// The link of a strand's chain after this chunk.
Link NextLink(const ChunkEdit& edit);
Link NextLink(const EndEdit& edit);

// Changes `manifest` as the edit says, or refuses with the reason and leaves it as it was. kFenced: the writer has lost its strand and must
// stop. kConflict: it does not fit here (any more). kFull: a table is full; the message says what makes room. kStalled: it will fit when
// the other strands have made progress.
Status Apply(Manifest& manifest, const Edit& edit, const StreamInfo& info, const Rules& rules = {});

// The manifest after `before` with nothing changed yet: number, nonce and hash of the one before are set.
Manifest Successor(const Manifest& before, std::string_view before_encoded, uint64_t nonce);

// A chunk's, end's or bump's edit as the key of an intent, "pending/<strand>-<epoch>-<seq>-<the edit>", so that a listing alone brings it.
std::string IntentKey(const Edit& edit, uint64_t seq);
struct Intent {
  std::string key;
  Edit edit;
  uint16_t strand = 0;
  uint32_t epoch = 0;
  uint64_t seq = 0;
};
// Nothing if the key is damaged: such an intent can never be carried.
std::optional<Intent> ParseIntentKey(const std::string& key);
// Whether the intent can never fit any more, by this manifest.
bool Behind(const Intent& intent, const Manifest& manifest);

}  // namespace headrace
