// Whether a trainer asks for columns of all its lanes together, or takes lanes one by one: blocks are laid out for what it does.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace headrace {

class Habit {
 public:
  void HandedOver() { ++handed_over_; }
  void AskedForWhole() { asked_at_ = handed_over_.load(); }
  // At first as long as nothing is known, and until some steps went by without asking.
  bool whole() const { return handed_over_ - asked_at_ < kPatience; }

 private:
  static constexpr uint64_t kPatience = 16;  // steps
  std::atomic<uint64_t> handed_over_ = 0;
  std::atomic<uint64_t> asked_at_ = 0;
};

}  // namespace headrace
