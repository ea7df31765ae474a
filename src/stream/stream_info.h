// Public: include/headrace/stream_info.h has it.
#pragma once

#include "headrace/stream_info.h"
