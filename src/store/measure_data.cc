#include "store/measure_data.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/random.h"

namespace headrace {
namespace {

constexpr uint64_t kStampBytes = 32;
// Blocks take their filling from different places of the pattern, so it is longer than a block.
constexpr uint64_t kSlides = 16;
constexpr uint64_t kSlideBytes = 4 << 10;

}  // namespace

MeasureData::MeasureData(uint64_t seed, uint64_t object_bytes, uint64_t block_bytes)
    : seed_(seed), object_bytes_(object_bytes), block_bytes_(std::min(block_bytes, object_bytes)) {
  Random random(seed);
  Buffer pattern(block_bytes_ + kSlides * kSlideBytes);
  std::span<std::byte> out = pattern.span();
  for (size_t at = 0; at < out.size(); at += sizeof(uint64_t)) {
    uint64_t word = random.Next();
    std::memcpy(&out[at], &word, std::min(sizeof(word), out.size() - at));
  }
  pattern_ = std::move(pattern).Freeze();
  for (uint64_t slide = 0; slide < kSlides; ++slide) {
    auto crc = [&](uint64_t block) { return Crc32c(pattern_.Slice(slide * kSlideBytes, FillingBytes(block)).span()); };
    whole_crcs_.push_back(crc(0));
    last_crcs_.push_back(crc(blocks() - 1));
  }
}

uint64_t MeasureData::FillingBytes(uint64_t block) const {
  uint64_t size = std::min(block_bytes_, object_bytes_ - block * block_bytes_);
  return size - std::min(kStampBytes, size);
}

MeasureData::Block MeasureData::MakeBlock(uint64_t object, uint64_t block) const {
  const uint64_t words[4] = {seed_, object, block, ~(seed_ ^ object ^ block)};
  static_assert(sizeof(words) == kStampBytes);
  uint64_t size = std::min(block_bytes_, object_bytes_ - block * block_bytes_);
  uint64_t slide = (object * 7 + block) % kSlides;
  return {.stamp = std::string(reinterpret_cast<const char*>(words), std::min(kStampBytes, size)),
          .filling = pattern_.Slice(slide * kSlideBytes, FillingBytes(block)),
          .filling_crc = (block + 1 == blocks() ? last_crcs_ : whole_crcs_)[slide]};
}

Body MeasureData::Content(uint64_t object) const {
  Body body;
  for (uint64_t i = 0; i < blocks(); ++i) {
    Block block = MakeBlock(object, i);
    body.Append(Bytes::FromString(std::move(block.stamp)));
    body.Append(std::move(block.filling));
  }
  return body;
}

bool MeasureData::Matches(uint64_t object, uint64_t first_block, std::span<const std::byte> bytes) const {
  for (uint64_t i = first_block; !bytes.empty(); ++i) {
    if (i >= blocks()) return false;
    Block block = MakeBlock(object, i);
    if (bytes.size() < block.size()) return false;
    if (std::memcmp(bytes.data(), block.stamp.data(), block.stamp.size()) != 0) return false;
    if (Crc32c(bytes.first(block.size()).subspan(block.stamp.size())) != block.filling_crc) return false;
    bytes = bytes.subspan(block.size());
  }
  return true;
}

}  // namespace headrace
