// Public: include/headrace/stream_reader.h has it.
#pragma once

#include "headrace/stream_reader.h"
#include "stream/cell.h"
#include "stream/chunk.h"
#include "stream/stream_log.h"
