#include "stream/verify.h"

#include <map>

#include "base/crc32c.h"
#include "base/text.h"
#include "stream/cell.h"
#include "stream/chunk.h"

namespace headrace {
namespace {

bool IsDamage(const Status& status) { return status.code() == Code::kCorrupt || status.code() == Code::kNotFound; }

class Verifier {
 public:
  Verifier(StreamLog& log, const Deadline& deadline) : log_(log), info_(log.info()), deadline_(deadline) {}

  Result<VerifyReport> Run(const std::function<void(uint64_t, uint64_t)>& progress) {
    HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_.RefreshFully(deadline_));
    const Manifest& manifest = state->manifest;
    sealed_ = manifest.finished;
    uint64_t steps = manifest.frontier_step - manifest.trim_step;
    Status segments = log_.index().ForEachSegment(manifest, deadline_, [&](const SegmentRef& ref) {
      ++report_.segments;
      if (ref.level >= kEntryLevels) return Status();
      return Note(log_.index().segments().Entries(ref, deadline_).status(), ref.Key());
    });
    HR_RETURN_IF_ERROR(Note(segments, "index/"));
    if (!report_.damaged.empty()) {
      report_.unchecked.push_back({log_.store().Describe("data/"), "chunks are found through the index, which is damaged"});
      return report_;
    }

    uint64_t expected = 0;
    Status walked = log_.index().ForEach(manifest, manifest.trim_block, UINT64_MAX, deadline_, [&](const Entry& entry) {
      if (expected != 0 && entry.first_step != expected) {
        report_.damaged.push_back({log_.store().Describe(entry.name.Key()), Cat("step ", expected, " is missing before it")});
      }
      expected = entry.end_step();
      HR_RETURN_IF_ERROR(Note(CheckChunk(entry), entry.name.Key()));
      report_.steps += entry.steps;
      if (progress) progress(report_.steps, steps);
      return Status();
    });
    HR_RETURN_IF_ERROR(walked);
    for (const Entry& entry : manifest.parked) HR_RETURN_IF_ERROR(Note(CheckChunk(entry), entry.name.Key()));
    for (uint16_t v = 0; v < info_.strands; ++v) HR_RETURN_IF_ERROR(CheckEnd(manifest, v));
    return report_;
  }

 private:
  // Damage is noted, and the walk goes on; anything else ends it.
  Status Note(const Status& status, const std::string& key) {
    if (!IsDamage(status)) return status;
    report_.damaged.push_back({log_.store().Describe(key), status.message()});
    return {};
  }

  Status CheckChunk(const Entry& entry) {
    ++report_.chunks;
    std::string key = entry.name.Key();
    std::string what = log_.store().Describe(key);
    HR_ASSIGN_OR_RETURN(std::optional<Object> object, log_.store().Get(key, deadline_));
    if (object) report_.bytes += object->bytes.size();
    Result<ChunkHeader> header = ReadHeader(entry, object, what);
    if (!header.ok()) {
      if (IsDamage(header.status())) LoseLink(entry, what);
      return header.status();
    }
    // The chain first: whatever else is wrong with this chunk, its header says how the next one must begin.
    Status chained = CheckLink(entry, *header, what);
    HR_RETURN_IF_ERROR(CheckContent(entry, *header, object->bytes, what));
    return chained;
  }

  Result<ChunkHeader> ReadHeader(const Entry& entry, const std::optional<Object>& object, const std::string& what) const {
    if (!object) return Status(Code::kNotFound, "it is missing");
    const uint64_t bytes = object->bytes.size();
    if (bytes < entry.header_bytes) return WrongSize(entry, bytes);
    return DecodeChunkHeader(object->bytes.span().first(entry.header_bytes), entry, info_, what);
  }

  static Status WrongSize(const Entry& entry, uint64_t bytes) {
    return Status(Code::kCorrupt, Cat("it has ", bytes, " bytes, not ", entry.bytes));
  }

  Status CheckContent(const Entry& entry, const ChunkHeader& header, const Bytes& chunk, const std::string& what) const {
    if (chunk.size() != entry.bytes) return WrongSize(entry, chunk.size());
    for (uint32_t lane = 0; lane < info_.lanes; ++lane) {
      uint64_t offset = header.lane[lane].offset;
      Bytes bytes = chunk.Slice(offset, header.lane[lane + 1].offset - offset);
      HR_ASSIGN_OR_RETURN(std::vector<CellPlace> places, DecodeDirectory(bytes.span(), header, lane, what));
      for (uint32_t i = 0; i < places.size(); ++i) {
        std::string cell = Cat("step ", entry.first_step + i, ", lane ", lane);
        HR_ASSIGN_OR_RETURN(Bytes raw, UnpackCell(bytes, offset, places[i], cell));
        HR_RETURN_IF_ERROR(ReadCell(raw, info_.columns, cell).status());
      }
    }
    Bytes footer = chunk.Slice(header.footer_offset);
    HR_RETURN_IF_ERROR(DecodeFooter(footer, info_.uuid, entry.name, what).status());
    if (Crc32c(footer.span().first(footer.size() - 4)) != header.footer_crc)
      return Status(Code::kCorrupt, "its footer is another chunk's");
    return {};
  }

  // Does it continue the chain of its strand? The next one is held to what this one says.
  Status CheckLink(const Entry& entry, const ChunkHeader& header, const std::string& what) {
    const uint16_t v = entry.name.strand;
    const auto lost = lost_.extract(v);
    const auto known = links_.find(v);
    const bool first = known == links_.end();
    const Link before = first ? Manifest::FirstLink(info_, v) : known->second;
    const bool fits = before == header.edit.prev || (sealed_ && AfterEnd(entry, before, header.edit.prev));
    links_[v] = NextLink(header.edit);
    next_block_[v] = entry.block + info_.strands;
    if (lost) {
      report_.unchecked.push_back(
          {what, Cat("whether it continues the chain of strand ", v, ", since ", lost.mapped(), " before it cannot be read")});
      return {};
    }
    if (fits || (first && entry.name.seq != 0)) return {};  // what came before the first that is there has been trimmed
    return Status(Code::kCorrupt, first ? Cat("the chain of strand ", v, " does not begin with it")
                                        : Cat("it does not continue the chain of strand ", v));
  }

  void LoseLink(const Entry& entry, const std::string& what) {
    links_.erase(entry.name.strand);
    lost_[entry.name.strand] = what;
  }

  // The chunk that seals a stream follows the END of its strand, which no object holds: only its epoch is not known.
  bool AfterEnd(const Entry& entry, const Link& before, const Link& prev) const {
    auto block = next_block_.find(entry.name.strand);
    EndEdit end{info_.uuid, entry.name.strand, 0, before, block == next_block_.end() ? entry.name.strand : block->second};
    for (end.epoch = entry.name.epoch; end.epoch > 0; --end.epoch) {
      if (NextLink(end) == prev) return true;
    }
    return false;
  }

  // The chain ends where the manifest says. Of a strand that ended, the last link is its END's, which no object holds.
  Status CheckEnd(const Manifest& manifest, uint16_t v) {
    if (manifest.strands[v].ended) return {};
    if (auto lost = lost_.find(v); lost != lost_.end()) {
      report_.unchecked.push_back(
          {log_.store().Describe(),
           Cat("whether the chain of strand ", v, " ends as its manifest says, since ", lost->second, " cannot be read")});
      return {};
    }
    auto link = links_.find(v);
    if (link == links_.end() || link->second == manifest.strands[v].link) return {};
    return Note(Status(Code::kCorrupt, Cat("strand ", v, " does not end with the chunk that the manifest names")),
                manifest.LastChunk(v)->Key());
  }

  StreamLog& log_;
  const StreamInfo& info_;
  const Deadline& deadline_;
  VerifyReport report_;
  std::map<uint16_t, Link> links_;
  std::map<uint16_t, std::string> lost_;  // by strand: the chunk that should say how the next one begins, and cannot be read
  std::map<uint16_t, uint64_t> next_block_;
  bool sealed_ = false;
};

}  // namespace

Result<VerifyReport> Verify(StreamLog& log, const Deadline& deadline, const std::function<void(uint64_t, uint64_t)>& progress) {
  return Verifier(log, deadline).Run(progress);
}

}  // namespace headrace
