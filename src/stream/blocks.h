// Public: include/headrace/blocks.h has it.
#pragma once

#include "headrace/blocks.h"
