#include "produce/memory_need.h"

#include <algorithm>

#include "base/size.h"
#include "base/text.h"

namespace headrace {
namespace {

// Measured: resident when everything is open and nothing is read yet, 20 MB of its own and 40 of Arrow's libraries; and what a heap loses in the long run.
constexpr uint64_t kProcess = 80'000'000;
// What a source costs that is merely open: its inventory, footers, an order of granules.
constexpr uint64_t kOpenSource = 100'000;
// A worker that has imported pyarrow, and a batch on its way.
constexpr uint64_t kWorker = 100'000'000;
// What is decoded is larger than its file by about this much where that is compressed or encoded.
constexpr double kDecoded = 2;
// Of what windows may take, so much is theirs: blocks of memory are larger than what they hold, some lie idle for the next window, and readers have buffers.
constexpr double kUsable = 0.75;
constexpr uint64_t kLeastWindows = 8'000'000;
constexpr uint64_t kTokenBytes = 4;
constexpr uint64_t kMostShared = 64'000'000;  // larger row groups are not decoded for several strands at once
// Samples that wait for a strand's next step: some are as long as a sequence, most are not.
constexpr uint64_t kCarried = 128, kMostCarriedBytes = 16'000;

double RowBytes(const Inventory& inventory) {
  return inventory.rows == 0 ? 0 : static_cast<double>(inventory.bytes) / static_cast<double>(inventory.rows) * kDecoded;
}

// The largest row group of Parquet files, decoded: several strands may need rows of the same one.
uint64_t RowGroupBytes(const Inventory& inventory) {
  if (inventory.format != "parquet") return 0;
  uint64_t rows = 0, most = 0;
  for (size_t i = 0; i < inventory.granules.size(); ++i) {
    const Granule &here = inventory.granules[i], *before = i == 0 ? nullptr : &inventory.granules[i - 1];
    rows = (before != nullptr && before->file == here.file && before->part == here.part ? rows : 0) + here.rows;
    most = std::max(most, rows);
  }
  return std::min(kMostShared, static_cast<uint64_t>(RowBytes(inventory) * static_cast<double>(most)));
}

uint64_t WindowBytes(const Inventory& inventory, uint32_t strands) {
  if (inventory.rows == 0 || inventory.granules.empty()) return 0;
  const double row = RowBytes(inventory);
  const uint64_t of_a_strand = (inventory.rows + strands - 1) / std::max(1u, strands);
  return static_cast<uint64_t>(row * static_cast<double>(std::min<uint64_t>(inventory.rows_per_piece, of_a_strand)));
}

}  // namespace

MemoryNeed NeedOf(const Recipe& recipe, std::span<const Inventory* const> inventories, uint32_t strands) {
  MemoryNeed need;
  need.sources = inventories.size();
  need.strands = std::clamp(strands, 1u, std::max(1u, recipe.strands));
  need.process = kProcess + kOpenSource * need.sources;
  for (const TransformSpec& transform : recipe.transforms)
    if (transform.kind == TransformSpec::kPython) need.workers += kWorker * transform.workers;
  if (recipe.cost.kind == CostSpec::kPython) need.workers += kWorker;

  uint64_t longest = 0, sequences = 0;
  if (recipe.pack)
    for (const PackLength& length : recipe.pack->lengths) longest = std::max<uint64_t>(longest, length.length);
  for (const auto& [step, size] : recipe.step) sequences = std::max<uint64_t>(sequences, size);
  const uint64_t step = longest * sequences * kTokenBytes;
  // A chunk is there once as cells, and parts of it once more while it is written; and the samples of the step that is being planned.
  need.block = std::max<uint64_t>(recipe.lane_bytes * std::max(1u, recipe.lanes), step) * 3 / 2 + step;

  need.carried = need.strands * kCarried * std::min(longest, kMostCarriedBytes);
  for (const Inventory* inventory : inventories) {
    const uint64_t window = WindowBytes(*inventory, recipe.strands);
    // A strand without a granule of it has no window.
    need.windows += window * std::min<uint64_t>(need.strands, inventory->granules.size());
    need.row_group = std::max({need.row_group, RowGroupBytes(*inventory), window});
  }
  return need;
}

uint64_t MemoryNeed::least() const { return process + workers + carried + block + AllWindows(); }

uint64_t MemoryNeed::AllWindows() const {
  return static_cast<uint64_t>(static_cast<double>(std::max({windows + 2 * row_group, 4 * row_group, kLeastWindows})) / kUsable);
}

uint64_t MemoryNeed::ForBlocks(uint64_t memory, uint32_t most) const {
  const uint64_t left = memory - std::min(memory, process + workers + carried);
  // Windows come first: a block more is worth less than windows that have not to be read again.
  const uint64_t wanted = AllWindows();
  const uint64_t blocks = std::max(left / 4, left - std::min(left, wanted));
  return std::clamp<uint64_t>(blocks / std::max<uint64_t>(1, block), 1, std::max(1u, most)) * block;
}

uint64_t MemoryNeed::ForWindows(uint64_t memory, uint32_t most) const {
  const uint64_t taken = process + workers + carried + ForBlocks(memory, most);
  return std::max(kLeastWindows, static_cast<uint64_t>(static_cast<double>(memory - std::min(memory, taken)) * kUsable));
}

Status MemoryNeed::Check(uint64_t memory, const std::string& recipe) const {
  if (memory >= least()) return {};
  const auto size = [](uint64_t bytes) { return FormatSize(static_cast<double>(bytes)); };
  // Rounded up to what a person would type.
  const uint64_t ask = (least() + 9'999'999) / 10'000'000 * 10'000'000;
  std::string text = Cat("--memory ", size(memory), " is too little for ", recipe, ": a producer of it needs at least ",
                         size(ask), " (", size(process), " for the program, ", size(block), " for a block in the making, ",
                         size(carried), " for what strands carry over");
  if (workers > 0) text += Cat(", ", size(workers), " for Python workers");
  text += Cat(", ", size(AllWindows()), " for windows of ", sources, sources == 1 ? " source" : " sources", " × ", strands,
              strands == 1 ? " strand" : " strands", "). Give it --memory ", size(ask), " or more");
  if (strands > 1)
    text += Cat("; or take fewer strands here (--strands ", std::max(1u, strands / 4), ") and the others on other machines");
  return Status(Code::kInvalidArgument, std::move(text));
}

}  // namespace headrace
