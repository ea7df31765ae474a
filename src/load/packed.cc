#include "load/packed.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace headrace {
namespace {

template <typename Element>
std::span<const Element> Elements(const Array& array) {
  return {reinterpret_cast<const Element*>(array.bytes.data()), array.bytes.size() / sizeof(Element)};
}

bool IsTokenType(Dtype dtype) {
  return dtype == Dtype::kU8 || dtype == Dtype::kU16 || dtype == Dtype::kI32 || dtype == Dtype::kU32 || dtype == Dtype::kI64;
}

template <typename Token>
void WriteLabelsOf(std::span<const Token> tokens, std::span<const int32_t> bounds, std::span<const int16_t> source,
                   std::span<const uint8_t> mask, LabelStyle style, std::span<int32_t> out) {
  // A target at `i` stands at `i - back`.
  const size_t back = style == LabelStyle::kShifted ? 1 : 0;
  for (size_t d = 0; d + 1 < bounds.size(); ++d) {
    auto begin = static_cast<size_t>(bounds[d]);
    auto end = static_cast<size_t>(bounds[d + 1]);
    if (begin == end) continue;
    if (!source.empty() && source[d] < 0) {
      std::fill(out.begin() + begin, out.begin() + end, kIgnoredLabel);
      continue;
    }
    out[back == 1 ? end - 1 : begin] = kIgnoredLabel;
    for (size_t i = begin + 1; i < end; ++i) out[i - back] = static_cast<int32_t>(tokens[i]);
    if (mask.empty()) continue;
    for (size_t i = begin + 1; i < end; ++i) {
      if (mask[i] == 0) out[i - back] = kIgnoredLabel;
    }
  }
}

}  // namespace

std::optional<PackedColumns> PackedColumns::Find(const std::vector<Column>& columns) {
  PackedColumns found;
  int at = 0;
  for (const Column& column : columns) {
    bool plain = column.kind == Column::kArray;
    if (plain && column.name == "tokens" && IsTokenType(column.dtype)) found.tokens = at;
    if (plain && column.name == "cu_seqlens" && column.dtype == Dtype::kI32) found.cu_seqlens = at;
    if (plain && column.name == "source" && column.dtype == Dtype::kI16) found.source = at;
    if (plain && column.name == "loss_mask" && (column.dtype == Dtype::kU8 || column.dtype == Dtype::kBool)) found.loss_mask = at;
    if (plain && column.name == "step_stats" && column.dtype == Dtype::kI64) found.step_stats = at;
    at += column.arrays();
  }
  if (found.tokens < 0 || found.cu_seqlens < 0) return std::nullopt;
  return found;
}

Status CheckPacked(std::span<const Array> cell, const PackedColumns& columns, std::string_view what) {
  auto wrong = [&](std::string_view why) { return Status(Code::kCorrupt, Cat(what, " is no packed batch: ", why)); };
  const Array& tokens = cell[columns.tokens];
  if (tokens.shape.size() != 2) return wrong("`tokens` has not two dimensions, sequences and their length");
  const uint64_t length = tokens.shape[1];
  const Array& cu = cell[columns.cu_seqlens];
  if (cu.shape.size() != 1 || cu.shape[0] == 0) return wrong("`cu_seqlens` is not a list of numbers");
  std::span<const int32_t> bounds = Elements<int32_t>(cu);
  if (bounds.front() != 0 || static_cast<uint64_t>(bounds.back()) != tokens.elements())
    return wrong("`cu_seqlens` does not go from 0 to the number of tokens");
  uint64_t next_sequence = length;
  for (size_t i = 1; i < bounds.size(); ++i) {
    if (bounds[i] < bounds[i - 1]) return wrong("`cu_seqlens` falls");
    auto bound = static_cast<uint64_t>(bounds[i]);
    if (bound > next_sequence) return wrong("`cu_seqlens` has a document that goes over the end of a sequence");
    if (bound == next_sequence) next_sequence += length;
  }
  const uint64_t documents = bounds.size() - 1;
  if (columns.source >= 0 && (cell[columns.source].shape.size() != 1 || cell[columns.source].shape[0] != documents))
    return wrong("`source` has not one number per document");
  if (columns.loss_mask >= 0 && cell[columns.loss_mask].shape != tokens.shape)
    return wrong("`loss_mask` has not the shape of `tokens`");
  if (columns.step_stats >= 0 && (cell[columns.step_stats].shape.size() != 1 || cell[columns.step_stats].shape[0] < 2))
    return wrong("`step_stats` has fewer than two numbers");
  return {};
}

void WriteLabels(std::span<const Array> cell, const PackedColumns& columns, LabelStyle style, std::span<int32_t> out) {
  const Array& tokens = cell[columns.tokens];
  std::span<const int32_t> bounds = Elements<int32_t>(cell[columns.cu_seqlens]);
  std::span<const int16_t> source;
  if (columns.source >= 0) source = Elements<int16_t>(cell[columns.source]);
  std::span<const uint8_t> mask;
  if (columns.loss_mask >= 0) mask = Elements<uint8_t>(cell[columns.loss_mask]);
  switch (tokens.dtype) {
    case Dtype::kU8: return WriteLabelsOf(Elements<uint8_t>(tokens), bounds, source, mask, style, out);
    case Dtype::kU16: return WriteLabelsOf(Elements<uint16_t>(tokens), bounds, source, mask, style, out);
    case Dtype::kI64: return WriteLabelsOf(Elements<int64_t>(tokens), bounds, source, mask, style, out);
    default: return WriteLabelsOf(Elements<int32_t>(tokens), bounds, source, mask, style, out);
  }
}

void WritePositions(std::span<const Array> cell, const PackedColumns& columns, std::span<int32_t> out) {
  std::span<const int32_t> bounds = Elements<int32_t>(cell[columns.cu_seqlens]);
  for (size_t d = 0; d + 1 < bounds.size(); ++d) {
    for (int32_t i = bounds[d]; i < bounds[d + 1]; ++i) out[i] = i - bounds[d];
  }
}

}  // namespace headrace
