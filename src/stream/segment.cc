#include "stream/segment.h"

#include <algorithm>

#include "base/codec.h"
#include "base/crc32c.h"
#include "base/text.h"

namespace headrace {
namespace {

constexpr std::string_view kMagic = "HRsegmt1";
constexpr size_t kGroup = 128;
constexpr size_t kFixedBytes = 72;
constexpr size_t kFenceBytes = 16;

size_t Groups(const SegmentRef& ref) { return ref.level < kEntryLevels ? (ref.count + kGroup - 1) / kGroup : 1; }
size_t HeaderBytes(const SegmentRef& ref) { return kFixedBytes + kFenceBytes * Groups(ref) + 8; }

uint32_t CrcOf(std::string_view text) { return Crc32c(std::as_bytes(std::span(text.data(), text.size()))); }

// Header and fences; its last bytes are their checksum, which is also the reference's.
std::string EncodeHeader(const SegmentRef& ref, const Uuid& uuid, std::span<const std::pair<uint64_t, uint32_t>> fences,
                         uint32_t& crc) {
  Encoder out;
  out.PutRaw(kMagic);
  out.PutRaw(uuid.data(), uuid.size());
  out.Put(ref.level);
  for (int i = 0; i < 3; ++i) out.Put(uint8_t{0});
  out.Put(ref.count);
  out.Put(ref.first_block);
  out.Put(ref.end_block);
  out.Put(ref.first_step);
  out.Put(ref.end_step);
  out.Put(ref.nonce);
  for (auto [first_step, fence_crc] : fences) {
    out.Put(first_step);
    out.Put(fence_crc);
    out.Put(uint32_t{0});
  }
  crc = CrcOf(out.text());
  out.Put(crc);
  out.Put(uint32_t{0});
  return out.Take();
}

struct Encoded {
  SegmentRef ref;
  std::string object;
};

Encoded Encode(std::span<const Entry> entries, const Uuid& uuid, const SegmentRef& wanted) {
  SegmentRef ref = wanted;
  ref.count = static_cast<uint32_t>(entries.size());
  ref.first_step = entries.front().first_step;
  ref.end_step = entries.back().end_step();
  std::vector<std::pair<uint64_t, uint32_t>> fences;
  std::string groups;
  for (size_t at = 0; at < entries.size(); at += kGroup) {
    Encoder group;
    for (const Entry& entry : entries.subspan(at, std::min(kGroup, entries.size() - at))) EncodeEntry(entry, group);
    fences.emplace_back(entries[at].first_step, CrcOf(group.text()));
    groups += group.text();
  }
  std::string header = EncodeHeader(ref, uuid, fences, ref.crc);
  return {ref, header + groups};
}

Encoded Encode(std::span<const SegmentRef> children, const Uuid& uuid, const SegmentRef& wanted) {
  SegmentRef ref = wanted;
  ref.count = static_cast<uint32_t>(children.size());
  ref.first_step = children.front().first_step;
  ref.end_step = children.back().end_step;
  Encoder group;
  for (const SegmentRef& child : children) EncodeSegmentRef(child, group);
  std::pair<uint64_t, uint32_t> fence(ref.first_step, CrcOf(group.text()));
  std::string header = EncodeHeader(ref, uuid, {&fence, 1}, ref.crc);
  return {ref, header + group.Take()};
}

}  // namespace

std::string EncodeSegment(std::span<const Entry> entries, const Uuid& uuid, const SegmentRef& wanted) {
  return Encode(entries, uuid, wanted).object;
}
std::string EncodeSegment(std::span<const SegmentRef> children, const Uuid& uuid, const SegmentRef& wanted) {
  return Encode(children, uuid, wanted).object;
}
SegmentRef SegmentOf(std::span<const Entry> entries, const Uuid& uuid, const SegmentRef& wanted) {
  return Encode(entries, uuid, wanted).ref;
}
SegmentRef SegmentOf(std::span<const SegmentRef> children, const Uuid& uuid, const SegmentRef& wanted) {
  return Encode(children, uuid, wanted).ref;
}

Status SegmentReader::Damaged(const SegmentRef& ref, std::string_view why) const {
  return Status(Code::kCorrupt, Cat("the index segment ", store_.Describe(ref.Key()), " is damaged: ", why));
}

Result<Bytes> SegmentReader::Read(const SegmentRef& ref, uint64_t offset, uint64_t length, const Deadline& deadline) {
  GetOptions options{.range = ByteRange::At(offset, length)};
  HR_ASSIGN_OR_RETURN(std::optional<Object> object, store_.Get(ref.Key(), options, deadline));
  if (!object) return Status(Code::kNotFound, Cat("the index segment ", store_.Describe(ref.Key()), " is not there"));
  if (object->bytes.size() != length) return Damaged(ref, Cat("it has ", object->size, " bytes, too few"));
  return std::move(object->bytes);
}

Result<std::vector<SegmentReader::Fence>> SegmentReader::Fences(const SegmentRef& ref, const Deadline& deadline) {
  if (ref.count == 0) return Damaged(ref, "its reference says that it is empty");
  HR_ASSIGN_OR_RETURN(Bytes header, Read(ref, 0, HeaderBytes(ref), deadline));
  Decoder end(header.span().last(8));
  auto crc = end.Get<uint32_t>();
  if (crc != ref.crc || crc != Crc32c(header.span().first(header.size() - 8)))
    return Damaged(ref, "its header's checksum does not fit");
  Decoder in(header.span());
  std::span<const std::byte> magic = in.GetRaw(kMagic.size());
  std::string_view seen(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (seen != kMagic) {
    if (seen.starts_with("HRsegmt"))
      return Status(Code::kUnsupported,
                    Cat("the index segment ", store_.Describe(ref.Key()), " has another format version: use a newer Headrace"));
    return Damaged(ref, "it does not begin as one");
  }
  Uuid uuid{};
  in.GetInto(uuid);
  if (uuid != uuid_) return Damaged(ref, Cat("it belongs to the stream ", UuidText(uuid)));
  in.GetRaw(kFixedBytes - kMagic.size() - uuid.size());
  std::vector<Fence> fences;
  for (size_t i = 0; i < Groups(ref); ++i) {
    Fence& fence = fences.emplace_back();
    fence.first_step = in.Get<uint64_t>();
    fence.crc = in.Get<uint32_t>();
    in.Get<uint32_t>();
  }
  return fences;
}

Result<std::vector<Entry>> SegmentReader::Group(const SegmentRef& ref, size_t group, const Fence& fence,
                                                const Deadline& deadline) {
  size_t count = std::min(kGroup, ref.count - group * kGroup);
  HR_ASSIGN_OR_RETURN(Bytes bytes, Read(ref, HeaderBytes(ref) + group * kGroup * kEntryBytes, count * kEntryBytes, deadline));
  if (Crc32c(bytes.span()) != fence.crc)
    return Damaged(ref, Cat("the checksum of entries ", group * kGroup, " and on does not fit"));
  Decoder in(bytes.span());
  std::vector<Entry> entries;
  for (size_t i = 0; i < count; ++i) entries.push_back(DecodeEntry(in));
  return entries;
}

Result<std::vector<Entry>> SegmentReader::FindStep(const SegmentRef& ref, uint64_t step, const Deadline& deadline) {
  if (ref.level >= kEntryLevels) {
    HR_ASSIGN_OR_RETURN(std::vector<SegmentRef> children, Children(ref, deadline));
    for (const SegmentRef& child : children) {
      if (step >= child.first_step && step < child.end_step) return FindStep(child, step, deadline);
    }
    return std::vector<Entry>();
  }
  HR_ASSIGN_OR_RETURN(std::vector<Fence> fences, Fences(ref, deadline));
  auto after = std::ranges::upper_bound(fences, step, {}, &Fence::first_step);
  if (after == fences.begin()) return std::vector<Entry>();
  auto group = static_cast<size_t>(after - fences.begin() - 1);
  return Group(ref, group, fences[group], deadline);
}

Status SegmentReader::ForEach(const SegmentRef& ref, const Deadline& deadline, const std::function<Status(const Entry&)>& visit) {
  if (ref.level >= kEntryLevels) {
    HR_ASSIGN_OR_RETURN(std::vector<SegmentRef> children, Children(ref, deadline));
    for (const SegmentRef& child : children) HR_RETURN_IF_ERROR(ForEach(child, deadline, visit));
    return {};
  }
  HR_ASSIGN_OR_RETURN(std::vector<Fence> fences, Fences(ref, deadline));
  for (size_t i = 0; i < fences.size(); ++i) {
    HR_ASSIGN_OR_RETURN(std::vector<Entry> entries, Group(ref, i, fences[i], deadline));
    for (const Entry& entry : entries) HR_RETURN_IF_ERROR(visit(entry));
  }
  return {};
}

Result<std::vector<Entry>> SegmentReader::Entries(const SegmentRef& ref, const Deadline& deadline) {
  std::vector<Entry> entries;
  HR_RETURN_IF_ERROR(ForEach(ref, deadline, [&](const Entry& entry) {
    entries.push_back(entry);
    return Status();
  }));
  return entries;
}

Result<std::vector<SegmentRef>> SegmentReader::Children(const SegmentRef& ref, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::vector<Fence> fences, Fences(ref, deadline));
  HR_ASSIGN_OR_RETURN(Bytes bytes, Read(ref, HeaderBytes(ref), ref.count * kSegmentRefBytes, deadline));
  if (Crc32c(bytes.span()) != fences.front().crc) return Damaged(ref, "the checksum of its references does not fit");
  Decoder in(bytes.span());
  std::vector<SegmentRef> children;
  bool below = true;
  for (uint32_t i = 0; i < ref.count; ++i) {
    children.push_back(DecodeSegmentRef(in));
    below = below && children.back().level + 1 == ref.level;
  }
  if (!in.ok() || !below) return Damaged(ref, "a reference in it is wrong");
  return children;
}

}  // namespace headrace
