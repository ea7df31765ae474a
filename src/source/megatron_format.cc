// Megatron's indexed datasets: x.bin holds tokens, x.idx says where the documents are. A row is a document.
#include <algorithm>
#include <map>

#include "base/codec.h"
#include "base/text.h"
#include "source/run_reader.h"
#include "source/token_rows.h"

namespace headrace {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr uint64_t kHeader = 34;
constexpr std::string_view kBin = ".bin", kIdx = ".idx";

struct Index {
  Dtype dtype = Dtype::kI32;
  uint64_t sequences = 0, documents = 0;

  uint64_t SizeAt(uint64_t sequence) const { return kHeader + 4 * sequence; }
  uint64_t PointerAt(uint64_t sequence) const { return kHeader + 4 * sequences + 8 * sequence; }
  uint64_t DocumentAt(uint64_t document) const { return kHeader + 12 * sequences + 8 * document; }
};

std::string Stem(const std::string& uri) { return uri.substr(0, uri.size() - kBin.size()); }

class MegatronFormat final : public Format {
 public:
  using Format::Format;

  Result<std::vector<LakeFile>> Choose(std::vector<LakeFile> files, const Deadline& deadline) override {
    std::map<std::string, LakeFile> all;
    for (LakeFile& file : files) {
      if (file.uri.ends_with(kBin) || file.uri.ends_with(kIdx)) all.emplace(file.uri, std::move(file));
    }
    std::vector<LakeFile> chosen;
    std::vector<std::string> missing;
    for (const auto& [uri, file] : all) {
      const std::string other = Cat(Stem(uri), uri.ends_with(kBin) ? kIdx : kBin);
      if (!all.contains(other)) missing.push_back(other);
    }
    for (const std::string& uri : missing) {
      HR_ASSIGN_OR_RETURN(std::optional<LakeFile> file, lake_->Look(uri, deadline));
      if (!file)
        return Status(Code::kNotFound, Cat(uri, " is not there; a Megatron dataset is a .bin and an .idx of the same name"));
      all.emplace(uri, *std::move(file));
    }
    for (auto& [uri, file] : all) chosen.push_back(std::move(file));
    if (chosen.empty()) return Status(Code::kNotFound, "none of its files is a .bin or .idx");
    return chosen;
  }

  bool HasRows(const LakeFile& file) const override { return file.uri.ends_with(kBin); }

  Result<FileFacts> Scan(const LakeFile& file, const ScanPlan&, const Deadline& deadline) override {
    HR_ASSIGN_OR_RETURN(std::optional<LakeFile> idx, lake_->Look(Cat(Stem(file.uri), kIdx), deadline));
    if (!idx) return Status(Code::kNotFound, Cat(file.uri, " has no .idx beside it"));
    HR_ASSIGN_OR_RETURN(Index index, ReadIndex(*idx, deadline));
    FileFacts facts{.parts = {}, .schema = TokenSchema(), .seekable = true};
    if (index.documents > 0) {
      facts.parts.push_back({.part = 0,
                             .first = 0,
                             .count = index.documents,
                             .rows = index.documents,
                             .bytes = std::max<uint64_t>(1, file.bytes / DtypeBytes(index.dtype) * sizeof(int32_t))});
    }
    return facts;
  }

  Result<std::unique_ptr<GranuleReader>> Open(const Inventory& inventory, const Granule& granule, uint64_t, const ReadPlan& plan,
                                              const Deadline& deadline) override {
    const LakeFile& bin = inventory.files[granule.file];
    // Sorted by name, its index comes behind it.
    const std::string name = Cat(Stem(bin.uri), kIdx);
    const auto idx = std::ranges::lower_bound(inventory.files, name, {}, &LakeFile::uri);
    if (idx == inventory.files.end() || idx->uri != name)
      return Status(Code::kCorrupt, Cat("the inventory does not know ", name));
    HR_ASSIGN_OR_RETURN(Index index, ReadIndex(*idx, deadline));
    return std::make_unique<RunReader>(
        granule.first, granule.count,
        [this, bin, idx = *idx, index, plan](uint64_t first, uint64_t count, const Deadline& until) {
          return Documents(bin, idx, index, plan, first, count, until);
        });
  }

 private:
  Result<Index> ReadIndex(const LakeFile& idx, const Deadline& deadline) const {
    const auto wrong = [&](std::string_view why) { return Status(Code::kCorrupt, Cat("cannot read ", idx.uri, ": ", why)); };
    if (idx.bytes < kHeader) return wrong("it is too short for an index of Megatron");
    HR_ASSIGN_OR_RETURN(Bytes head, lake_->Read(idx, ByteRange::At(0, kHeader), deadline));
    if (!head.AsText().starts_with(kMagic)) return wrong("it does not begin with MMIDIDX, so it is no index of Megatron");
    Decoder in(head.span().subspan(kMagic.size()));
    if (const auto version = in.Get<uint64_t>(); version != 1)
      return wrong(Cat("its version is ", version, ", and only 1 is known"));
    Index index;
    switch (const auto code = in.Get<uint8_t>()) {
      case 1: index.dtype = Dtype::kU8; break;
      case 2: index.dtype = Dtype::kI8; break;
      case 3: index.dtype = Dtype::kI16; break;
      case 4: index.dtype = Dtype::kI32; break;
      case 5: index.dtype = Dtype::kI64; break;
      case 8: index.dtype = Dtype::kU16; break;
      default: return wrong(Cat("its elements are of type ", code, ", which is no type of tokens"));
    }
    index.sequences = in.Get<uint64_t>();
    const auto entries = in.Get<uint64_t>();
    if (index.sequences > idx.bytes / 12 || entries > idx.bytes / 8 || idx.bytes < index.DocumentAt(entries))
      return wrong("it is cut short");
    index.documents = entries > 0 ? entries - 1 : 0;
    return index;
  }

  template <typename T>
  Result<std::vector<T>> Numbers(const LakeFile& file, uint64_t at, uint64_t count, const Deadline& deadline) const {
    std::vector<T> numbers(count);
    if (count == 0) return numbers;
    HR_ASSIGN_OR_RETURN(Bytes bytes, lake_->Read(file, ByteRange::At(at, count * sizeof(T)), deadline));
    if (bytes.size() != count * sizeof(T)) return Status(Code::kCorrupt, Cat("cannot read ", file.uri, ": it is cut short"));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }

  Result<RowRun> Documents(const LakeFile& bin, const LakeFile& idx, const Index& index, const ReadPlan& plan, uint64_t first,
                           uint64_t count, const Deadline& deadline) const {
    const auto wrong = [&](std::string_view why) { return Status(Code::kCorrupt, Cat("cannot read ", idx.uri, ": ", why)); };
    HR_ASSIGN_OR_RETURN(std::vector<int64_t> documents, Numbers<int64_t>(idx, index.DocumentAt(first), count + 1, deadline));
    if (!std::ranges::is_sorted(documents) || documents.front() < 0 ||
        static_cast<uint64_t>(documents.back()) > index.sequences) {
      return wrong("its documents are out of order");
    }
    const auto from = static_cast<uint64_t>(documents.front()), sequences = static_cast<uint64_t>(documents.back()) - from;
    HR_ASSIGN_OR_RETURN(std::vector<int32_t> sizes, Numbers<int32_t>(idx, index.SizeAt(from), sequences, deadline));
    HR_ASSIGN_OR_RETURN(std::vector<int64_t> pointers, Numbers<int64_t>(idx, index.PointerAt(from), sequences, deadline));
    const uint64_t width = DtypeBytes(index.dtype);
    for (size_t i = 0; i < sequences; ++i) {
      if (sizes[i] < 0 || pointers[i] < 0 ||
          static_cast<uint64_t>(pointers[i]) + width * static_cast<uint64_t>(sizes[i]) > bin.bytes) {
        return wrong(Cat("sequence ", from + i, " lies outside of ", bin.uri));
      }
    }
    // Neighbours are read together: one request for a run without gaps.
    std::vector<Bytes> texts(sequences);
    for (size_t i = 0; i < sequences;) {
      size_t next = i;
      uint64_t end = static_cast<uint64_t>(pointers[i]);
      while (next < sequences && static_cast<uint64_t>(pointers[next]) == end)
        end += width * static_cast<uint64_t>(sizes[next++]);
      const auto begin = static_cast<uint64_t>(pointers[i]);
      Bytes run;
      if (end > begin) {
        HR_ASSIGN_OR_RETURN(run, lake_->Read(bin, ByteRange::At(begin, end - begin), deadline));
      }
      for (size_t k = i; k < next; ++k)
        texts[k] = run.Slice(static_cast<uint64_t>(pointers[k]) - begin, width * static_cast<uint64_t>(sizes[k]));
      i = next;
    }
    TokenRows rows(plan);
    for (uint64_t document = 0; document < count; ++document) {
      rows.Begin(static_cast<int64_t>(first + document));
      for (int64_t i = documents[document]; i < documents[document + 1]; ++i)
        rows.Add(texts[static_cast<uint64_t>(i) - from].span(), index.dtype);
      rows.End();
    }
    return rows.Finish();
  }
};

}  // namespace

std::unique_ptr<Format> MakeMegatronFormat(const SourceSpec& spec, std::shared_ptr<const Lake> lake) {
  return std::make_unique<MegatronFormat>(spec, std::move(lake));
}

}  // namespace headrace
