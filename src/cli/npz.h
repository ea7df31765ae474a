// The arrays in a file of `numpy.savez`.
//
// Reads what numpy writes: a zip archive of .npy files that are stored as they are, with checksums. What `savez_compressed` packed is
// kUnsupported; everything else that is wrong is kInvalidArgument and says what. Nothing is copied.
#pragma once

#include <string>
#include <vector>

#include "headrace/bytes.h"
#include "headrace/result.h"
#include "stream/stream_info.h"

namespace headrace::cli {

struct NpyArray {
  enum Kind {
    kNumbers,  // of `dtype`
    kBytes,  // 'S': texts of `width` bytes, filled up with zeros
    kText,  // 'U': the same with `width` code points of 4 bytes
  };
  std::string name;
  Kind kind = kNumbers;
  Dtype dtype = Dtype::kU8;
  size_t width = 0;  // bytes of one element
  std::vector<uint64_t> shape;
  Bytes bytes;
};

Result<std::vector<NpyArray>> ReadNpz(const Bytes& file);

}  // namespace headrace::cli
