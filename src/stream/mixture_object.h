// The objects mixtures/<number>-<nonce>, which say what the mixtures of a stream are. What is in them is for those who make and read recipes.
#pragma once

#include "stream/stream_log.h"

namespace headrace {

std::string MixtureKey(uint32_t number, uint64_t nonce);

struct MixtureObject {
  std::string key;
  Bytes bytes;
};
// The mixture `number` (from 1 on: the first one stands in the recipe), by the newest manifest that this process knows or, if it is not
// in there any more, by its key.
Result<MixtureObject> ReadMixtureObject(StreamLog& log, uint32_t number, const Deadline& deadline);

}  // namespace headrace
