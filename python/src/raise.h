// A Status as the Python exception of the same name, with the same words.
#pragma once

#include <nanobind/nanobind.h>

#include "headrace/result.h"

namespace headrace::python {

namespace nb = nanobind;

// Needs the GIL.
[[noreturn]] void Raise(const Status& status);
inline void RaiseIfError(const Status& status) {
  if (!status.ok()) Raise(status);
}
template <typename T>
T ValueOrRaise(Result<T> result) {
  if (!result.ok()) Raise(result.status());
  return *std::move(result);
}

}  // namespace headrace::python
