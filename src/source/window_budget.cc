#include "source/window_budget.h"

#include <algorithm>
#include <thread>

#include "source/block_pool.h"

namespace headrace {
namespace {

constexpr size_t kMaxCursors = 64;
constexpr uint64_t kMaxIdleBytes = 128 << 20;

size_t MaxAhead() { return std::clamp<size_t>(std::thread::hardware_concurrency() * 2, 4, 64); }

}  // namespace

std::shared_ptr<WindowBudget> MakeWindowBudget(uint64_t bytes) {
  KeepIdleBlocks(std::min<uint64_t>(bytes / 8, kMaxIdleBytes));
  return std::make_shared<WindowBudget>(bytes);
}

std::shared_ptr<const void> WindowBudget::Count(uint64_t bytes) {
  *live_ += bytes;
  return std::shared_ptr<const void>(static_cast<const void*>(live_.get()),
                                     [live = live_, bytes](const void*) { *live -= bytes; });
}

std::shared_ptr<const Window> WindowBudget::Find(const GroupKey& group, uint32_t piece) {
  std::lock_guard lock(mutex_);
  auto place = places_.find({group, piece});
  if (place == places_.end()) return nullptr;
  windows_.splice(windows_.begin(), windows_, place->second);
  return place->second->window;
}

void WindowBudget::Keep(const GroupKey& group, uint32_t piece, std::shared_ptr<const Window> window) {
  std::list<Kept> gone;  // freed outside the lock
  std::lock_guard lock(mutex_);
  if (places_.contains({group, piece})) return;
  window_bytes_ += window->bytes;
  windows_.push_front({group, piece, std::move(window)});
  places_[{group, piece}] = windows_.begin();
  // What is in use elsewhere counts too: it is not freed by forgetting it here, but what nobody uses makes room for it.
  uint64_t used = Used();
  while (windows_.size() > 1 && used > limit_) {
    used -= std::min(used, windows_.back().window->bytes);
    window_bytes_ -= windows_.back().window->bytes;
    places_.erase({windows_.back().group, windows_.back().piece});
    gone.splice(gone.begin(), windows_, std::prev(windows_.end()));
  }
}

void WindowBudget::Forget(const GroupKey& group, uint32_t piece) {
  std::list<Kept> gone;
  std::lock_guard lock(mutex_);
  auto place = places_.find({group, piece});
  if (place == places_.end()) return;
  window_bytes_ -= place->second->window->bytes;
  gone.splice(gone.begin(), windows_, place->second);
  places_.erase(place);
}

std::unique_ptr<GroupCursor> WindowBudget::Take(const GroupKey& group) {
  std::lock_guard lock(mutex_);
  auto open = std::ranges::find(cursors_, group, &Open::group);
  if (open == cursors_.end()) return nullptr;
  std::unique_ptr<GroupCursor> cursor = std::move(open->cursor);
  cursor_bytes_ -= open->bytes;
  cursors_.erase(open);
  return cursor;
}

void WindowBudget::Give(const GroupKey& group, std::unique_ptr<GroupCursor> cursor) {
  std::list<Open> gone;
  std::lock_guard lock(mutex_);
  const uint64_t size = cursor->bytes();
  cursor_bytes_ += size;
  cursors_.push_front({group, std::move(cursor), size});
  while (cursors_.size() > 1 && (cursors_.size() > kMaxCursors || cursor_bytes_ > limit_ / 4)) {
    cursor_bytes_ -= cursors_.back().bytes;
    gone.splice(gone.begin(), cursors_, std::prev(cursors_.end()));
  }
}

std::shared_ptr<SharedPart> WindowBudget::Share(const PartKey& key, uint64_t bytes) {
  std::list<Shared> gone;
  std::lock_guard lock(mutex_);
  auto known = std::ranges::find(parts_, key, &Shared::key);
  if (known != parts_.end()) {
    parts_.splice(parts_.begin(), parts_, known);
    return known->part;
  }
  parts_.push_front({key, std::make_shared<SharedPart>(), bytes});
  part_bytes_ += bytes;
  while (parts_.size() > 1 && part_bytes_ > limit_ / 4) {
    part_bytes_ -= parts_.back().bytes;
    gone.splice(gone.begin(), parts_, std::prev(parts_.end()));
  }
  return parts_.front().part;
}

void WindowBudget::Forget(uint64_t loader) {
  std::list<Shared> unshared;
  std::list<Kept> gone;
  std::list<Open> closed;
  std::lock_guard lock(mutex_);
  for (auto kept = windows_.begin(); kept != windows_.end();) {
    auto here = kept++;
    if (here->group.loader != loader) continue;
    window_bytes_ -= here->window->bytes;
    places_.erase({here->group, here->piece});
    gone.splice(gone.begin(), windows_, here);
  }
  for (auto open = cursors_.begin(); open != cursors_.end();) {
    auto here = open++;
    if (here->group.loader != loader) continue;
    cursor_bytes_ -= here->bytes;
    closed.splice(closed.begin(), cursors_, here);
  }
  for (auto part = parts_.begin(); part != parts_.end();) {
    auto here = part++;
    if (here->key.loader != loader) continue;
    part_bytes_ -= here->bytes;
    unshared.splice(unshared.begin(), parts_, here);
  }
}

bool WindowBudget::BeginAhead(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (ahead_ >= MaxAhead() || Used() + ahead_bytes_ + bytes > limit_) return false;
  ++ahead_;
  ahead_bytes_ += bytes;
  return true;
}

void WindowBudget::Done(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  --ahead_;
  ahead_bytes_ -= bytes;
}

uint64_t WindowBudget::bytes() const {
  std::lock_guard lock(mutex_);
  return window_bytes_ + cursor_bytes_ + part_bytes_;
}

size_t WindowBudget::cursors() const {
  std::lock_guard lock(mutex_);
  return cursors_.size();
}

}  // namespace headrace
