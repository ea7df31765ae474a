#include "source/block_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace headrace {
namespace {

constexpr int64_t kSmallest = 64 << 10, kLargest = 16 << 20;
constexpr int64_t kAlignment = 64;

// Four sizes between two powers of two, so that a block is at most a quarter larger than what it holds.
size_t ClassOf(int64_t size) {
  const auto high = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(size - 1))) - 1;
  return high * 4 + (static_cast<uint64_t>(size - 1) >> (high - 2)) % 4;
}
int64_t BytesOf(size_t which) { return static_cast<int64_t>((uint64_t{5} + which % 4) << (which / 4 - 2)); }

class Pool final : public arrow::MemoryPool {
 public:
  using MemoryPool::Allocate;
  using MemoryPool::Free;
  using MemoryPool::Reallocate;

  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override {
    if (!Ours(size, alignment)) return others_.Allocate(size, alignment, out);
    const size_t which = ClassOf(size);
    {
      std::lock_guard lock(mutex_);
      std::vector<uint8_t*>& idle = idle_[which];
      if (!idle.empty()) {
        *out = idle.back();
        idle.pop_back();
        idle_bytes_ -= BytesOf(which);
        Count(BytesOf(which));
        return arrow::Status::OK();
      }
    }
    *out = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, static_cast<size_t>(BytesOf(which))));
    if (*out == nullptr) return arrow::Status::OutOfMemory("no memory for ", size, " bytes");
    Count(BytesOf(which));
    return arrow::Status::OK();
  }

  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment, uint8_t** data) override {
    const bool was = Ours(old_size, alignment), will = Ours(new_size, alignment);
    if (!was && !will) return others_.Reallocate(old_size, new_size, alignment, data);
    if (was && will && ClassOf(old_size) == ClassOf(new_size)) return arrow::Status::OK();
    uint8_t* moved = nullptr;
    ARROW_RETURN_NOT_OK(Allocate(new_size, alignment, &moved));
    std::memcpy(moved, *data, static_cast<size_t>(std::min(old_size, new_size)));
    Free(*data, old_size, alignment);
    *data = moved;
    return arrow::Status::OK();
  }

  void Free(uint8_t* data, int64_t size, int64_t alignment) override {
    if (!Ours(size, alignment)) return others_.Free(data, size, alignment);
    const size_t which = ClassOf(size);
    Count(-BytesOf(which));
    std::lock_guard lock(mutex_);
    idle_[which].push_back(data);
    idle_bytes_ += BytesOf(which);
    while (idle_bytes_ > limit_) DropOne();
  }

  void ReleaseUnused() override {
    std::lock_guard lock(mutex_);
    for (std::vector<uint8_t*>& idle : idle_) {
      for (uint8_t* block : idle) std::free(block);
      idle.clear();
    }
    idle_bytes_ = 0;
  }

  int64_t bytes_allocated() const override { return bytes_ + others_.bytes_allocated(); }
  int64_t max_memory() const override { return most_ + others_.max_memory(); }
  int64_t total_bytes_allocated() const override { return total_ + others_.total_bytes_allocated(); }
  int64_t num_allocations() const override { return count_ + others_.num_allocations(); }
  std::string backend_name() const override { return "headrace"; }

  void Keep(uint64_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = std::max(limit_, static_cast<int64_t>(bytes));
  }
  uint64_t idle_bytes() {
    std::lock_guard lock(mutex_);
    return static_cast<uint64_t>(idle_bytes_);
  }

 private:
  static bool Ours(int64_t size, int64_t alignment) { return size >= kSmallest && size <= kLargest && alignment <= kAlignment; }

  // Of the size that most bytes lie idle in: what is in use now is of other sizes.
  void DropOne() {
    size_t most = 0;
    for (size_t i = 1; i < idle_.size(); ++i) {
      if (IdleIn(i) > IdleIn(most)) most = i;
    }
    std::free(idle_[most].front());
    idle_[most].erase(idle_[most].begin());
    idle_bytes_ -= BytesOf(most);
  }
  int64_t IdleIn(size_t which) const {
    return idle_[which].empty() ? 0 : static_cast<int64_t>(idle_[which].size()) * BytesOf(which);
  }

  void Count(int64_t bytes) {
    const int64_t now = bytes_ += bytes;
    if (bytes < 0) return;
    ++count_;
    total_ += bytes;
    for (int64_t most = most_; most < now && !most_.compare_exchange_weak(most, now);) {
    }
  }

  arrow::MemoryPool& others_ = *arrow::default_memory_pool();
  std::mutex mutex_;
  std::array<std::vector<uint8_t*>, 4 * 26> idle_;
  int64_t idle_bytes_ = 0;
  int64_t limit_ = 0;
  std::atomic<int64_t> bytes_{0}, most_{0}, total_{0}, count_{0};
};

Pool& ThePool() {
  static Pool& pool = *new Pool;
  return pool;
}

}  // namespace

arrow::MemoryPool* BlockPool() { return &ThePool(); }
void KeepIdleBlocks(uint64_t bytes) { ThePool().Keep(bytes); }
uint64_t IdleBlockBytes() { return ThePool().idle_bytes(); }

}  // namespace headrace
