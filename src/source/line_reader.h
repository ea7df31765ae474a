// The lines of a run of bytes: without their ends, blank ones left out.
//
// Holds one block and the line that crosses its end. Not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "headrace/bytes.h"
#include "headrace/deadline.h"
#include "headrace/result.h"

namespace headrace {

class LineReader {
 public:
  // The next bytes; none at the end.
  using Source = std::function<Result<Bytes>(const Deadline& deadline)>;
  // `offset` is the place of the source's first byte in the file.
  LineReader(Source source, uint64_t offset) : source_(std::move(source)), base_(offset) {}

  struct Line {
    std::span<char> text;  // valid until the next call, and may be changed until then; a zero byte follows
    uint64_t offset;  // of its first byte in the file
  };
  Result<std::optional<Line>> Next(const Deadline& deadline);

  uint64_t bytes() const { return buffer_.capacity(); }

 private:
  Source source_;
  std::string buffer_;  // what was read and is not handed out yet begins at begin_; one byte more than end_
  size_t begin_ = 0, end_ = 0, searched_ = 0;
  uint64_t base_;  // place of buffer_[0] in the file
  bool over_ = false;
};

}  // namespace headrace
