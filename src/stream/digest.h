// What a step holds, as one hash: the columns and bytes of every lane, not how they are stored.
//
// Equal streams have equal digests, whatever their chunks, compression, strands or uuid. docs/format/digest.md has what is hashed.
#pragma once

#include <functional>
#include <string>

#include "stream/stream_reader.h"

namespace headrace {

// Calls `visit` with each step's number and digest (64 hexadecimal digits), in order, for the steps [from, to).
Status DigestSteps(StreamReader& reader, const StreamInfo& info, uint64_t from, uint64_t to, const Deadline& deadline,
                   const std::function<Status(uint64_t step, const std::string& digest)>& visit);

}  // namespace headrace
