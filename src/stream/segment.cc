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
constexpr size_t kKeptBytes = 2 << 20;
constexpr size_t kSmallBytes = 96 << 10;  // a segment up to here is read whole, for it takes no longer

size_t Groups(const SegmentRef& ref) { return ref.level < kEntryLevels ? (ref.count + kGroup - 1) / kGroup : 1; }
size_t HeaderBytes(const SegmentRef& ref) { return kFixedBytes + kFenceBytes * Groups(ref) + 8; }

size_t BodyBytes(const SegmentRef& ref) { return ref.count * (ref.level < kEntryLevels ? kEntryBytes : kSegmentRefBytes); }
size_t GroupCount(const SegmentRef& ref, size_t group) { return std::min(kGroup, ref.count - group * kGroup); }

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
  if (ref.count == 0) return Damaged(ref, "its reference says that it is empty");
  GetOptions options{.range = ByteRange::At(offset, length)};
  HR_ASSIGN_OR_RETURN(std::optional<Object> object, store_.Get(ref.Key(), options, deadline));
  if (!object) return Status(Code::kNotFound, Cat("the index segment ", store_.Describe(ref.Key()), " is not there"));
  if (object->bytes.size() != length) return Damaged(ref, Cat("it has ", object->size, " bytes, too few"));
  return std::move(object->bytes);
}

size_t SegmentReader::Part::bytes() const {
  return sizeof(Part) + fences.size() * sizeof(Fence) + entries.size() * sizeof(Entry) + children.size() * sizeof(SegmentRef);
}

SegmentReader::PartPtr SegmentReader::Kept(const PartName& name) {
  std::lock_guard lock(mutex_);
  auto found = std::ranges::find(kept_, name, [](const auto& kept) { return kept.first; });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return kept_.front().second;
}

void SegmentReader::Keep(const PartName& name, PartPtr part) {
  std::lock_guard lock(mutex_);
  kept_bytes_ += part->bytes();
  kept_.emplace_front(name, std::move(part));
  while (kept_bytes_ > kKeptBytes && kept_.size() > 1) {
    kept_bytes_ -= kept_.back().second->bytes();
    kept_.pop_back();
  }
}

Result<std::vector<SegmentReader::Fence>> SegmentReader::DecodeFences(const SegmentRef& ref,
                                                                      std::span<const std::byte> header) const {
  Decoder end(header.last(8));
  auto crc = end.Get<uint32_t>();
  if (crc != ref.crc || crc != Crc32c(header.first(header.size() - 8))) return Damaged(ref, "its header's checksum does not fit");
  Decoder in(header);
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

Result<std::vector<Entry>> SegmentReader::DecodeGroup(const SegmentRef& ref, size_t group, const Fence& fence,
                                                      std::span<const std::byte> bytes) const {
  if (Crc32c(bytes) != fence.crc) return Damaged(ref, Cat("the checksum of entries ", group * kGroup, " and on does not fit"));
  Decoder in(bytes);
  std::vector<Entry> entries;
  for (size_t i = 0; i < GroupCount(ref, group); ++i) entries.push_back(DecodeEntry(in));
  return entries;
}

Result<Bytes> SegmentReader::ReadGroup(const SegmentRef& ref, size_t group, const Deadline& deadline) {
  return Read(ref, HeaderBytes(ref) + group * kGroup * kEntryBytes, GroupCount(ref, group) * kEntryBytes, deadline);
}

Result<std::vector<Entry>> SegmentReader::FindStep(const SegmentRef& ref, uint64_t step, const Deadline& deadline) {
  PartName name{ref.level, ref.first_block, ref.nonce, kHeader};
  PartPtr header = Kept(name);
  if (ref.level >= kEntryLevels) {
    if (!header) {
      auto part = std::make_shared<Part>();
      HR_ASSIGN_OR_RETURN(part->children, Children(ref, deadline));
      Keep(name, part);
      header = std::move(part);
    }
    for (const SegmentRef& child : header->children) {
      if (step >= child.first_step && step < child.end_step) return FindStep(child, step, deadline);
    }
    return std::vector<Entry>();
  }

  // Where the step is if all blocks have equally many steps.
  auto share =
      static_cast<double>(step - ref.first_step) / static_cast<double>(std::max<uint64_t>(1, ref.end_step - ref.first_step));
  size_t guess = std::min(static_cast<size_t>(share * ref.count) / kGroup, std::max<size_t>(1, Groups(ref)) - 1);
  std::optional<Result<Bytes>> guessed;
  if (!header) {
    const bool small = HeaderBytes(ref) + BodyBytes(ref) <= kSmallBytes;
    std::optional<TaskGroup> beside;
    if (!small && executor_ != nullptr) {
      beside.emplace(*executor_);
      beside->Spawn([&] { guessed.emplace(ReadGroup(ref, guess, deadline)); });
    }
    Result<Bytes> read = Read(ref, 0, HeaderBytes(ref) + (small ? BodyBytes(ref) : 0), deadline);
    if (beside) beside->Wait();
    HR_ASSIGN_OR_RETURN(Bytes bytes, std::move(read));
    auto part = std::make_shared<Part>();
    HR_ASSIGN_OR_RETURN(part->fences, DecodeFences(ref, bytes.span().first(HeaderBytes(ref))));
    for (size_t i = 0; small && i < part->fences.size(); ++i) {
      auto group = std::make_shared<Part>();
      std::span<const std::byte> at =
          bytes.span().subspan(HeaderBytes(ref) + i * kGroup * kEntryBytes, GroupCount(ref, i) * kEntryBytes);
      HR_ASSIGN_OR_RETURN(group->entries, DecodeGroup(ref, i, part->fences[i], at));
      name.group = i;
      Keep(name, std::move(group));
    }
    name.group = kHeader;
    Keep(name, part);
    header = std::move(part);
  }
  auto after = std::ranges::upper_bound(header->fences, step, {}, &Fence::first_step);
  if (after == header->fences.begin()) return std::vector<Entry>();
  name.group = static_cast<size_t>(after - header->fences.begin() - 1);
  PartPtr group = Kept(name);
  if (!group) {
    Result<Bytes> read = guessed && name.group == guess ? *std::move(guessed) : ReadGroup(ref, name.group, deadline);
    HR_ASSIGN_OR_RETURN(Bytes bytes, std::move(read));
    auto part = std::make_shared<Part>();
    HR_ASSIGN_OR_RETURN(part->entries, DecodeGroup(ref, name.group, header->fences[name.group], bytes.span()));
    Keep(name, part);
    group = std::move(part);
  }
  return group->entries;
}

Status SegmentReader::ForEach(const SegmentRef& ref, const Deadline& deadline, const std::function<Status(const Entry&)>& visit) {
  if (ref.level >= kEntryLevels) {
    HR_ASSIGN_OR_RETURN(std::vector<SegmentRef> children, Children(ref, deadline));
    for (const SegmentRef& child : children) HR_RETURN_IF_ERROR(ForEach(child, deadline, visit));
    return {};
  }
  HR_ASSIGN_OR_RETURN(Bytes bytes, Read(ref, 0, HeaderBytes(ref) + BodyBytes(ref), deadline));
  HR_ASSIGN_OR_RETURN(std::vector<Fence> fences, DecodeFences(ref, bytes.span().first(HeaderBytes(ref))));
  for (size_t i = 0; i < fences.size(); ++i) {
    std::span<const std::byte> at =
        bytes.span().subspan(HeaderBytes(ref) + i * kGroup * kEntryBytes, GroupCount(ref, i) * kEntryBytes);
    HR_ASSIGN_OR_RETURN(std::vector<Entry> entries, DecodeGroup(ref, i, fences[i], at));
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

Result<std::vector<Entry>> SegmentReader::Entries(std::span<const SegmentRef> refs, const Deadline& deadline) {
  std::vector<Result<std::vector<Entry>>> each(refs.size(), std::vector<Entry>());
  if (executor_ == nullptr) {
    for (size_t i = 0; i < refs.size(); ++i) each[i] = Entries(refs[i], deadline);
  } else {
    TaskGroup reads(*executor_);
    for (size_t i = 0; i < refs.size(); ++i) reads.Spawn([&, i] { each[i] = Entries(refs[i], deadline); });
    reads.Wait();
  }
  std::vector<Entry> entries;
  for (Result<std::vector<Entry>>& some : each) {
    HR_ASSIGN_OR_RETURN(std::vector<Entry> more, std::move(some));
    entries.insert(entries.end(), more.begin(), more.end());
  }
  return entries;
}

Result<std::vector<SegmentRef>> SegmentReader::Children(const SegmentRef& ref, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(Bytes bytes, Read(ref, 0, HeaderBytes(ref) + BodyBytes(ref), deadline));
  HR_ASSIGN_OR_RETURN(std::vector<Fence> fences, DecodeFences(ref, bytes.span().first(HeaderBytes(ref))));
  std::span<const std::byte> body = bytes.span().subspan(HeaderBytes(ref));
  if (Crc32c(body) != fences.front().crc) return Damaged(ref, "the checksum of its references does not fit");
  Decoder in(body);
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
