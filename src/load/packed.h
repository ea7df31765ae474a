// What a packed batch means: documents one after another in sequences of one length.
//
// A stream is packed if its cells have `tokens` [n, length] and `cu_seqlens` (int32, where each document begins in the flattened
// sequences, and the end of the last). Padding is a document of its own, with the source −1; every sequence begins a new one. `loss_mask` [n, length]
// says which tokens count as targets; all, if there is none. `step_stats` has what all ranks need to know of the whole step.
//
// Labels and positions are not stored, since they follow from these.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "stream/cell.h"

namespace headrace {

// Which arrays of a cell are which; −1 where there is none.
struct PackedColumns {
  int tokens = -1;
  int cu_seqlens = -1;
  int source = -1;
  int loss_mask = -1;
  int step_stats = -1;

  // Nothing if the stream is not packed.
  static std::optional<PackedColumns> Find(const std::vector<Column>& columns);
};

// Ok if the arrays of a cell are what a packed stream holds. `what` names the place.
Status CheckPacked(std::span<const Array> cell, const PackedColumns& columns, std::string_view what);

inline constexpr int32_t kIgnoredLabel = -100;

enum class LabelStyle {
  kShifted,  // labels[i] is the token after i
  kUnshifted,  // labels[i] is the token at i: for models that shift by themselves
};

// One label per token: kIgnoredLabel where there is no target in the same document, where it does not count, and in padding.
void WriteLabels(std::span<const Array> cell, const PackedColumns& columns, LabelStyle style, std::span<int32_t> out);
// 0, 1, 2, … from the beginning of each document.
void WritePositions(std::span<const Array> cell, const PackedColumns& columns, std::span<int32_t> out);

}  // namespace headrace
