// Public: include/headrace/strand_writer.h has it.
#pragma once

#include "headrace/strand_writer.h"
#include "stream/chunk.h"
#include "stream/stream_log.h"
