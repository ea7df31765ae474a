#include "arrays.h"

namespace headrace::python {

nb::dlpack::dtype NumpyType(Dtype dtype) {
  switch (dtype) {
    case Dtype::kU8: return nb::dtype<uint8_t>();
    case Dtype::kI8: return nb::dtype<int8_t>();
    case Dtype::kU16:
    case Dtype::kBf16: return nb::dtype<uint16_t>();
    case Dtype::kI16: return nb::dtype<int16_t>();
    case Dtype::kU32: return nb::dtype<uint32_t>();
    case Dtype::kI32: return nb::dtype<int32_t>();
    case Dtype::kU64: return nb::dtype<uint64_t>();
    case Dtype::kI64: return nb::dtype<int64_t>();
    case Dtype::kF16: return {static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    case Dtype::kF32: return nb::dtype<float>();
    case Dtype::kF64: return nb::dtype<double>();
    case Dtype::kBool: return nb::dtype<bool>();
  }
  return nb::dtype<uint8_t>();
}

View ViewOf(Bytes bytes, Dtype dtype, const std::vector<uint64_t>& shape) {
  size_t extents[Array::kMaxDims + 1] = {};
  for (size_t i = 0; i < shape.size(); ++i) extents[i] = shape[i];
  static const std::byte nothing{};
  const void* data = bytes.empty() ? &nothing : bytes.data();
  nb::capsule owner(new Bytes(std::move(bytes)), [](void* held) noexcept { delete static_cast<Bytes*>(held); });
  return View(data, shape.size(), extents, owner, nullptr, NumpyType(dtype));
}

View ViewOf(const Array& array) { return ViewOf(array.bytes, array.dtype, array.shape); }

}  // namespace headrace::python
