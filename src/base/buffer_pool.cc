#include "base/buffer_pool.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace headrace {
namespace {

// Smaller pieces come cheaply from the allocator.
constexpr size_t kWorthKeeping = 128 * 1024;

// Fresh memory in pages of this size comes several times as quickly.
constexpr size_t kHugePage = 2 * 1024 * 1024;

size_t Rounded(size_t size, size_t to) { return (size + to - 1) / to * to; }

size_t CapacityFor(size_t size) {
  if (size > SIZE_MAX / 2) throw std::bad_alloc();
  return size < 2 * kHugePage ? std::max(Buffer::kAlignment, Rounded(size, Buffer::kAlignment)) : Rounded(size, kHugePage);
}

std::byte* Allocate(size_t capacity) {
  const bool huge = capacity % kHugePage == 0;
  void* memory = std::aligned_alloc(huge ? kHugePage : Buffer::kAlignment, capacity);
  if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  if (huge) static_cast<void>(madvise(memory, capacity, MADV_HUGEPAGE));
#endif
  return static_cast<std::byte*>(memory);
}

void Free(std::byte* memory) { std::free(memory); }

}  // namespace

std::shared_ptr<BufferPool> BufferPool::Make(size_t keep_bytes) {
  return std::shared_ptr<BufferPool>(new BufferPool(keep_bytes));
}

BufferPool::~BufferPool() {
  for (Piece& piece : kept_) Free(piece.memory);
}

Buffer BufferPool::Take(size_t size) {
  Piece piece{nullptr, CapacityFor(size)};
  if (size >= kWorthKeeping) {
    std::lock_guard lock(mutex_);
    for (size_t i = kept_.size(); i-- > 0;) {
      // Not one that is much too large: it would be missed by whoever needs it. What a fresh one would have is never too large.
      if (kept_[i].capacity < size || kept_[i].capacity > std::max(piece.capacity, size + size / 4)) continue;
      piece = kept_[i];
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      kept_bytes_ -= piece.capacity;
      break;
    }
  }
  if (piece.memory == nullptr) piece.memory = Allocate(piece.capacity);
  std::shared_ptr<std::byte> memory(piece.memory, [piece, pool = weak_from_this()](std::byte*) {
    std::shared_ptr<BufferPool> alive = pool.lock();
    if (!alive || !alive->Keep(piece)) Free(piece.memory);
  });
  return {std::move(memory), size};
}

bool BufferPool::Keep(Piece piece) {
  if (piece.capacity < kWorthKeeping) return false;
  std::lock_guard lock(mutex_);
  if (kept_bytes_ + piece.capacity > keep_bytes_) return false;
  kept_.push_back(piece);
  kept_bytes_ += piece.capacity;
  return true;
}

size_t BufferPool::kept_bytes() const {
  std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace headrace
