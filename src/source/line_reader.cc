#include "source/line_reader.h"

#include <algorithm>
#include <cstring>

namespace headrace {

Result<std::optional<LineReader::Line>> LineReader::Next(const Deadline& deadline) {
  while (true) {
    const char* found =
        end_ > searched_ ? static_cast<const char*>(std::memchr(buffer_.data() + searched_, '\n', end_ - searched_)) : nullptr;
    if (!found && !over_) {
      searched_ = end_;
      HR_ASSIGN_OR_RETURN(Bytes block, source_(deadline));
      if (block.empty()) {
        over_ = true;
        continue;
      }
      if (begin_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        base_ += begin_;
        searched_ -= begin_;
        end_ -= begin_;
        begin_ = 0;
      }
      if (buffer_.size() < end_ + block.size() + 1) buffer_.resize(std::max(buffer_.size() * 3 / 2, end_ + block.size() + 1));
      std::memcpy(buffer_.data() + end_, block.data(), block.size());
      end_ += block.size();
      continue;
    }
    const size_t line_end = found ? static_cast<size_t>(found - buffer_.data()) : end_;
    std::span<char> text(buffer_.data() + begin_, line_end - begin_);
    const uint64_t offset = base_ + begin_;
    if (!found && text.empty()) return std::optional<Line>();
    begin_ = searched_ = found ? line_end + 1 : end_;
    while (!text.empty() && (text.back() == '\r' || text.back() == ' ' || text.back() == '\t'))
      text = text.first(text.size() - 1);
    if (text.empty()) continue;
    text.data()[text.size()] = '\0';
    return std::optional(Line{text, offset});
  }
}

}  // namespace headrace
