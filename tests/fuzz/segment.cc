// A segment of the index, damaged in every way: refused with its name, or read to as many entries as its reference says.

#include "stream/segment.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/crc32c.h"
#include "store/memory_store.h"
#include "tests/fuzz/expect.h"

using namespace headrace;

namespace {

constexpr size_t kFixed = 72, kFence = 16, kGroup = 128;

template <typename T>
T At(const std::string& bytes, size_t offset) {
  T value{};
  if (offset + sizeof(T) <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

void PutAt(std::string& bytes, size_t offset, uint32_t value) {
  if (offset + 4 <= bytes.size()) std::memcpy(bytes.data() + offset, &value, 4);
}

uint32_t CrcOf(const std::string& bytes, size_t offset, size_t size) {
  if (offset > bytes.size()) return 0;
  return Crc32c(std::as_bytes(std::span(bytes)).subspan(offset, std::min(size, bytes.size() - offset)));
}

void Try(const std::string& bytes, const SegmentRef& ref, const Uuid& uuid) {
  MemoryStore store;
  if (!store.PutIfAbsent(ref.Key(), Body(bytes), {}).ok()) return;
  SegmentReader reader(store, uuid);
  auto check = [&](const Status& status) {
    if (status.ok()) return;
    HR_EXPECT(status.code() == Code::kCorrupt || status.code() == Code::kUnsupported || status.code() == Code::kNotFound);
    HR_EXPECT(status.message().find("index/") != std::string::npos);
  };
  if (ref.level >= kEntryLevels) {
    Result<std::vector<SegmentRef>> children = reader.Children(ref, {});
    check(children.status());
    if (children.ok()) HR_EXPECT(children->size() == ref.count);
  } else {
    Result<std::vector<Entry>> entries = reader.Entries(ref, {});
    check(entries.status());
    if (entries.ok()) HR_EXPECT(entries->size() == ref.count);
  }
  check(reader.FindStep(ref, ref.first_step, {}).status());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  // The reference that would fit: it stands in the header.
  SegmentRef ref;
  Uuid uuid{};
  if (size >= 24) std::memcpy(uuid.data(), data + 8, uuid.size());
  ref.level = std::min<uint8_t>(At<uint8_t>(bytes, 24), Manifest::kLevels - 1);
  ref.count = At<uint32_t>(bytes, 28);
  ref.first_block = At<uint64_t>(bytes, 32);
  ref.end_block = At<uint64_t>(bytes, 40);
  ref.first_step = At<uint64_t>(bytes, 48);
  ref.end_step = At<uint64_t>(bytes, 56);
  ref.nonce = At<uint64_t>(bytes, 64);
  uint64_t groups = ref.level < kEntryLevels ? (uint64_t{ref.count} + kGroup - 1) / kGroup : 1;
  uint64_t header = kFixed + kFence * groups;
  ref.crc = At<uint32_t>(bytes, header);
  Try(bytes, ref, uuid);
  // And with all checksums put right, so that what lies behind them is tried too.
  size_t item = ref.level < kEntryLevels ? kEntryBytes : kSegmentRefBytes;
  for (uint64_t i = 0; i < groups && kFixed + kFence * i < size; ++i) {
    uint64_t count = ref.level < kEntryLevels ? std::min<uint64_t>(kGroup, ref.count - i * kGroup) : ref.count;
    PutAt(bytes, kFixed + kFence * i + 8, CrcOf(bytes, header + 8 + i * kGroup * item, count * item));
  }
  ref.crc = CrcOf(bytes, 0, header);
  PutAt(bytes, header, ref.crc);
  Try(bytes, ref, uuid);
  return 0;
}
