// Reads any lanes of any steps, and never returns a wrong byte.
//
// A reader follows the log with few requests, finds a step's chunk in the index, and fetches exactly the lanes it was asked for, plus the
// chunk's small header once; or the chunk in one request, if it was asked for all lanes. Everything is checked against the manifest before
// it is handed out: damage is kCorrupt and names the object; a step that retention removed is kTrimmed.
//
// Thread-safe. Keeps the headers of a few chunks and a piece of the index; the bytes it returns belong to the caller.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "headrace/array.h"
#include "headrace/chunk.h"
#include "headrace/deadline.h"
#include "headrace/result.h"

namespace headrace {

class BufferPool;
class Landing;
class StreamLog;
struct ChunkHeader;
struct StreamState;

struct ReadOptions {
  // Where the bytes may land, instead of in fresh memory; `entry.bytes` are always enough, `LaneBytes` exact unless all lanes are
  // wanted. The cells are views into it, or into memory that is kept for small chunks.
  std::span<std::byte> into = {};
  BufferPool* pool = nullptr;  // where fresh memory comes from
  // False: for a caller that copies the cells, and checks them on the way. Cells that are packed are checked all the same.
  bool check = true;
  // For a caller that takes lanes apart while they arrive: makes what takes the chunk's bytes from `begin` on. No header: it comes with them.
  // Not asked where bytes come otherwise.
  std::function<Landing*(const ChunkHeader* header, uint64_t begin)> land = {};
};

class StreamReader {
 public:
  // A request costs as much time as this many bytes: a chunk that is no larger comes whole, its header with it.
  static constexpr uint64_t kSmallChunk = 256 * 1024;

  // `Stream::Reader` is what programs call.
  explicit StreamReader(std::shared_ptr<StreamLog> log) : log_(std::move(log)) {}

  // The neighbouring lanes [first, end) of all steps of one chunk, in one range read.
  struct Block {
    Entry entry;  // which steps it has: [entry.first_step, entry.end_step())
    uint32_t first_lane = 0;
    // cells[step − entry.first_step][lane − first_lane]: the cell's bytes, checked.
    std::vector<std::vector<Bytes>> cells;
    // Of cells that were not checked, what their checksums must be. Empty if all were.
    std::vector<std::vector<std::optional<uint32_t>>> crcs = {};
    bool landed = false;  // the bytes went to the landing: there are no cells here
  };

  // How far the stream is: the newest manifest. Asks the store.
  Result<std::shared_ptr<const StreamState>> Refresh(const Deadline& deadline);
  // Waits until `step` is visible, or the stream is sealed before it (false), asking less and less often.
  Result<bool> WaitFor(uint64_t step, const Deadline& deadline);

  // The block that holds `step`. kNotFound: it is not there (yet).
  Result<Block> ReadBlock(uint64_t step, uint32_t first_lane, uint32_t end_lane, const Deadline& deadline);
  Result<Entry> Find(uint64_t step, const Deadline& deadline);
  Result<Block> ReadBlock(const Entry& entry, uint32_t first_lane, uint32_t end_lane, const Deadline& deadline,
                          const ReadOptions& options = {});

  // How many bytes those lanes take in the chunk. Reads its header, which the next `ReadBlock` has then.
  Result<uint64_t> LaneBytes(const Entry& entry, uint32_t first_lane, uint32_t end_lane, const Deadline& deadline);

  // The arrays of one cell of a block, as views into its bytes. No request.
  Result<CellArrays> CellOf(const Block& block, uint64_t step, uint32_t lane) const;
  // The arrays of one cell. Fetches the lane for all steps of the block: to read many steps, read blocks.
  Result<CellArrays> ReadCell(uint64_t step, uint32_t lane, const Deadline& deadline);

  // What was fetched, and what of it was asked for: their ratio is the read amplification.
  uint64_t fetched_bytes() const { return fetched_; }
  uint64_t wanted_bytes() const { return wanted_; }

 private:
  struct Known;  // a chunk's header, and all of it if it is small
  std::shared_ptr<const Known> KnownOf(const ChunkName& name);
  // Remembers the header at the `beginning` of the chunk.
  Result<std::shared_ptr<const Known>> Learn(const Entry& entry, const Bytes& beginning, Bytes whole);
  Result<std::shared_ptr<const Known>> Header(const Entry& entry, uint32_t lanes, const Deadline& deadline);
  Status CheckLanes(uint32_t first_lane, uint32_t end_lane) const;
  // What a missing object means, by the newest manifest.
  Status Missing(const Entry& entry, const Deadline& deadline);

  std::shared_ptr<StreamLog> log_;
  std::atomic<uint64_t> fetched_ = 0;
  std::atomic<uint64_t> wanted_ = 0;
  std::mutex mutex_;
  std::list<std::shared_ptr<const Known>> headers_;  // newest use first
  std::vector<Entry> entries_;  // the sealed ones found last: what is read next is among them as a rule
};

}  // namespace headrace
