#include "produce/constructor.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "base/text.h"
#include "recipe/columns.h"
#include "stream/cell.h"

namespace headrace {
namespace {

constexpr std::string_view kOwn[] = {"tokens", "loss_mask", "cu_seqlens", "source", "step_stats"};

template <typename T>
Array ArrayOf(Dtype dtype, std::vector<T> values, std::vector<uint64_t> shape) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  Array array{dtype, std::move(shape), Bytes(std::as_bytes(std::span(*owner)), owner)};
  return array;
}

template <typename T>
Array ArrayOf(Dtype dtype, std::vector<T> values) {
  const uint64_t count = values.size();
  return ArrayOf(dtype, std::move(values), {count});
}

// The narrowest type that holds every token.
Dtype TokenType(std::optional<uint64_t> vocabulary, Dtype stored) {
  if (vocabulary) return *vocabulary <= 256 ? Dtype::kU8 : *vocabulary <= 65536 ? Dtype::kU16 : Dtype::kI32;
  return stored == Dtype::kU8 || stored == Dtype::kU16 ? stored : Dtype::kI32;
}

std::string TypeWords(const Column& column) {
  if (column.kind == Column::kBytes) return "texts";
  return Cat(column.kind == Column::kRagged ? "lists of " : "", DtypeName(column.dtype));
}

Status TooLarge(const HeldSample& sample, Dtype dtype) {
  return Status(Code::kInvalidArgument,
                Cat("row ", sample.part->row->Number(sample.row), " of file ", sample.part->file->Number(sample.row),
                    " has a token that does not fit into ", DtypeName(dtype), ", the stream's type of tokens"));
}

uint64_t LabelTokens(const Placed& piece, const HeldSample& sample) {
  if (piece.length == 0) return 0;
  if (!sample.part->loss_mask) return piece.length - 1;
  const RowColumn& mask = *sample.part->loss_mask;
  std::vector<uint8_t> bits(piece.length);
  mask.CopyIntegers(sample.row, piece.start, piece.length, Dtype::kU8, reinterpret_cast<std::byte*>(bits.data()));
  return static_cast<uint64_t>(std::count_if(bits.begin() + 1, bits.end(), [](uint8_t bit) { return bit != 0; }));
}

}  // namespace

Result<CellLayout> LayoutFor(const Recipe& recipe, const std::vector<std::shared_ptr<arrow::RecordBatch>>& samples,
                             const std::vector<std::string>& sources, std::optional<uint64_t> vocabulary) {
  CellLayout layout;
  std::optional<Dtype> token_type;
  std::vector<Column> kept;
  bool first = true;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] == nullptr) continue;
    const arrow::RecordBatch& rows = *samples[i];
    const auto column = [&](const std::string& name) -> Result<RowColumn> {
      Result<RowColumn> found = RowColumn::Of(rows, name);
      if (!found.ok()) return found.status().Annotate(Cat("source ", sources[i]));
      return found;
    };
    const bool has_tokens = RowColumn::Has(rows, "tokens");
    if (!first && has_tokens != layout.tokens)
      return Status(Code::kInvalidArgument, Cat("source ", sources[i], has_tokens ? " has" : " has no",
                                                " column tokens after the transforms, unlike the sources before it"));
    if (recipe.pack && !has_tokens) {
      std::string there;
      for (const auto& field : rows.schema()->fields()) {
        if (!field->name().starts_with("__")) there += Cat(there.empty() ? "" : ", ", field->name());
      }
      return Status(Code::kInvalidArgument, Cat("source ", sources[i], " has no column tokens to pack; it has ", there,
                                                ". Add a `tokenize` transform, or name its column of tokens by `rename`"));
    }
    layout.tokens = has_tokens;
    if (has_tokens) {
      HR_ASSIGN_OR_RETURN(RowColumn tokens, column("tokens"));
      const Dtype dtype = TokenType(vocabulary, tokens.dtype());
      if (!token_type || DtypeBytes(dtype) > DtypeBytes(*token_type)) token_type = dtype;
    }
    layout.loss_mask |= RowColumn::Has(rows, "loss_mask");
    std::vector<std::string> names = recipe.keep;
    // Nothing is packed and nothing was chosen: everything is kept.
    if (names.empty() && !recipe.pack) {
      for (const auto& field : rows.schema()->fields()) {
        if (!field->name().starts_with("__") && std::ranges::find(kOwn, field->name()) == std::end(kOwn))
          names.push_back(field->name());
      }
    }
    std::vector<Column> here;
    for (const std::string& name : names) {
      Result<RowColumn> found = column(name);
      if (!found.ok()) {
        if (recipe.keep.empty()) return found.status();
        return found.status().Annotate(Cat(PlaceOf(recipe, recipe.keep_line), "keep"));
      }
      here.push_back({name, found->dtype(), found->kind()});
    }
    if (first) {
      kept = std::move(here);
    } else if (here != kept) {
      for (size_t k = 0; k < std::max(here.size(), kept.size()); ++k) {
        if (k < here.size() && k < kept.size() && here[k] == kept[k]) continue;
        return Status(
            Code::kInvalidArgument,
            Cat("source ", sources[i], " has another column ", k < here.size() ? here[k].name : kept[k].name,
                " than the sources before it (name or type); `select`, `rename` and `cast` make them alike, `keep` names those to carry"));
      }
    }
    first = false;
  }
  if (first) return Status(Code::kInvalidArgument, "no source has a single usable sample");
  if (layout.tokens) layout.columns.push_back({"tokens", *token_type, recipe.pack ? Column::kArray : Column::kRagged});
  if (recipe.pack) layout.columns.push_back({"cu_seqlens", Dtype::kI32, Column::kArray});
  layout.columns.push_back({"source", Dtype::kI16, Column::kArray});
  if (layout.loss_mask) layout.columns.push_back({"loss_mask", Dtype::kU8, recipe.pack ? Column::kArray : Column::kRagged});
  for (const Column& column : kept) {
    layout.kept.push_back(column.name);
    layout.columns.push_back(column);
  }
  layout.columns.push_back({"step_stats", Dtype::kI64, Column::kArray});
  return layout;
}

CellLayout LayoutOf(const std::vector<Column>& columns) {
  CellLayout layout;
  layout.columns = columns;
  for (const Column& column : columns) {
    if (column.name == "tokens")
      layout.tokens = true;
    else if (column.name == "loss_mask")
      layout.loss_mask = true;
    else if (std::ranges::find(kOwn, column.name) == std::end(kOwn))
      layout.kept.push_back(column.name);
  }
  return layout;
}

Status CheckFits(const Recipe& recipe, const std::shared_ptr<arrow::RecordBatch>& rows, const std::string& source,
                 std::optional<uint64_t> vocabulary, const CellLayout& stream) {
  HR_ASSIGN_OR_RETURN(const CellLayout own, LayoutFor(recipe, {rows}, {source}, vocabulary));
  const auto unlike = [&](const std::string& what) { return Status(Code::kInvalidArgument, Cat("source ", source, what)); };
  if (own.tokens != stream.tokens)
    return unlike(Cat(own.tokens ? " has a" : " has no", " column tokens after the transforms, unlike the stream"));
  if (own.loss_mask && !stream.loss_mask)
    return unlike(" has a column loss_mask after the transforms, and the stream has none: its masks would be lost");
  for (const std::string& name : stream.kept) {
    const Column& wanted = *std::ranges::find(stream.columns, name, &Column::name);
    const auto found = std::ranges::find(own.columns, name, &Column::name);
    if (found == own.columns.end())
      return unlike(Cat(" has no column ", name, " after the transforms, and the stream carries one"));
    if (!(*found == wanted))
      return unlike(Cat(" has a column ", name, " of another type than the stream: ", TypeWords(*found), " instead of ",
                        TypeWords(wanted), ". Write its files with that type"));
  }
  if (!stream.tokens) return {};
  const Dtype dtype = std::ranges::find(stream.columns, "tokens", &Column::name)->dtype;
  HR_ASSIGN_OR_RETURN(const RowColumn tokens, RowColumn::Of(*rows, "tokens"));
  std::vector<std::byte> copy;
  for (int64_t row = 0; row < rows->num_rows(); ++row) {
    copy.resize(static_cast<size_t>(tokens.length(row)) * DtypeBytes(dtype));
    if (!tokens.CopyIntegers(row, 0, tokens.length(row), dtype, copy.data()))
      return unlike(
          Cat(" has a token in its column tokens that does not fit into ", DtypeName(dtype), ", the stream's type of tokens"));
  }
  return {};
}

Result<std::vector<Array>> Constructor::Kept(const std::vector<const HeldSample*>& samples) const {
  std::vector<Array> arrays;
  for (size_t k = 0; k < layout_.kept.size(); ++k) {
    const Column& column = *std::ranges::find(layout_.columns, layout_.kept[k], &Column::name);
    const size_t width = DtypeBytes(column.dtype);
    std::vector<int64_t> offsets = {0};
    for (const HeldSample* sample : samples) {
      int64_t length = column.kind == Column::kArray ? 1 : sample == nullptr ? 0 : sample->part->kept[k].length(sample->row);
      if (sample != nullptr && (sample->part->kept[k].dtype() != column.dtype || sample->part->kept[k].kind() != column.kind))
        return Status(Code::kInvalidArgument,
                      Cat("column ", column.name, " has another type than in the stream; `cast` makes them alike"));
      offsets.push_back(offsets.back() + length);
    }
    Buffer buffer(static_cast<size_t>(offsets.back()) * width);
    std::byte* out = buffer.span().data();
    for (size_t i = 0; i < samples.size(); ++i) {
      const size_t bytes = static_cast<size_t>(offsets[i + 1] - offsets[i]) * width;
      if (bytes == 0) continue;
      if (samples[i] == nullptr || (column.kind == Column::kArray && samples[i]->part->kept[k].length(samples[i]->row) == 0)) {
        std::memset(out, 0, bytes);
      } else {
        const RowColumn& from = samples[i]->part->kept[k];
        std::memcpy(out, from.data() + from.begin(samples[i]->row) * static_cast<int64_t>(width), bytes);
      }
      out += bytes;
    }
    arrays.push_back({column.dtype, {static_cast<uint64_t>(offsets.back())}, std::move(buffer).Freeze()});
    if (column.kind != Column::kArray) arrays.push_back(ArrayOf(Dtype::kI64, std::move(offsets)));
  }
  return arrays;
}

Result<std::vector<Array>> Constructor::Packed(const StepPlan& plan, size_t lane, const Find& find, uint32_t step,
                                               const Array& stats, std::vector<LineageRow>& lineage) const {
  const std::vector<Sequence>& sequences = plan.lanes[lane];
  const Dtype dtype = layout_.columns.front().dtype;
  const size_t width = DtypeBytes(dtype);
  const size_t total = sequences.size() * plan.length;
  Buffer tokens(total * width);
  std::optional<Buffer> mask;
  if (layout_.loss_mask) {
    mask.emplace(total);
    std::memset(mask->span().data(), 0, total);
  }
  std::vector<int32_t> ends = {0};
  std::vector<int16_t> source;
  std::vector<const HeldSample*> kept;
  const auto fill = [&](size_t from, size_t to) {
    if (from == to) return;
    std::byte* out = tokens.span().data() + from * width;
    for (size_t i = from; i < to; ++i, out += width) std::memcpy(out, &recipe_.pack->pad, width);  // little-endian
    ends.push_back(static_cast<int32_t>(to));
    source.push_back(-1);
    kept.push_back(nullptr);
  };
  for (size_t s = 0; s < sequences.size(); ++s) {
    size_t at = s * plan.length;
    for (const Placed& piece : sequences[s].pieces) {
      const HeldSample& sample = find(sequences[s], piece.sample.ref);
      const size_t begin = s * plan.length + piece.position;
      fill(at, begin);
      if (!sample.part->tokens->CopyIntegers(sample.row, piece.start, piece.length, dtype, tokens.span().data() + begin * width))
        return TooLarge(sample, dtype);
      if (mask) {
        std::byte* out = mask->span().data() + begin;
        if (sample.part->loss_mask) {
          if (!sample.part->loss_mask->CopyIntegers(sample.row, piece.start, piece.length, Dtype::kU8, out))
            return Status(Code::kInvalidArgument, "a loss_mask holds something else than 0 and 1");
        } else {
          std::memset(out, 1, piece.length);
        }
      }
      at = begin + piece.length;
      ends.push_back(static_cast<int32_t>(at));
      source.push_back(static_cast<int16_t>(piece.sample.ref.source));
      kept.push_back(&sample);
      lineage.push_back({step, static_cast<uint32_t>(lane), static_cast<uint32_t>(s), piece.position, piece.sample.ref.source,
                         static_cast<uint32_t>(sample.part->file->Number(sample.row)),
                         static_cast<int64_t>(sample.part->row->Number(sample.row)), piece.start, piece.length});
    }
    fill(at, (s + 1) * plan.length);
  }
  std::vector<Array> arrays;
  arrays.push_back({dtype, {sequences.size(), plan.length}, std::move(tokens).Freeze()});
  arrays.push_back(ArrayOf(Dtype::kI32, std::move(ends)));
  arrays.push_back(ArrayOf(Dtype::kI16, std::move(source)));
  if (mask) arrays.push_back({Dtype::kU8, {sequences.size(), plan.length}, std::move(*mask).Freeze()});
  HR_ASSIGN_OR_RETURN(std::vector<Array> carried, Kept(kept));
  std::ranges::move(carried, std::back_inserter(arrays));
  arrays.push_back(stats);
  return arrays;
}

Result<std::vector<Array>> Constructor::Ragged(const StepPlan& plan, size_t lane, const Find& find, uint32_t step,
                                               const Array& stats, std::vector<LineageRow>& lineage) const {
  std::vector<const HeldSample*> samples;
  std::vector<int16_t> source;
  std::vector<int64_t> offsets = {0};
  uint32_t place = 0;
  for (const Sequence& sequence : plan.lanes[lane]) {
    for (const Placed& piece : sequence.pieces) {
      const HeldSample& sample = find(sequence, piece.sample.ref);
      samples.push_back(&sample);
      source.push_back(static_cast<int16_t>(piece.sample.ref.source));
      offsets.push_back(offsets.back() + (sample.part->tokens ? sample.part->tokens->length(sample.row) : 0));
      lineage.push_back({step, static_cast<uint32_t>(lane), place++, 0, piece.sample.ref.source,
                         static_cast<uint32_t>(sample.part->file->Number(sample.row)),
                         static_cast<int64_t>(sample.part->row->Number(sample.row)), 0,
                         static_cast<uint32_t>(offsets.back() - *(offsets.end() - 2))});
    }
  }
  std::vector<Array> arrays;
  if (layout_.tokens) {
    const Dtype dtype = layout_.columns.front().dtype;
    const size_t width = DtypeBytes(dtype);
    Buffer tokens(static_cast<size_t>(offsets.back()) * width);
    for (size_t i = 0; i < samples.size(); ++i) {
      if (!samples[i]->part->tokens->CopyIntegers(samples[i]->row, 0, offsets[i + 1] - offsets[i], dtype,
                                                  tokens.span().data() + static_cast<size_t>(offsets[i]) * width))
        return TooLarge(*samples[i], dtype);
    }
    arrays.push_back({dtype, {static_cast<uint64_t>(offsets.back())}, std::move(tokens).Freeze()});
    arrays.push_back(ArrayOf(Dtype::kI64, offsets));
  }
  arrays.push_back(ArrayOf(Dtype::kI16, std::move(source)));
  if (layout_.loss_mask) {
    Buffer mask(static_cast<size_t>(offsets.back()));
    for (size_t i = 0; i < samples.size(); ++i) {
      std::byte* out = mask.span().data() + offsets[i];
      const int64_t length = offsets[i + 1] - offsets[i];
      if (!samples[i]->part->loss_mask) {
        std::memset(out, 1, static_cast<size_t>(length));
      } else if (!samples[i]->part->loss_mask->CopyIntegers(samples[i]->row, 0, length, Dtype::kU8, out)) {
        return Status(Code::kInvalidArgument, "a loss_mask holds something else than 0 and 1");
      }
    }
    arrays.push_back({Dtype::kU8, {static_cast<uint64_t>(offsets.back())}, std::move(mask).Freeze()});
    arrays.push_back(ArrayOf(Dtype::kI64, offsets));
  }
  HR_ASSIGN_OR_RETURN(std::vector<Array> carried, Kept(samples));
  std::ranges::move(carried, std::back_inserter(arrays));
  arrays.push_back(stats);
  return arrays;
}

Result<std::vector<Body>> Constructor::Build(const StepPlan& plan, const Find& find, uint32_t step,
                                             std::vector<LineageRow>& lineage) const {
  std::vector<int64_t> facts(2 + 2 * plan.samples.size());
  for (const std::vector<Sequence>& lane : plan.lanes) {
    facts[1] += static_cast<int64_t>(lane.size());
    for (const Sequence& sequence : lane) {
      for (const Placed& piece : sequence.pieces)
        facts[0] += static_cast<int64_t>(LabelTokens(piece, find(sequence, piece.sample.ref)));
    }
  }
  for (size_t i = 0; i < plan.samples.size(); ++i) {
    facts[2 + 2 * i] = static_cast<int64_t>(plan.samples[i]);
    facts[3 + 2 * i] = static_cast<int64_t>(plan.tokens[i]);
  }
  const Array stats = ArrayOf(Dtype::kI64, std::move(facts));
  std::vector<Body> cells;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    HR_ASSIGN_OR_RETURN(std::vector<Array> arrays, recipe_.pack ? Packed(plan, lane, find, step, stats, lineage)
                                                                : Ragged(plan, lane, find, step, stats, lineage));
    HR_ASSIGN_OR_RETURN(Body cell, BuildCell(arrays, layout_.columns));
    cells.push_back(std::move(cell));
  }
  return cells;
}

}  // namespace headrace
