#include "stream/stream_reader.h"

#include <algorithm>

#include "base/text.h"

namespace headrace {
namespace {

constexpr size_t kKeptHeaders = 64;
constexpr uint32_t kFewLanes = 8;
constexpr std::string_view kWhatToDoAboutTrimmed =
    ". Read from there on (in Python loader.seek(step)), or load the state of a newer checkpoint; a pin keeps the steps of one";
constexpr auto kFirstPoll = std::chrono::milliseconds(10);
constexpr auto kSlowestPoll = std::chrono::seconds(2);

// The one that holds `step`, if any; they are in order.
const Entry* EntryOf(const std::vector<Entry>& entries, uint64_t step) {
  auto after = std::ranges::upper_bound(entries, step, {}, &Entry::first_step);
  if (after == entries.begin()) return nullptr;
  const Entry& entry = *std::prev(after);
  return step < entry.end_step() ? &entry : nullptr;
}

}  // namespace

struct StreamReader::Known {
  ChunkName name;
  ChunkHeader header;
  Bytes whole;  // of a small chunk: everything
};

Result<StreamLog::StatePtr> StreamReader::Refresh(const Deadline& deadline) { return log_->Refresh(deadline); }

Result<bool> StreamReader::WaitFor(uint64_t step, const Deadline& deadline) {
  Duration wait = kFirstPoll;
  StreamLog::StatePtr state = log_->known();
  while (true) {
    if (step < state->manifest.frontier_step) return true;
    if (state->manifest.finished) return false;
    uint64_t before = state->manifest.number;
    HR_ASSIGN_OR_RETURN(state, log_->Refresh(deadline));
    if (state->manifest.number != before) {
      wait = std::max<Duration>(kFirstPoll, wait / 2);
      continue;
    }
    // Readers are many: a little jitter keeps them apart.
    double jitter = 0.75 + 0.5 * static_cast<double>(log_->NewNonce() % 1024) / 1024;
    HR_RETURN_IF_ERROR(deadline.Sleep(log_->clock(), Duration(static_cast<int64_t>(static_cast<double>(wait.count()) * jitter)),
                                      Cat("wait for step ", step)));
    wait = std::min<Duration>(kSlowestPoll, wait * 2);
  }
}

Result<Entry> StreamReader::Find(uint64_t step, const Deadline& deadline) {
  StreamLog::StatePtr state = log_->known();
  if (step >= state->manifest.frontier_step || step < state->manifest.trim_step) {
    HR_ASSIGN_OR_RETURN(state, log_->Refresh(deadline));
  }
  const Manifest& manifest = state->manifest;
  if (step < manifest.trim_step) {
    return Status(Code::kTrimmed, Cat("step ", step, " of ", log_->store().Describe(),
                                      " was given up: the stream begins at step ", manifest.trim_step, kWhatToDoAboutTrimmed));
  }
  if (step >= manifest.frontier_step) {
    return Status(Code::kNotFound, Cat("step ", step, " of ", log_->store().Describe(), " is not there",
                                       manifest.finished ? ": the stream ends" : " yet: there are",
                                       manifest.finished ? " after " : " ", manifest.frontier_step, " steps"));
  }
  {
    std::lock_guard lock(mutex_);
    if (const Entry* entry = EntryOf(entries_, step)) return *entry;
  }
  Result<std::vector<Entry>> found = log_->index().FindAround(manifest, step, deadline);
  if (!found.ok() && found.code() == Code::kNotFound) {
    // A segment is gone: folded or trimmed since this manifest. The newest one knows.
    HR_ASSIGN_OR_RETURN(StreamLog::StatePtr newest, log_->RefreshFully(deadline));
    if (newest->manifest.number != manifest.number) return Find(step, deadline);
    return Status(Code::kCorrupt, found.status().message());
  }
  if (!found.ok()) return found.status();
  const Entry* entry = EntryOf(*found, step);
  if (entry == nullptr)
    return Status(Code::kCorrupt, Cat("the index of ", log_->store().Describe(), " does not have step ", step));
  Entry answer = *entry;
  if (found->size() > 1) {
    std::lock_guard lock(mutex_);
    entries_ = *std::move(found);
  }
  return answer;
}

Status StreamReader::Missing(const Entry& entry, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr newest, log_->RefreshFully(deadline));
  if (entry.block < newest->manifest.trim_block) {
    return Status(Code::kTrimmed,
                  Cat("steps ", entry.first_step, " to ", entry.end_step() - 1, " of ", log_->store().Describe(),
                      " were given up: the stream begins at step ", newest->manifest.trim_step, kWhatToDoAboutTrimmed));
  }
  return Status(Code::kCorrupt, Cat("the chunk ", log_->store().Describe(entry.name.Key()), " with steps ", entry.first_step,
                                    " to ", entry.end_step() - 1, " is missing"));
}

std::shared_ptr<const StreamReader::Known> StreamReader::KnownOf(const ChunkName& name) {
  std::lock_guard lock(mutex_);
  auto found = std::ranges::find(headers_, name, [](const auto& kept) { return kept->name; });
  if (found == headers_.end()) return nullptr;
  headers_.splice(headers_.begin(), headers_, found);
  return headers_.front();
}

Result<std::shared_ptr<const StreamReader::Known>> StreamReader::Learn(const Entry& entry, const Bytes& beginning, Bytes whole) {
  auto known = std::make_shared<Known>();
  known->name = entry.name;
  HR_ASSIGN_OR_RETURN(known->header, DecodeChunkHeader(beginning.Slice(0, entry.header_bytes).span(), entry, log_->info(),
                                                       log_->store().Describe(entry.name.Key())));
  known->whole = std::move(whole);
  std::lock_guard lock(mutex_);
  headers_.push_front(known);
  if (headers_.size() > kKeptHeaders) headers_.pop_back();
  return std::shared_ptr<const Known>(std::move(known));
}

Result<std::shared_ptr<const StreamReader::Known>> StreamReader::Header(const Entry& entry, uint32_t lanes,
                                                                        const Deadline& deadline) {
  if (std::shared_ptr<const Known> known = KnownOf(entry.name)) return known;
  std::string key = entry.name.Key();
  // Not for the sake of a few lanes out of many: their readers are many, too.
  bool whole = entry.bytes <= kSmallChunk && lanes * kFewLanes >= log_->info().lanes;
  GetOptions options{.range = ByteRange::At(0, whole ? entry.bytes : entry.header_bytes)};
  HR_ASSIGN_OR_RETURN(std::optional<Object> object, log_->store().Get(key, options, deadline));
  if (!object) return Missing(entry, deadline);
  fetched_ += object->bytes.size();
  return Learn(entry, object->bytes, whole ? object->bytes : Bytes());
}

Status StreamReader::CheckLanes(uint32_t first_lane, uint32_t end_lane) const {
  uint32_t lanes = log_->info().lanes;
  if (first_lane < end_lane && end_lane <= lanes) return {};
  return Status(Code::kInvalidArgument, Cat("there are no lanes ", first_lane, " to ", end_lane, ": the stream has ", lanes));
}

Result<StreamReader::Block> StreamReader::ReadBlock(uint64_t step, uint32_t first_lane, uint32_t end_lane,
                                                    const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(Entry entry, Find(step, deadline));
  return ReadBlock(entry, first_lane, end_lane, deadline);
}

Result<StreamReader::Block> StreamReader::ReadBlock(const Entry& entry, uint32_t first_lane, uint32_t end_lane,
                                                    const Deadline& deadline, const ReadOptions& options) {
  HR_RETURN_IF_ERROR(CheckLanes(first_lane, end_lane));
  std::string key = entry.name.Key();
  std::string what = log_->store().Describe(key);
  std::shared_ptr<const Known> known = KnownOf(entry.name);
  // Who wants all lanes need not be told first where they are: one request brings the chunk, its header with it. Also if the header is
  // known: many servers send an object from the kernel, and a piece of it through their own memory, which takes twice the time.
  const bool all = entry.bytes > kSmallChunk && end_lane - first_lane == log_->info().lanes;
  if (known == nullptr && !all) {
    HR_ASSIGN_OR_RETURN(known, Header(entry, end_lane - first_lane, deadline));
  }
  uint64_t begin = all ? 0 : known->header.lane[first_lane].offset;
  uint64_t size = all ? entry.bytes : known->header.lane[end_lane].offset - begin;
  const std::span<std::byte> into = options.into;
  if (!into.empty() && into.size() < size)
    return Status(Code::kInvalidArgument, Cat("these lanes have ", size, " bytes, and the memory for them ", into.size()));
  Bytes range;
  uint64_t stored = 0;
  if (!all && !known->whole.empty()) {
    range = known->whole.Slice(begin, size);
    stored = known->whole.size();
  } else {
    GetOptions get{.range = ByteRange::At(begin, size), .into = into.empty() ? into : into.first(size), .pool = options.pool};
    if (options.land) get.landing = options.land(known != nullptr ? &known->header : nullptr, begin);
    HR_ASSIGN_OR_RETURN(std::optional<Object> object, log_->store().Get(key, get, deadline));
    if (!object) return Missing(entry, deadline);
    fetched_ += object->bytes.size() + object->landed;
    range = object->bytes;
    stored = object->size;
    if (get.landing != nullptr && object->landed == size) {
      wanted_ += size - (all ? entry.header_bytes : 0) - (end_lane - first_lane) * DirectoryBytes(entry.steps);
      return Block{.entry = entry, .first_lane = first_lane, .cells = {}, .landed = true};
    }
  }
  if (range.size() != size)
    return Status(Code::kCorrupt, Cat("the chunk ", what, " is cut short: it has ", stored, " bytes of ", entry.bytes));
  if (all && known == nullptr) {
    HR_ASSIGN_OR_RETURN(known, Learn(entry, range, {}));
  }
  const ChunkHeader* header = &known->header;
  Block block{entry, first_lane, std::vector<std::vector<Bytes>>(entry.steps)};
  if (!options.check) block.crcs.resize(entry.steps);
  for (uint32_t lane = first_lane; lane < end_lane; ++lane) {
    uint64_t offset = header->lane[lane].offset;
    Bytes bytes = range.Slice(offset - begin, header->lane[lane + 1].offset - offset);
    HR_ASSIGN_OR_RETURN(std::vector<CellPlace> places, DecodeDirectory(bytes.span(), *header, lane, what));
    for (uint32_t i = 0; i < entry.steps; ++i) {
      wanted_ += places[i].stored;
      std::string cell = Cat("step ", entry.first_step + i, ", lane ", lane, " in the chunk ", what);
      const bool later = !options.check && places[i].codec == Codec::kNone;
      HR_ASSIGN_OR_RETURN(Bytes raw,
                          later ? CellAsStored(bytes, offset, places[i], cell) : UnpackCell(bytes, offset, places[i], cell));
      block.cells[i].push_back(std::move(raw));
      if (!options.check) block.crcs[i].push_back(later ? std::optional(places[i].crc) : std::nullopt);
    }
  }
  return block;
}

Result<uint64_t> StreamReader::LaneBytes(const Entry& entry, uint32_t first_lane, uint32_t end_lane, const Deadline& deadline) {
  HR_RETURN_IF_ERROR(CheckLanes(first_lane, end_lane));
  HR_ASSIGN_OR_RETURN(std::shared_ptr<const Known> known, Header(entry, end_lane - first_lane, deadline));
  return known->header.lane[end_lane].offset - known->header.lane[first_lane].offset;
}

Result<CellArrays> StreamReader::CellOf(const Block& block, uint64_t step, uint32_t lane) const {
  const Entry& entry = block.entry;
  if (step < entry.first_step || step >= entry.end_step() || lane < block.first_lane ||
      lane - block.first_lane >= block.cells.front().size()) {
    return Status(Code::kInvalidArgument, Cat("lane ", lane, " of step ", step, " is not in the block of steps ",
                                              entry.first_step, " to ", entry.end_step() - 1, " that was read"));
  }
  return headrace::ReadCell(block.cells[step - entry.first_step][lane - block.first_lane], log_->info().columns,
                            Cat("step ", step, ", lane ", lane, " of ", log_->store().Describe()));
}

Result<CellArrays> StreamReader::ReadCell(uint64_t step, uint32_t lane, const Deadline& deadline) {
  if (lane >= log_->info().lanes)
    return Status(Code::kInvalidArgument, Cat("there is no lane ", lane, ": the stream has ", log_->info().lanes));
  HR_ASSIGN_OR_RETURN(Block block, ReadBlock(step, lane, lane + 1, deadline));
  return CellOf(block, step, lane);
}

}  // namespace headrace
