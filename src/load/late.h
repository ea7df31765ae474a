// Who keeps the stream waiting: read off the strand table, for the person who is asked why the training stands still.
#pragma once

#include <string>

#include "stream/manifest.h"
#include "stream/owners.h"
#include "stream/stream_info.h"

namespace headrace {

// "block 30 is missing; strand 2 makes it (owner trainer-3 (4f3a09bb2c1d7e65), epoch 3, 15 chunks so far), and 5 blocks of others wait for it".
std::string WhoIsLate(const Manifest& manifest, const StreamInfo& info, const OwnerNames& names = {});

}  // namespace headrace
