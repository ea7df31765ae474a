// The members of a tar archive, one after the other: ustar, GNU long names, pax.
//
// Contents are only read if they are asked for: what is left out is jumped over, so that a few small members among large ones cost a few small reads.
// Not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "source/byte_source.h"
#include "source/lake.h"

namespace headrace {

class TarReader {
 public:
  // From a member's header at `offset` on. A compressed archive begins at 0.
  static Result<TarReader> Open(std::shared_ptr<const Lake> lake, const LakeFile& file, uint64_t offset);

  struct Member {
    std::string name;
    uint64_t offset = 0;  // of its first header, in the archive
    uint64_t size = 0;
    bool regular = false;  // a file, rather than a folder or a link
  };
  // Nothing at the end of the archive.
  Result<std::optional<Member>> Next(const Deadline& deadline);
  // Of the member that `Next` brought last; valid as long as somebody holds it.
  Result<Bytes> Content(const Deadline& deadline);

  uint64_t bytes() const { return block_.size(); }

 private:
  TarReader(std::shared_ptr<const Lake> lake, const LakeFile& file, uint64_t offset)
      : lake_(std::move(lake)), file_(file), at_(offset) {}
  // Exactly so many bytes at `at`, or as many as are left.
  Result<Bytes> Piece(uint64_t at, uint64_t size, const Deadline& deadline);
  Status Damaged(std::string_view why) const;

  std::shared_ptr<const Lake> lake_;
  LakeFile file_;
  ByteSource source_;  // of a compressed archive: from here bytes come in order only
  uint64_t at_;  // of the next header
  uint64_t content_at_ = 0, content_size_ = 0;
  Bytes block_;
  uint64_t block_at_ = 0;
};

}  // namespace headrace
