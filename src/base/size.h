// Sizes and times as people write them: 2GB, 64MiB, 500KB, 1.5s, 20ms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "headrace/clock.h"
#include "headrace/result.h"

namespace headrace {

// "2GB" is 2·10⁹, "2GiB" (or "2Gi") is 2·2³⁰; a bare number counts bytes. Capitals do not matter, a space may stand before the unit.
Result<uint64_t> ParseSize(std::string_view text);
// "1.5GB", "64MB", "312 B": three digits at most, decimal units.
std::string FormatSize(double bytes);

// "90s", "1.5m", "200ms", "2h"; a bare number counts seconds.
Result<Duration> ParseDuration(std::string_view text);
std::string FormatDuration(Duration time);

}  // namespace headrace
