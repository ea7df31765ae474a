// Arrays of a cell for numpy: read-only views that keep the memory alive.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <vector>

#include "headrace/array.h"

namespace headrace::python {

namespace nb = nanobind;
using View = nb::ndarray<nb::numpy, nb::ro>;

nb::dlpack::dtype NumpyType(Dtype dtype);  // bfloat16, which numpy lacks, as uint16
View ViewOf(const Array& array);
View ViewOf(Bytes bytes, Dtype dtype, const std::vector<uint64_t>& shape);

}  // namespace headrace::python
