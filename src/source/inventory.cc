#include "source/inventory.h"

#include <arrow/type.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/codec.h"
#include "base/text.h"
#include "source/format.h"
#include "source/lake.h"
#include "store/open.h"

namespace headrace {
namespace {

constexpr std::string_view kMagic = "HRINV\x01\n\n";
constexpr uint64_t kMaxDecoded = uint64_t{8} << 30;
constexpr int kZstdLevel = 6;

// Looking at all bytes to count rows is worth it up to here; beyond, files are cut by bytes and rows are known when they are read.
constexpr uint64_t kCountLocal = uint64_t{16} << 30;
constexpr uint64_t kCountRemote = uint64_t{2} << 30;
constexpr uint64_t kSmallSource = 64 << 20;  // every row may begin a granule
constexpr uint32_t kGranulesPerStrand = 8;
constexpr size_t kScans = 16;  // at once

// What all pieces that strands hold at the same time may take together, about; one has at least and at most so much.
constexpr uint64_t kPiecesBytes = 512 << 20;
constexpr uint64_t kMinPieceBytes = 64 << 10, kMaxPieceBytes = 32 << 20;
constexpr uint64_t kMinPieceRows = 64;
constexpr uint64_t kMaxGranulesPerGroup = 4096;

class Packer {
 public:
  void Number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
    out_.push_back(static_cast<char>(value));
  }
  void Signed(int64_t value) { Number(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }
  void Text(std::string_view text) {
    Number(text.size());
    out_.append(text);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : decoder_(bytes) {}
  uint64_t Number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = decoder_.Get<uint8_t>();
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    decoder_.Fail();
    return 0;
  }
  int64_t Signed() {
    const uint64_t value = Number();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  std::string Text() {
    std::span<const std::byte> bytes = decoder_.GetRaw(Number());
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  // A count of things that take a byte each at the least.
  uint64_t Count() {
    const uint64_t count = Number();
    if (count > decoder_.left()) decoder_.Fail();
    return decoder_.ok() ? count : 0;
  }
  void Fail() { decoder_.Fail(); }
  bool ok() const { return decoder_.ok(); }
  bool Done() const { return decoder_.Done(); }

 private:
  Decoder decoder_;
};

Result<std::vector<FileFacts>> ScanAll(Format& format, const std::vector<LakeFile>& files, const ScanPlan& plan,
                                       const std::function<void(uint64_t, uint64_t)>& progress, const Deadline& deadline) {
  std::vector<FileFacts> facts(files.size());
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  size_t done = 0, failed_at = SIZE_MAX;
  Status failure;
  std::vector<std::shared_ptr<arrow::Schema>> schemas;  // few different ones for many files
  const auto work = [&] {
    for (size_t i = next++; i < files.size(); i = next++) {
      {
        std::lock_guard lock(mutex);
        if (failed_at < i) return;
      }
      Result<FileFacts> scanned = format.HasRows(files[i]) ? format.Scan(files[i], plan, deadline) : FileFacts();
      std::lock_guard lock(mutex);
      if (!scanned.ok()) {
        // Of several, the first in order: the same message every time.
        if (i < failed_at) {
          failed_at = i;
          failure = scanned.status();
        }
        continue;
      }
      if (scanned->schema) {
        auto known = std::ranges::find_if(schemas, [&](const auto& schema) { return schema->Equals(*scanned->schema, true); });
        if (known == schemas.end()) known = schemas.insert(schemas.end(), scanned->schema);
        scanned->schema = *known;
      }
      facts[i] = *std::move(scanned);
      if (progress) progress(++done, files.size());
    }
  };
  if (files.size() == 1) {
    work();
  } else {
    TaskGroup scans(SharedExecutor());
    for (size_t i = 0; i < std::min(kScans, files.size()); ++i) scans.Spawn(work);
    scans.Wait();
  }
  HR_RETURN_IF_ERROR(failure);
  return facts;
}

// Leaves the first `limit` rows.
void Limit(std::vector<FileFacts>& facts, uint64_t limit) {
  for (FileFacts& file : facts) {
    for (FilePart& part : file.parts) {
      if (part.rows > limit) {
        part.bytes = part.bytes * limit / part.rows;
        part.rows = limit;
        if (part.marks.empty()) part.count = limit;
        std::erase_if(part.marks, [&](const auto& mark) { return mark.first >= limit; });
      }
      limit -= part.rows;
    }
    std::erase_if(file.parts, [](const FilePart& part) { return part.rows == 0; });
  }
}

class Cutter {
 public:
  Cutter(uint64_t rows_per_granule, uint64_t heavy_rows_per_granule, uint32_t group_size, std::vector<Granule>& granules)
      : rows_per_granule_(rows_per_granule),
        heavy_rows_per_granule_(heavy_rows_per_granule),
        group_size_(group_size),
        granules_(granules) {}

  void Cut(uint32_t file, const FileFacts& facts) {
    for (const FilePart& part : facts.parts) {
      if (!part.marks.empty()) {
        CutAtMarks(file, part);
      } else if (part.rows == 0) {
        CutBytes(file, part, facts.seekable);
      } else {
        CutRows(file, part, facts);
      }
    }
  }

 private:
  void CutAtMarks(uint32_t file, const FilePart& part) {
    const uint64_t end = part.first + part.count;
    for (size_t begin = 0; begin < part.marks.size();) {
      size_t next = begin + 1;
      const auto [row, offset] = part.marks[begin];
      while (next < part.marks.size() && part.marks[next].first - row < rows_per_granule_ &&
             part.marks[next].second - offset < kGranuleBytes)
        ++next;
      const bool last = next == part.marks.size();
      granules_.push_back({.file = file,
                           .part = part.part,
                           .first = offset,
                           .count = (last ? end : part.marks[next].second) - offset,
                           .rows = (last ? part.rows : part.marks[next].first) - row});
      begin = next;
    }
  }

  void CutBytes(uint32_t file, const FilePart& part, bool seekable) {
    const uint64_t pieces = seekable ? std::max<uint64_t>(1, (part.count + kGranuleBytes - 1) / kGranuleBytes) : 1;
    for (uint64_t i = 0; i < pieces; ++i) {
      const uint64_t begin = part.count * i / pieces, end = part.count * (i + 1) / pieces;
      granules_.push_back({.file = file, .part = part.part, .first = part.first + begin, .count = end - begin, .rows = 0});
    }
  }

  void CutRows(uint32_t file, const FilePart& part, const FileFacts& facts) {
    uint64_t most = !facts.seekable && part.bytes > facts.cheap_bytes ? heavy_rows_per_granule_ : rows_per_granule_;
    if (facts.seekable && part.bytes > 0) most = std::min(most, std::max<uint64_t>(1, kGranuleBytes * part.rows / part.bytes));
    most = std::max<uint64_t>(1, most / group_size_) * group_size_;
    const uint64_t units = (part.rows + group_size_ - 1) / group_size_, pieces = (part.rows - 1) / most + 1;
    for (uint64_t i = 0; i < pieces; ++i) {
      const uint64_t begin = units * i / pieces * group_size_, end = std::min(part.rows, units * (i + 1) / pieces * group_size_);
      if (begin < end)
        granules_.push_back(
            {.file = file, .part = part.part, .first = part.first + begin, .count = end - begin, .rows = end - begin});
    }
  }

  const uint64_t rows_per_granule_, heavy_rows_per_granule_;
  const uint32_t group_size_;
  std::vector<Granule>& granules_;
};

void ChooseWindows(Inventory& inventory, const InventoryOptions& options, uint64_t row_bytes) {
  const uint64_t cursors = uint64_t{std::max(1u, options.strands)} * std::max(1u, options.sources);
  const uint64_t piece_bytes = std::clamp(kPiecesBytes / cursors, kMinPieceBytes, kMaxPieceBytes);
  uint64_t rows = std::max(kMinPieceRows, options.shuffle_window / cursors);
  rows = std::clamp<uint64_t>(rows, 1, std::max<uint64_t>(1, piece_bytes / std::max<uint64_t>(1, row_bytes)));
  rows = std::max<uint64_t>(1, rows / options.group_size) * options.group_size;
  inventory.rows_per_piece = static_cast<uint32_t>(std::min<uint64_t>(rows, 1 << 24));
  if (options.shuffle_window <= 1 || inventory.granules.empty()) return;
  const uint64_t granule_rows = std::max<uint64_t>(1, inventory.rows / inventory.granules.size());
  const uint64_t of_a_strand = (inventory.granules.size() + options.strands - 1) / std::max(1u, options.strands);
  inventory.granules_per_group = static_cast<uint32_t>(
      std::clamp<uint64_t>(rows / granule_rows, 1, std::min<uint64_t>(kMaxGranulesPerGroup, std::max<uint64_t>(1, of_a_strand))));
}

}  // namespace

Result<std::vector<LakeFile>> FindFiles(const std::vector<std::string>& patterns, const std::string& folder,
                                        const StorageOptions& options, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::shared_ptr<Lake> lake, Lake::Open(patterns, folder, options));
  return lake->Find(deadline);
}

Result<Inventory> MakeInventory(const SourceSpec& spec, const std::string& folder, const InventoryOptions& options,
                                const Deadline& deadline) {
  const std::string what = Cat("cannot take the inventory of source ", spec.name);
  HR_ASSIGN_OR_RETURN(std::shared_ptr<Lake> lake, Lake::Open(spec.files, folder, spec.storage_options));
  HR_ASSIGN_OR_RETURN(std::unique_ptr<Format> format, Format::Make(spec, lake));
  Inventory inventory;
  inventory.source = spec.name;
  inventory.format = spec.format;
  inventory.fingerprint = spec.Fingerprint();
  Result<std::vector<LakeFile>> found = lake->Find(deadline);
  if (!found.ok()) return found.status().Annotate(what);
  Result<std::vector<LakeFile>> chosen = format->Choose(*std::move(found), deadline);
  if (!chosen.ok()) return chosen.status().Annotate(what);
  inventory.files = *std::move(chosen);
  if (inventory.files.size() > UINT32_MAX) return Status(Code::kInvalidArgument, Cat(what, ": it has too many files"));

  uint64_t to_read = 0, with_rows = 0;
  bool remote = false;
  for (const LakeFile& file : inventory.files) {
    inventory.bytes += file.bytes;
    if (!format->HasRows(file)) continue;
    ++with_rows;
    if (format->CountsByReading(file)) to_read += file.bytes;
    remote |= !lake->local(file.uri);
  }
  const uint32_t strands = std::max(1u, options.strands), group_size = std::max(1u, options.group_size);
  ScanPlan plan{.count = spec.limit > 0 || group_size > 1 || to_read <= (remote ? kCountRemote : kCountLocal),
                .mark_bytes = to_read <= kSmallSource
                                  ? 0
                                  : std::min<uint64_t>(1 << 20, to_read / (uint64_t{strands} * kGranulesPerStrand * 8)),
                .group_size = group_size};
  Result<std::vector<FileFacts>> scanned = ScanAll(*format, inventory.files, plan, options.progress, deadline);
  if (!scanned.ok()) return scanned.status().Annotate(what);
  std::vector<FileFacts>& facts = *scanned;
  Result<SampleFacts> sample = format->Sample(inventory.files, facts, deadline);
  if (!sample.ok()) return sample.status().Annotate(what);
  HR_ASSIGN_OR_RETURN(inventory.schema, EncodeSchema(*sample->schema));
  if (spec.limit > 0) Limit(facts, spec.limit);
  if (group_size > 1) {
    // A file's last rows that do not make a group are never used.
    for (FileFacts& file : facts) {
      for (FilePart& part : file.parts) {
        part.rows -= part.rows % group_size;
        if (part.marks.empty()) part.count = part.rows;
        std::erase_if(part.marks, [&](const auto& mark) { return mark.first >= part.rows; });
      }
      std::erase_if(file.parts, [](const FilePart& part) { return part.rows == 0; });
    }
  }

  uint64_t known_rows = 0, known_bytes = 0, unknown_bytes = 0, parts = 0;
  for (const FileFacts& file : facts) {
    for (const FilePart& part : file.parts) {
      ++parts;
      known_rows += part.rows;
      (part.rows ? known_bytes : unknown_bytes) += part.bytes;
    }
  }
  uint64_t row_bytes = sample->row_bytes ? sample->row_bytes : known_rows ? known_bytes / known_rows : 1;
  row_bytes = std::max<uint64_t>(1, row_bytes);
  inventory.exact = unknown_bytes == 0;
  inventory.rows = known_rows + unknown_bytes / row_bytes;
  // As few cuts as it takes to give every strand its share.
  const uint64_t wanted = uint64_t{strands} * kGranulesPerStrand;
  const auto share = [&](uint64_t pieces) {
    return parts >= pieces ? UINT64_MAX : std::max<uint64_t>(1, (inventory.rows + pieces - 1) / pieces);
  };
  Cutter cutter(share(wanted), share(strands), group_size, inventory.granules);
  for (size_t i = 0; i < facts.size(); ++i) cutter.Cut(static_cast<uint32_t>(i), facts[i]);
  if (inventory.granules.empty()) {
    return Status(Code::kInvalidArgument,
                  Cat(what, ": its ", with_rows, " files have no rows", group_size > 1 ? " that make a group" : "", ", such as ",
                      inventory.files.front().uri));
  }
  ChooseWindows(inventory, options, row_bytes);
  return inventory;
}

std::string Inventory::Encode() const {
  Packer out;
  for (const std::string* text : {&source, &format, &fingerprint, &schema}) out.Text(*text);
  out.Number(rows);
  out.Number(bytes);
  out.Number(exact);
  out.Number(granules_per_group);
  out.Number(rows_per_piece);
  out.Number(files.size());
  std::string_view before;
  for (const LakeFile& file : files) {
    const size_t shared = std::ranges::mismatch(before, file.uri).in1 - before.begin();
    out.Number(shared);
    out.Text(std::string_view(file.uri).substr(shared));
    out.Number(file.bytes);
    out.Text(file.version);
    before = file.uri;
  }
  out.Number(granules.size());
  Granule last;
  for (const Granule& granule : granules) {
    out.Signed(int64_t{granule.file} - last.file);
    out.Number(granule.part);
    out.Signed(static_cast<int64_t>(granule.first - (last.first + last.count)));
    out.Number(granule.count);
    out.Number(granule.rows);
    last = granule;
  }
  const std::string plain = out.Take();
  Encoder whole;
  whole.PutRaw(kMagic);
  whole.Put(static_cast<uint64_t>(plain.size()));
  std::string packed(ZSTD_compressBound(plain.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, kZstdLevel);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), plain.data(), plain.size()));
  ZSTD_freeCCtx(context);
  whole.PutRaw(packed);
  return whole.Take();
}

Result<Inventory> Inventory::Decode(std::string_view bytes, std::string_view what) {
  const auto wrong = [&](std::string_view why) {
    return Status(Code::kCorrupt, Cat("cannot read the inventory ", what, ": ", why));
  };
  if (!bytes.starts_with(kMagic)) return wrong("it does not begin as one, or is of another version of Headrace");
  Decoder head(bytes.substr(kMagic.size()));
  const auto size = head.GetAtMost<uint64_t>(kMaxDecoded);
  if (!head.ok()) return wrong("it is cut short");
  const std::string_view packed = bytes.substr(kMagic.size() + sizeof(uint64_t));
  if (ZSTD_getFrameContentSize(packed.data(), packed.size()) != size) return wrong("its length is not the one that it names");
  std::string plain(size, '\0');
  if (ZSTD_decompress(plain.data(), plain.size(), packed.data(), packed.size()) != size) return wrong("its bytes are damaged");

  Unpacker in(plain);
  Inventory inventory;
  for (std::string* text : {&inventory.source, &inventory.format, &inventory.fingerprint, &inventory.schema}) *text = in.Text();
  inventory.rows = in.Number();
  inventory.bytes = in.Number();
  inventory.exact = in.Number() != 0;
  inventory.granules_per_group = static_cast<uint32_t>(in.Number());
  inventory.rows_per_piece = static_cast<uint32_t>(in.Number());
  if (inventory.granules_per_group == 0 || inventory.rows_per_piece == 0) in.Fail();
  inventory.files.resize(in.Count());
  std::string before;
  for (LakeFile& file : inventory.files) {
    const uint64_t shared = in.Number();
    if (shared > before.size()) in.Fail();
    if (!in.ok()) break;
    file.uri = before.substr(0, shared) + in.Text();
    file.bytes = in.Number();
    file.version = in.Text();
    before = file.uri;
  }
  inventory.granules.resize(in.Count());
  Granule last;
  for (Granule& granule : inventory.granules) {
    const int64_t file = int64_t{last.file} + in.Signed();
    if (file < 0 || static_cast<uint64_t>(file) >= inventory.files.size()) in.Fail();
    granule.file = static_cast<uint32_t>(file);
    granule.part = static_cast<uint32_t>(in.Number());
    granule.first = last.first + last.count + static_cast<uint64_t>(in.Signed());
    granule.count = in.Number();
    granule.rows = in.Number();
    if (!in.ok()) break;
    last = granule;
  }
  if (!in.Done()) return wrong("its content does not fit together");
  return inventory;
}

}  // namespace headrace
