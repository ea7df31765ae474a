// Lays a block out for its trainer: of each step, the arrays of neighbouring lanes one behind another, column by column. So a column of all
// lanes is one array, as is each lane of it, and asking for it copies nothing.
//
// Cells are checked while they are copied, so that their bytes pass through the processor once. Nothing of a block is to be handed out
// before all of it is arranged.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/buffer_pool.h"
#include "load/step.h"
#include "stream/stream_reader.h"

namespace headrace {

// `pieces` are neighbouring lanes of `block.entry`, together `block.lanes`, read without being checked. Fills `block.cells`.
// `what` names a step and lane, for the error: kCorrupt.
Status Arrange(std::span<const StreamReader::Block> pieces, const std::vector<Column>& columns,
               const std::function<std::string(uint64_t step, uint32_t lane)>& what, BufferPool& pool, LoadedBlock& block);

// Checks the cells of one piece and puts them into the block as they are.
Status CheckCells(const StreamReader::Block& piece, const std::vector<Column>& columns,
                  const std::function<std::string(uint64_t step, uint32_t lane)>& what, LoadedBlock& block);
// Lays together what does not lie so yet in a block whose cells are there, and checked.
Status LayTogether(BufferPool& pool, LoadedBlock& block);

}  // namespace headrace
