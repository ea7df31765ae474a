#include "cli/npz.h"

#include <gtest/gtest.h>

#include "base/codec.h"
#include "base/text.h"

namespace headrace::cli {
namespace {

std::string Npy(std::string_view descr, std::string_view shape, std::string_view data, std::string_view fortran = "False") {
  std::string header = Cat("{'descr': '", descr, "', 'fortran_order': ", fortran, ", 'shape': (", shape, "), }");
  header.resize((header.size() + 10) / 64 * 64 + 64 - 10 - 1, ' ');
  header += '\n';
  Encoder out;
  out.PutRaw(std::string_view("\x93NUMPY\x01\x00", 8));
  out.Put(static_cast<uint16_t>(header.size()));
  out.PutRaw(header);
  out.PutRaw(data);
  return out.Take();
}

uint32_t ZipCrc(std::string_view text) {
  uint32_t crc = 0xFFFFFFFF;
  for (char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

struct Member {
  std::string name;
  std::string content;
  uint16_t method = 0;
  bool zip64 = false;  // as numpy writes it: sizes in an extra field, if it does not know them beforehand
};

std::string Zip(const std::vector<Member>& members, std::string_view comment = "") {
  Encoder out, table;
  for (const Member& member : members) {
    auto offset = static_cast<uint32_t>(out.size());
    auto size = static_cast<uint32_t>(member.content.size());
    Encoder extra;
    if (member.zip64) {
      extra.Put(uint16_t{1});
      extra.Put(uint16_t{16});
      extra.Put(uint64_t{size});
      extra.Put(uint64_t{size});
    }
    uint32_t stored_size = member.zip64 ? UINT32_MAX : size;
    out.Put(uint32_t{0x04034B50});
    for (uint16_t field : {uint16_t{45}, uint16_t{0}, member.method, uint16_t{0}, uint16_t{0}}) out.Put(field);
    out.Put(ZipCrc(member.content));
    out.Put(stored_size);
    out.Put(stored_size);
    out.Put(static_cast<uint16_t>(member.name.size()));
    out.Put(static_cast<uint16_t>(extra.size()));
    out.PutRaw(member.name);
    out.PutRaw(extra.text());
    out.PutRaw(member.content);
    table.Put(uint32_t{0x02014B50});
    for (uint16_t field : {uint16_t{45}, uint16_t{45}, uint16_t{0}, member.method, uint16_t{0}, uint16_t{0}}) table.Put(field);
    table.Put(ZipCrc(member.content));
    table.Put(stored_size);
    table.Put(stored_size);
    table.Put(static_cast<uint16_t>(member.name.size()));
    table.Put(static_cast<uint16_t>(extra.size()));
    for (int i = 0; i < 3; ++i) table.Put(uint16_t{0});
    table.Put(uint32_t{0});
    table.Put(offset);
    table.PutRaw(member.name);
    table.PutRaw(extra.text());
  }
  auto table_offset = static_cast<uint32_t>(out.size());
  out.PutRaw(table.text());
  out.Put(uint32_t{0x06054B50});
  out.Put(uint32_t{0});
  out.Put(static_cast<uint16_t>(members.size()));
  out.Put(static_cast<uint16_t>(members.size()));
  out.Put(static_cast<uint32_t>(table.size()));
  out.Put(table_offset);
  out.Put(static_cast<uint16_t>(comment.size()));
  out.PutRaw(comment);
  return out.Take();
}

Result<std::vector<NpyArray>> Read(std::string file) { return ReadNpz(Bytes::FromString(std::move(file))); }

std::string WhyNot(std::string file) {
  Result<std::vector<NpyArray>> read = Read(std::move(file));
  return read.ok() ? "" : read.status().message();
}

TEST(Npz, ArraysComeWithNameTypeAndShape) {
  auto read = Read(Zip({{"a.npy", Npy("<i4", "2, 3", std::string(24, 'x'))},
                        {"b.values.npy", Npy("|u1", "5,", "hello")},
                        {"c.npy", Npy("<f2", "", "zz")},
                        {"d.npy", Npy("<i8", "0, 7", ""), 0, /*zip64=*/true}},
                       "a comment"));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  ASSERT_EQ(read->size(), 4u);
  EXPECT_EQ((*read)[0].name, "a");
  EXPECT_EQ((*read)[0].dtype, Dtype::kI32);
  EXPECT_EQ((*read)[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ((*read)[1].name, "b.values");
  EXPECT_EQ((*read)[1].bytes.AsText(), "hello");
  EXPECT_EQ((*read)[2].shape, std::vector<uint64_t>{}) << "a scalar";
  EXPECT_EQ((*read)[2].bytes.AsText(), "zz");
  EXPECT_EQ((*read)[3].shape, (std::vector<uint64_t>{0, 7}));
}

TEST(Npz, EveryTypeOfAColumnHasItsName) {
  for (auto [descr, dtype] : {std::pair{"|u1", Dtype::kU8},
                              {"|i1", Dtype::kI8},
                              {"<u2", Dtype::kU16},
                              {"<i2", Dtype::kI16},
                              {"<u4", Dtype::kU32},
                              {"<i4", Dtype::kI32},
                              {"<u8", Dtype::kU64},
                              {"<i8", Dtype::kI64},
                              {"<f2", Dtype::kF16},
                              {"<f4", Dtype::kF32},
                              {"<f8", Dtype::kF64},
                              {"|b1", Dtype::kBool},
                              {"<V2", Dtype::kBf16},
                              {"|V2", Dtype::kBf16}}) {
    auto read = Read(Zip({{"a.npy", Npy(descr, "1,", std::string(DtypeBytes(dtype), '\0'))}}));
    ASSERT_TRUE(read.ok()) << descr << ": " << read.status().ToString();
    EXPECT_EQ((*read)[0].dtype, dtype) << descr;
    EXPECT_EQ((*read)[0].kind, NpyArray::kNumbers);
  }
}

TEST(Npz, TextsHaveTheWidthOfTheLongest) {
  auto read =
      Read(Zip({{"s.npy", Npy("|S3", "2,", std::string_view("abcde\0", 6))}, {"u.npy", Npy("<U2", "1,", std::string(8, 'q'))}}));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ((*read)[0].kind, NpyArray::kBytes);
  EXPECT_EQ((*read)[0].width, 3u);
  EXPECT_EQ((*read)[1].kind, NpyArray::kText);
  EXPECT_EQ((*read)[1].width, 8u);
}

TEST(Npz, WhatNoColumnCanHoldIsRefusedWithItsName) {
  auto refused = [](std::string npy) { return WhyNot(Zip({{"a.npy", std::move(npy)}})); };
  EXPECT_NE(refused(Npy(">i4", "1,", "1234")).find("\"a\" is big-endian"), std::string::npos);
  EXPECT_NE(refused(Npy("<c8", "1,", "12345678")).find("the type <c8"), std::string::npos);
  EXPECT_NE(refused(Npy("<i4", "2, 2", std::string(16, 'x'), "True")).find("column by column"), std::string::npos);
  EXPECT_EQ(refused(Npy("<i4", "4,", std::string(16, 'x'), "True")), "") << "one dimension lies the same in both ways";
  EXPECT_NE(refused(Npy("<i4", "3,", std::string(16, 'x'))).find("has 16 bytes, and its shape wants 12"), std::string::npos);
  EXPECT_NE(refused(Npy("<i4", "-1,", "")).find("no shape"), std::string::npos);
  EXPECT_NE(refused(Npy("<i8", "4294967296, 4294967296, 2", "")).find("\"a\""), std::string::npos) << "would overflow";
  EXPECT_NE(refused(Npy("|S0", "9,", "x")).find("has 1 bytes"), std::string::npos);
  EXPECT_NE(refused("not an array at all").find("is not an array of numpy"), std::string::npos);
  std::string objects = Npy("|O", "1,", "xxxxxxxx");
  EXPECT_NE(refused(objects).find("|O"), std::string::npos);
}

TEST(Npz, CompressedArchivesAreUnsupported) {
  auto read = Read(Zip({{"a.npy", Npy("|u1", "1,", "x"), 8}}));
  EXPECT_EQ(read.code(), Code::kUnsupported);
  EXPECT_NE(read.status().message().find("numpy.savez_compressed"), std::string::npos);
}

// Whatever is cut off or flipped, nothing but an error comes of it, or the same arrays.
TEST(Npz, DamageIsNeverReadAsNumbers) {
  std::string whole = Zip({{"a.npy", Npy("<i4", "2,", "12345678")}, {"b.npy", Npy("|u1", "3,", "abc"), 0, true}});
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(Read(whole.substr(0, size)).ok()) << size;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit : {0, 3, 7}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      auto read = Read(damaged);
      if (!read.ok()) continue;
      for (const NpyArray& array : *read) {
        std::string_view expected = array.bytes.size() == 8 ? "12345678" : "abc";
        EXPECT_EQ(array.bytes.AsText(), expected) << "byte " << at << ", bit " << bit;
      }
    }
  }
}

}  // namespace
}  // namespace headrace::cli
