// The bytes of a file, block by block, decompressed on the way if its name says that it is compressed (.gz, .zst, .bz2, .lz4).
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "source/lake.h"

namespace headrace {

// The next bytes; none at the end. One user at a time.
using ByteSource = std::function<Result<Bytes>(const Deadline& deadline)>;

bool IsCompressed(std::string_view uri);

// From `offset` on; small blocks first, for those who want only a little.
ByteSource PlainBytes(std::shared_ptr<const Lake> lake, LakeFile file, uint64_t offset);
Result<ByteSource> CompressedBytes(const std::shared_ptr<const Lake>& lake, const LakeFile& file);

}  // namespace headrace
