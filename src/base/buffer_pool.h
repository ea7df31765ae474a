// Memory that is used again: fresh pages from the kernel cost more time than the copy that fills them.
//
// Thread-safe. What is taken may outlive the pool.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "headrace/bytes.h"

namespace headrace {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // Keeps at most so much that nobody uses.
  static std::shared_ptr<BufferPool> Make(size_t keep_bytes = 128 * 1024 * 1024);
  ~BufferPool();

  // Comes back when the last view of it is gone. Throws std::bad_alloc as `Buffer` does.
  Buffer Take(size_t size);

  size_t kept_bytes() const;

 private:
  struct Piece {
    std::byte* memory;
    size_t capacity;
  };
  explicit BufferPool(size_t keep_bytes) : keep_bytes_(keep_bytes) {}
  bool Keep(Piece piece);

  const size_t keep_bytes_;
  mutable std::mutex mutex_;
  size_t kept_bytes_ = 0;
  std::vector<Piece> kept_;  // newest last
};

}  // namespace headrace
