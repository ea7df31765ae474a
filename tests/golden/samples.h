// One value of everything that is stored, with something in every field: what the golden files hold.
#pragma once

#include <string>
#include <vector>

#include "stream/cell.h"
#include "stream/chunk.h"
#include "stream/edit.h"
#include "stream/manifest.h"
#include "stream/segment.h"

namespace headrace::golden {

StreamInfo SampleInfo();
Manifest SampleManifest();

struct SampleSegment {
  SegmentRef wanted;  // level, blocks and nonce
  std::vector<Entry> entries;  // more than one group of them
  std::vector<SegmentRef> children;  // instead of entries
};
SampleSegment SampleEntries();
SampleSegment SampleChildren();

// The arrays of one cell.
std::vector<Array> SampleArrays(uint32_t step, uint32_t lane);
// The edit as its writer begins it, the cells of two steps, and the state for its footer.
ChunkEdit SampleChunkEdit();
ChunkBuilder::Finished SampleChunk(const StreamInfo& info, Codec codec);
std::string SampleState();

struct SampleIntent {
  Edit edit;
  uint64_t seq;
};
std::vector<SampleIntent> SampleIntents();

Entry EntryOf(const ChunkEdit& edit);

}  // namespace headrace::golden
