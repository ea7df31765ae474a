// A number on its way from a file into an array, and back to people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>

#include "stream/cell.h"

namespace headrace::cli {

// What JSON and numpy have: true and false, whole numbers of either sign, and the others.
using Number = std::variant<bool, int64_t, uint64_t, double>;

// Writes `number` at `out` in the way of `dtype`. The reason if it does not fit; empty if it does. Rounding to a shorter float fits, growing
// to infinity does not; nor does half a thing where whole ones are counted.
std::string StoreAs(const Number& number, Dtype dtype, std::byte* out);

// The element of an array, numbered row after row.
Number ElementOf(const Array& array, uint64_t element);
nlohmann::json ToJson(const Number& number);

}  // namespace headrace::cli
