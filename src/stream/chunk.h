// A block as one immutable object: k steps × L lanes, laid out lane by lane.
//
//   header | lane 0: directory, cells of step 0 … k−1 | lane 1 … | footer
//
// The header has the offset of every lane, so that any run of neighbouring lanes over all steps is one range; a lane begins with
// the directory of its cells (offset, size, checksum), so that a reader needs nothing of the others'. The manifest's entry has the
// checksum of the header, the header those of the directories and the footer, a directory those of its cells: nothing that is
// read goes unchecked. The footer carries the state of the strand after this chunk. docs/format/chunk.md has the bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headrace/chunk.h"
#include "headrace/store.h"
#include "stream/edit.h"

namespace headrace {

// Puts a chunk together. Cells are borrowed until `Finish`; nothing is copied but what is compressed.
class ChunkBuilder {
 public:
  ChunkBuilder(const StreamInfo& info, ChunkOptions options) : info_(info), options_(options) {}

  // The next step: one cell per lane.
  Status AddStep(std::vector<Body> cells);
  uint32_t steps() const { return static_cast<uint32_t>(steps_.size()); }
  uint64_t bytes() const { return bytes_; }

  struct Finished {
    Body body;
    ChunkEdit edit;  // everything that the commit needs
  };
  // `edit` says who makes the chunk and where it belongs (uuid, name, prev, block, mixture); `state` goes into the footer.
  Finished Finish(ChunkEdit edit, Bytes state);

 private:
  const StreamInfo& info_;
  ChunkOptions options_;
  std::vector<std::vector<Body>> steps_;
  uint64_t bytes_ = 0;
};

struct ChunkHeader {
  ChunkEdit edit;  // as far as the chunk itself knows it
  uint32_t lanes = 0;
  uint64_t footer_offset = 0;
  uint32_t footer_crc = 0;
  struct Lane {
    uint64_t offset;
    uint32_t directory_crc;
  };
  std::vector<Lane> lane;  // one more than there are lanes: the last ends at the footer

  static size_t Bytes(uint32_t lanes);
};

struct CellPlace {
  uint64_t offset;  // in the chunk
  uint32_t stored;
  uint32_t raw;
  uint32_t crc;  // of the stored bytes
  Codec codec;
};

// Checks a header against the entry that names it.
Result<ChunkHeader> DecodeChunkHeader(std::span<const std::byte> bytes, const Entry& entry, const StreamInfo& info,
                                      std::string_view what);
// How long the directory at the beginning of a lane is.
uint64_t DirectoryBytes(uint32_t steps);
// The cells of one lane, from its bytes; those of the directory are enough.
Result<std::vector<CellPlace>> DecodeDirectory(std::span<const std::byte> lane, const ChunkHeader& header, uint32_t which,
                                               std::string_view what);
// The bytes of a cell: a slice of `lane` (which begins at `lane_offset` of the chunk) or what it unpacks to.
Result<headrace::Bytes> UnpackCell(const headrace::Bytes& lane, uint64_t lane_offset, const CellPlace& place,
                                   std::string_view what);
// The same for a cell that is not packed, and not checked: the caller does that.
Result<headrace::Bytes> CellAsStored(const headrace::Bytes& lane, uint64_t lane_offset, const CellPlace& place,
                                     std::string_view what);
// The strand's state, out of the last bytes of a chunk.
Result<headrace::Bytes> DecodeFooter(const headrace::Bytes& footer, const Uuid& uuid, const ChunkName& name,
                                     std::string_view what);

}  // namespace headrace
