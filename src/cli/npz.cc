#include "cli/npz.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/codec.h"
#include "base/text.h"

namespace headrace::cli {
namespace {

constexpr size_t kEndBytes = 22;
constexpr size_t kMaxComment = 65535;

Status Wrong(std::string why) { return Status(Code::kInvalidArgument, std::move(why)); }

// The CRC-32 of zip, which is not the one of our own formats.
uint32_t ZipCrc(std::span<const std::byte> bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
      made[i] = crc;
    }
    return made;
  }();
  uint32_t crc = 0xFFFFFFFFu;
  for (std::byte byte : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<uint32_t>(byte)) & 0xFF];
  return ~crc;
}

// What stands between `before` and the next `after` of an .npy header: a Python dictionary, always written in the same way.
std::string_view Between(std::string_view text, std::string_view before, char after) {
  size_t begin = text.find(before);
  if (begin == std::string_view::npos) return {};
  begin += before.size();
  return text.substr(begin, text.find(after, begin) - begin);
}

Status ReadDescr(std::string_view descr, NpyArray& array) {
  struct Row {
    std::string_view descr;
    Dtype dtype;
  };
  constexpr Row kRows[] = {{"|u1", Dtype::kU8},   {"|i1", Dtype::kI8},  {"<u2", Dtype::kU16}, {"<i2", Dtype::kI16},
                           {"<u4", Dtype::kU32},  {"<i4", Dtype::kI32}, {"<u8", Dtype::kU64}, {"<i8", Dtype::kI64},
                           {"<f2", Dtype::kF16},  {"<f4", Dtype::kF32}, {"<f8", Dtype::kF64}, {"|b1", Dtype::kBool},
                           {"<V2", Dtype::kBf16}, {"|V2", Dtype::kBf16}};  // ml_dtypes' bfloat16
  for (const Row& row : kRows) {
    if (row.descr != descr) continue;
    array.dtype = row.dtype;
    array.width = DtypeBytes(row.dtype);
    return {};
  }
  uint64_t count = 0;
  if ((descr.starts_with("|S") || descr.starts_with("<U")) && ParseNumber(descr.substr(2), count) && count <= UINT32_MAX) {
    array.kind = descr[1] == 'S' ? NpyArray::kBytes : NpyArray::kText;
    array.width = count * (array.kind == NpyArray::kText ? 4 : 1);
    return {};
  }
  if (descr.starts_with('>'))
    return Wrong(
        fmt::format("the array \"{}\" is big-endian ({}): use array.astype(array.dtype.newbyteorder(\"<\"))", array.name, descr));
  return Wrong(fmt::format("the array \"{}\" has the type {}, which no column can hold", array.name, descr));
}

Status ReadNpy(const Bytes& file, NpyArray& array) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  std::string_view text = file.AsText();
  if (!text.starts_with(kMagic) || text.size() < 12) return Wrong(fmt::format("\"{}\" is not an array of numpy", array.name));
  Decoder in(file.span().subspan(kMagic.size()));
  auto major = in.Get<uint8_t>();
  in.Get<uint8_t>();
  uint64_t header_bytes = major == 1 ? in.Get<uint16_t>() : in.Get<uint32_t>();
  uint64_t begin = kMagic.size() + 2 + (major == 1 ? 2 : 4);
  if (header_bytes > text.size() - begin) return Wrong(fmt::format("the array \"{}\" is cut short", array.name));
  std::string_view header = text.substr(begin, header_bytes);
  std::string_view descr = Between(header, "'descr': '", '\'');
  if (descr.empty())
    return Wrong(fmt::format("the array \"{}\" has fields or Python objects, which no column can hold", array.name));
  HR_RETURN_IF_ERROR(ReadDescr(descr, array));
  uint64_t elements = 1;
  for (const std::string& extent : Split(Between(header, "'shape': (", ')'), ',')) {
    if (Trim(extent).empty()) continue;
    uint64_t number = 0;
    if (!ParseNumber(Trim(extent), number))
      return Wrong(fmt::format("the array \"{}\" has no shape that could be read", array.name));
    array.shape.push_back(number);
    if (number != 0 && elements > UINT64_MAX / 16 / number)
      return Wrong(fmt::format("the array \"{}\" is cut short", array.name));
    elements *= number;
  }
  if (header.find("'fortran_order': True") != std::string_view::npos && array.shape.size() > 1) {
    return Wrong(fmt::format("the array \"{}\" lies column by column: use numpy.ascontiguousarray", array.name));
  }
  array.bytes = file.Slice(begin + header_bytes);
  uint64_t wanted = array.width == 0 ? 0 : elements * array.width;
  if ((array.width != 0 && elements > UINT64_MAX / array.width) || array.bytes.size() != wanted) {
    return Wrong(fmt::format("the array \"{}\" has {} bytes, and its shape wants {}", array.name, array.bytes.size(), wanted));
  }
  return {};
}

struct ZipEntry {
  std::string name;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0, size = 0, offset = 0;
};

// One row of the archive's table. Numbers that do not fit 32 bits stand in an extra field.
bool ReadZipEntry(Decoder& in, ZipEntry& entry) {
  if (in.Get<uint32_t>() != 0x02014B50) return false;
  in.GetRaw(6);
  entry.method = in.Get<uint16_t>();
  in.GetRaw(4);
  entry.crc = in.Get<uint32_t>();
  entry.packed = in.Get<uint32_t>();
  entry.size = in.Get<uint32_t>();
  auto name_bytes = in.Get<uint16_t>();
  auto extra_bytes = in.Get<uint16_t>();
  auto comment_bytes = in.Get<uint16_t>();
  in.GetRaw(8);
  entry.offset = in.Get<uint32_t>();
  std::span<const std::byte> name = in.GetRaw(name_bytes);
  std::span<const std::byte> extra_field = in.GetRaw(extra_bytes);
  in.GetRaw(comment_bytes);
  if (!in.ok()) return false;
  entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  Decoder extra(extra_field);
  while (extra.ok() && extra.left() >= 4) {
    auto id = extra.Get<uint16_t>();
    Decoder field(extra.GetRaw(extra.Get<uint16_t>()));
    if (id != 1) continue;
    for (uint64_t* number : {&entry.size, &entry.packed, &entry.offset}) {
      if (*number == UINT32_MAX) *number = field.Get<uint64_t>();
    }
    if (!field.ok()) return false;
  }
  return true;
}

Result<Bytes> Unpack(const Bytes& file, const ZipEntry& entry) {
  if (entry.method != 0) {
    return Status(Code::kUnsupported,
                  fmt::format("the array \"{}\" is compressed, which this version does not read: write the file with numpy.savez "
                              "instead of numpy.savez_compressed",
                              entry.name));
  }
  auto cut = [&] { return Wrong(fmt::format("the archive is damaged: \"{}\" lies outside of it", entry.name)); };
  if (entry.packed != entry.size || entry.offset > file.size()) return cut();
  Decoder local(file.span().subspan(entry.offset));
  if (local.Get<uint32_t>() != 0x04034B50) return cut();
  local.GetRaw(22);
  uint64_t begin = entry.offset + 30;
  begin += local.Get<uint16_t>();
  begin += local.Get<uint16_t>();
  if (!local.ok() || begin > file.size() || entry.size > file.size() - begin) return cut();
  Bytes bytes = file.Slice(begin, entry.size);
  if (ZipCrc(bytes.span()) != entry.crc)
    return Wrong(fmt::format("the archive is damaged: the checksum of \"{}\" does not fit", entry.name));
  return bytes;
}

}  // namespace

Result<std::vector<NpyArray>> ReadNpz(const Bytes& file) {
  std::string_view text = file.AsText();
  std::string_view last = text.substr(text.size() - std::min(text.size(), kEndBytes + kMaxComment));
  size_t end = last.rfind("PK\x05\x06");
  if (!text.starts_with("PK") || end == std::string_view::npos || last.size() - end < kEndBytes) {
    return Wrong("it is not a whole archive of numpy.savez: its end is missing");
  }
  Decoder tail(std::as_bytes(std::span(last.data() + end, kEndBytes)));
  tail.GetRaw(10);
  auto count = tail.Get<uint16_t>();
  tail.Get<uint32_t>();
  auto offset = tail.Get<uint32_t>();
  if (count == UINT16_MAX || offset == UINT32_MAX)
    return Status(Code::kUnsupported, "archives of 4 GiB and more are not read: make steps smaller");
  if (offset > file.size()) return Wrong("the archive is damaged: its table lies outside of it");
  Decoder table(file.span().subspan(offset));
  std::vector<NpyArray> arrays;
  for (int i = 0; i < count; ++i) {
    ZipEntry entry;
    if (!ReadZipEntry(table, entry)) return Wrong("the archive is damaged: its table cannot be read");
    HR_ASSIGN_OR_RETURN(Bytes bytes, Unpack(file, entry));
    NpyArray& array = arrays.emplace_back();
    array.name = entry.name.ends_with(".npy") ? entry.name.substr(0, entry.name.size() - 4) : entry.name;
    HR_RETURN_IF_ERROR(ReadNpy(bytes, array));
  }
  return arrays;
}

}  // namespace headrace::cli
