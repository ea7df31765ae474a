// Reading from a descriptor that may have nothing to say for a long time: Ctrl-C does not end a read, so waiting is done apart from it.
#pragma once

#include <cstddef>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "headrace/result.h"

namespace headrace::cli {

// The first bytes that come, at most as many as `into` has room for; 0 at the end. kCancelled once `stop` asks. `name` is for the error.
Result<size_t> ReadWhenReady(int descriptor, std::span<char> into, std::string_view name, const std::stop_token& stop);

// Waits for the first bytes and leaves them where they are: at most `bytes`, fewer if no more have come. Nothing where that cannot be
// done (a terminal) and at the end.
Result<std::string> PeekWhenReady(int descriptor, size_t bytes, const std::stop_token& stop);

}  // namespace headrace::cli
