#include "load/buffer_pool.h"

#include <algorithm>
#include <new>

namespace headrace {
namespace {

constexpr std::align_val_t kAlign{Buffer::kAlignment};
// Smaller pieces come cheaply from the allocator.
constexpr size_t kWorthKeeping = 128 * 1024;

std::byte* Allocate(size_t size) { return static_cast<std::byte*>(::operator new(size, kAlign)); }
void Free(std::byte* memory) { ::operator delete(memory, kAlign); }

}  // namespace

std::shared_ptr<BufferPool> BufferPool::Make(size_t keep_bytes) {
  return std::shared_ptr<BufferPool>(new BufferPool(keep_bytes));
}

BufferPool::~BufferPool() {
  for (Piece& piece : kept_) Free(piece.memory);
}

BufferPool::Lease BufferPool::Take(size_t size) {
  Piece piece{nullptr, size};
  if (size >= kWorthKeeping) {
    std::lock_guard lock(mutex_);
    for (size_t i = kept_.size(); i-- > 0;) {
      // Not one that is much too large: it would be missed by whoever needs it.
      if (kept_[i].capacity < size || kept_[i].capacity - size > size / 4) continue;
      piece = kept_[i];
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      kept_bytes_ -= piece.capacity;
      break;
    }
  }
  if (piece.memory == nullptr) piece.memory = Allocate(std::max<size_t>(1, size));
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
