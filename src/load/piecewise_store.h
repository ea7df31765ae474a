// For tests: a store that hands bytes over in pieces of any size, as a network does, and begins anew now and then.
#pragma once

#include <mutex>

#include "base/random.h"
#include "store/decorator.h"

namespace headrace {

class PiecewiseStore final : public StoreDecorator {
 public:
  // `landing` of a hundred gets that could land do; of the others the bytes come whole.
  PiecewiseStore(std::shared_ptr<ObjectStore> inner, uint64_t seed, int landing = 100)
      : StoreDecorator(std::move(inner)), random_(seed), landing_(landing) {}

  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
    GetOptions plain = options;
    plain.landing = nullptr;
    auto got = inner().Get(key, plain, deadline);
    std::lock_guard lock(mutex_);
    if (options.landing == nullptr || !got.ok() || !*got || random_.Below(100) >= static_cast<uint64_t>(landing_)) return got;
    Hand((*got)->bytes.Slice(0, random_.Below(4) == 0 ? random_.Below((*got)->bytes.size()) : 0), *options.landing);
    Hand((*got)->bytes, *options.landing);
    (*got)->landed = (*got)->bytes.size();
    (*got)->bytes = {};
    ++landed_;
    return got;
  }

  size_t landed() {
    std::lock_guard lock(mutex_);
    return landed_;
  }

 private:
  void Hand(const Bytes& bytes, Landing& landing) {
    const uint64_t usual = 1 + random_.Below(random_.Below(2) == 0 ? 100 : 100'000);
    for (uint64_t at = 0; at < bytes.size();) {
      // A copy that goes away at once: whoever keeps a view of it is caught.
      const Bytes piece = Bytes::Copy(bytes.Slice(at, 1 + random_.Below(2 * usual)).span());
      landing.Take(at, piece.span());
      at += piece.size();
    }
  }

  std::mutex mutex_;
  Random random_;
  const int landing_;
  size_t landed_ = 0;
};

}  // namespace headrace
