// Takes lanes of a chunk apart while they arrive from the network: every array goes from the socket's buffer to where the trainer reads
// it, and is checked on the way. So bytes are touched once, while they are still in the processor's caches, and a block needs no memory beside its own.
//
// Arrays that are equally long in all cells lie as `Arrange` would lay them: of each step, those of neighbouring lanes one behind another. Where they
// shall lie is decided by the first cell that comes; what does not fit in with it lies elsewhere, and is laid together afterwards.
//
// At damage, and at anything that nobody writes, a landing gives up: the lanes are to be read in the ordinary way then, which has the words for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer_pool.h"
#include "headrace/store.h"
#include "load/step.h"
#include "stream/cell.h"
#include "stream/chunk.h"

namespace headrace {

// Where the arrays of all cells of a block lie side by side. Thread-safe.
class BlockMemory {
 public:
  // Of a block of `steps` × `lanes` cells that take `bytes` as stored.
  BlockMemory(uint32_t steps, uint32_t lanes, uint64_t bytes, std::shared_ptr<BufferPool> pool)
      : steps_(steps), lanes_(lanes), bytes_(bytes), pool_(std::move(pool)) {}

  // The first call decides, by this table, where which arrays lie. Throws std::bad_alloc.
  void Plan(const CellTable& table, const std::vector<Column>& columns);
  // The place of the `array`-th array of a cell; null if it cannot lie there.
  std::byte* PlaceOf(uint32_t step, uint32_t lane, size_t array, uint64_t size) const;

  // The memory, once all has landed.
  const Bytes& Freeze();
  BufferPool& pool() { return *pool_; }

 private:
  const uint32_t steps_;
  const uint32_t lanes_;
  const uint64_t bytes_;
  const std::shared_ptr<BufferPool> pool_;

  std::once_flag planned_;
  struct Lying {
    uint64_t offset = 0;  // of the first lane's, in a step
    uint64_t size = 0;  // of each lane's; 0: they do not lie here
  };
  std::vector<Lying> arrays_;
  uint64_t step_bytes_ = 0;
  std::optional<Buffer> memory_;
  std::byte* base_ = nullptr;
  Bytes frozen_;
};

class LaneLanding final : public Landing {
 public:
  // `lanes` of the block's lanes are those that come, from the chunk's byte `begin` on. `header` is copied; null: it comes, too, at the beginning.
  // `info` must outlive it.
  LaneLanding(std::shared_ptr<BlockMemory> memory, const Entry& entry, const StreamInfo& info, const ChunkHeader* header,
              uint64_t begin, LaneRange lanes, LaneRange block_lanes);

  void Take(uint64_t offset, std::span<const std::byte> piece) override;

  // After the get was answered well: true if everything has landed, and is what it should be.
  bool whole() const { return stage_ == Stage::kEnd && !gave_up_; }
  // As stored.
  uint64_t bytes() const { return bytes_; }
  // Unpacks the cells that are compressed, and checks all of them against the columns. `what` names a step and lane.
  Status Check(const std::function<std::string(uint64_t step, uint32_t lane)>& what);
  // Puts the cells into the block. Once, when all of its lanes have landed and were checked.
  void Fill(LoadedBlock& block);

 private:
  enum class Stage { kHeader, kSkip, kDirectory, kTable, kCell, kEnd };
  struct Landed {
    Array array;  // has its bytes only if they were unpacked
    std::span<const std::byte> bytes = {};
    std::optional<size_t> slab = {};  // in which they lie, if not in the block's memory
  };
  struct Cell {
    std::vector<Landed> arrays;
    std::optional<CellPlace> packed;  // the one array is the cell as stored
  };
  struct Segment {
    uint64_t begin = 0, end = 0;  // in the cell
    std::byte* to = nullptr;
  };

  void Restart();
  void Enter();
  size_t Advance(std::span<const std::byte> piece);
  // What comes after the cell or directory that ends at `at`.
  void Next(uint64_t at);
  size_t Gather(std::span<const std::byte> piece, uint64_t up_to);
  size_t TakeTable(std::span<const std::byte> piece);
  bool Prepare(CellTable table);
  void PreparePacked();
  void Begin();
  size_t TakeCell(std::span<const std::byte> piece);
  std::byte* PlaceElsewhere(Landed& landed, uint64_t size);
  Cell& cell() { return cells_[static_cast<size_t>(lane_) * entry_.steps + step_]; }
  const CellPlace& place() const { return places_[step_]; }

  const std::shared_ptr<BlockMemory> memory_;
  const Entry entry_;
  const StreamInfo& info_;
  const bool told_;  // the header
  ChunkHeader header_;
  const uint64_t begin_;
  const LaneRange lanes_;
  const LaneRange block_lanes_;

  bool gave_up_ = false;
  Stage stage_ = Stage::kSkip;
  uint64_t at_ = 0;  // in the chunk
  uint64_t until_ = 0;  // of what is skipped
  uint32_t lane_ = 0, step_ = 0;
  std::vector<std::byte> gathered_;  // a directory or table that came in pieces
  std::vector<CellPlace> places_;  // of the lane
  std::vector<Segment> segments_;  // of the cell
  size_t segment_ = 0;
  uint64_t cell_at_ = 0;
  uint32_t crc_ = 0;

  std::vector<Cell> cells_;  // lane by lane
  uint64_t bytes_ = 0;
  std::vector<Buffer> slabs_;
  uint64_t slab_used_ = 0;
};

}  // namespace headrace
