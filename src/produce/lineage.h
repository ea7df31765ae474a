// Where every element of a chunk came from: a Parquet file beside it, lineage/<as the chunk>, for people and for policies.
//
// Written before the chunk is committed and named like it, so that it is there when the chunk is; it goes when the chunk goes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "produce/constructor.h"
#include "stream/stream_log.h"

namespace headrace {

// "lineage/<strand>/<epoch>-<seq>-<nonce>"
std::string LineageKey(const ChunkName& name);

// `file`: the URI of a file of a source's inventory.
Result<std::string> EncodeLineage(std::span<const LineageRow> rows, const std::vector<std::string>& sources, uint32_t mixture,
                                  const std::function<const std::string&(uint16_t source, uint32_t file)>& file);

struct LineageSample {
  uint32_t step = 0;  // of the chunk
  uint32_t lane = 0, sequence = 0, position = 0;
  std::string source, file;
  int64_t row = 0;
  uint32_t start = 0, length = 0;
  uint32_t mixture = 0;
};
Result<std::vector<LineageSample>> DecodeLineage(const Bytes& bytes, std::string_view what);

}  // namespace headrace
