// The five operations of a store by name: for policies, metrics and faults that go by which call it was.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace headrace {

enum class StoreOp { kGet, kCreate, kPut, kList, kDelete };

inline constexpr size_t kStoreOps = 5;
inline constexpr std::array<StoreOp, kStoreOps> kAllStoreOps = {StoreOp::kGet, StoreOp::kCreate, StoreOp::kPut, StoreOp::kList,
                                                                StoreOp::kDelete};

constexpr std::string_view OpName(StoreOp op) {
  constexpr std::array<std::string_view, kStoreOps> kNames = {"get", "create", "put", "list", "delete"};
  return kNames[static_cast<size_t>(op)];
}

}  // namespace headrace
