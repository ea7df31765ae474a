#include "stream/cell.h"

#include <algorithm>

#include "base/codec.h"
#include "base/text.h"

namespace headrace {
namespace {

constexpr size_t kAlign = 64;

uint64_t Aligned(uint64_t offset) { return (offset + kAlign - 1) / kAlign * kAlign; }

const Bytes& Zeros() {
  static const Bytes zeros = Bytes::FromString(std::string(kAlign, '\0'));
  return zeros;
}

size_t CountArrays(const std::vector<Column>& columns) {
  size_t count = 0;
  for (const Column& column : columns) count += static_cast<size_t>(column.arrays());
  return count;
}

// Why the arrays at `at` cannot be this column; empty if they can.
std::string Misfit(std::span<const Array> arrays, size_t at, const Column& column) {
  const Array& values = arrays[at];
  if (values.dtype != column.dtype) return Cat("its type is ", DtypeName(values.dtype), ", not ", DtypeName(column.dtype));
  if (values.shape.size() > Array::kMaxDims)
    return Cat("it has ", values.shape.size(), " dimensions, more than ", Array::kMaxDims);
  if (values.bytes.size() != values.elements() * DtypeBytes(values.dtype))
    return Cat("its shape does not fit its ", values.bytes.size(), " bytes");
  if (column.kind == Column::kArray) return {};
  const Array& offsets = arrays[at + 1];
  if (offsets.dtype != Dtype::kI64 || offsets.shape.size() != 1 || offsets.shape[0] == 0 ||
      offsets.bytes.size() != offsets.shape[0] * 8) {
    return "its offsets are not a list of int64 with at least one number";
  }
  if (values.shape.empty()) return "its values are a single number, not rows";
  int64_t before = 0;
  for (uint64_t i = 0; i < offsets.shape[0]; ++i) {
    int64_t offset = 0;
    std::memcpy(&offset, offsets.bytes.data() + 8 * i, 8);
    if (i == 0 ? offset != 0 : offset < before) return "its offsets do not begin at 0 and rise";
    before = offset;
  }
  if (static_cast<uint64_t>(before) != values.shape[0]) return "its last offset is not the number of values";
  return {};
}

}  // namespace

uint64_t Array::elements() const {
  uint64_t count = 1;
  for (uint64_t extent : shape) {
    if (extent != 0 && count > UINT64_MAX / 16 / extent) return UINT64_MAX / 16;
    count *= extent;
  }
  return count;
}

Result<Body> BuildCell(std::span<const Array> arrays, const std::vector<Column>& columns) {
  if (arrays.size() != CountArrays(columns)) {
    return Status(Code::kInvalidArgument,
                  Cat("a cell needs ", CountArrays(columns), " arrays, one or two for each column, not ", arrays.size()));
  }
  size_t at = 0;
  size_t header_bytes = 8;
  for (const Column& column : columns) {
    if (std::string why = Misfit(arrays, at, column); !why.empty()) {
      return Status(Code::kInvalidArgument, Cat("the column \"", column.name, "\" does not fit: ", why));
    }
    at += static_cast<size_t>(column.arrays());
  }
  for (const Array& array : arrays) header_bytes += 16 + 8 * array.shape.size();
  Encoder header;
  header.Put(static_cast<uint32_t>(arrays.size()));
  header.Put(uint32_t{0});
  uint64_t offset = Aligned(header_bytes);
  for (const Array& array : arrays) {
    header.Put(offset);
    header.Put(static_cast<uint8_t>(array.dtype));
    header.Put(static_cast<uint8_t>(array.shape.size()));
    for (int i = 0; i < 6; ++i) header.Put(uint8_t{0});
    for (uint64_t extent : array.shape) header.Put(extent);
    offset = Aligned(offset + array.bytes.size());
  }
  header.PadTo(kAlign);
  Body body(Bytes::FromString(header.Take()));
  for (const Array& array : arrays) {
    body.Append(array.bytes);
    body.Append(Zeros().Slice(0, Aligned(body.size()) - body.size()));
  }
  return body;
}

Result<std::optional<CellTable>> ReadCellTable(std::span<const std::byte> beginning, uint64_t cell_bytes,
                                               const std::vector<Column>& columns) {
  const bool whole = beginning.size() >= cell_bytes;
  Decoder in(beginning.first(std::min<uint64_t>(beginning.size(), cell_bytes)));
  auto count = in.Get<uint32_t>();
  in.Get<uint32_t>();
  if (!in.ok() && !whole) return std::optional<CellTable>();
  if (!in.ok() || count != CountArrays(columns))
    return Status(Code::kCorrupt, "its arrays are not those of the stream's columns");
  std::optional<CellTable> table(std::in_place);
  table->bytes = 8;
  table->entries.resize(count);
  for (CellTable::Entry& entry : table->entries) {
    Array& array = entry.array;
    entry.offset = in.Get<uint64_t>();
    const auto dtype = in.Get<uint8_t>();
    const auto dims = in.Get<uint8_t>();
    in.GetRaw(6);
    const bool known = dtype <= static_cast<uint8_t>(Dtype::kBool) && dims <= Array::kMaxDims;
    if (in.ok() && !known) return Status(Code::kCorrupt, "its list of arrays is wrong");
    for (int i = 0; i < dims && in.ok(); ++i) array.shape.push_back(in.Get<uint64_t>());
    if (!in.ok() && !whole) return std::optional<CellTable>();
    if (!in.ok()) return Status(Code::kCorrupt, "its list of arrays is wrong");
    array.dtype = static_cast<Dtype>(dtype);
    table->bytes += 16 + 8 * array.shape.size();
    entry.size = array.elements() * DtypeBytes(array.dtype);
    if (entry.offset % kAlign != 0 || entry.offset > cell_bytes || entry.size > cell_bytes - entry.offset)
      return Status(Code::kCorrupt, "an array lies outside of it");
  }
  return table;
}

Status CheckCell(std::span<const Array> arrays, const std::vector<Column>& columns, std::string_view what) {
  size_t at = 0;
  for (const Column& column : columns) {
    if (std::string why = Misfit(arrays, at, column); !why.empty())
      return Status(Code::kCorrupt, Cat(what, " is damaged: column \"", column.name, "\": ", why));
    at += static_cast<size_t>(column.arrays());
  }
  return {};
}

Result<std::vector<Array>> ReadCell(const Bytes& bytes, const std::vector<Column>& columns, std::string_view what) {
  Result<std::optional<CellTable>> table = ReadCellTable(bytes.span(), bytes.size(), columns);
  if (!table.ok()) return Status(Code::kCorrupt, Cat(what, " is damaged: ", table.status().message()));
  std::vector<Array> arrays;
  arrays.reserve((*table)->entries.size());
  for (CellTable::Entry& entry : (*table)->entries) {
    arrays.push_back(std::move(entry.array));
    arrays.back().bytes = bytes.Slice(entry.offset, entry.size);
  }
  HR_RETURN_IF_ERROR(CheckCell(arrays, columns, what));
  return arrays;
}

}  // namespace headrace
