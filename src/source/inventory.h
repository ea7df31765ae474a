// What a source consists of, written once: files, granules, rows. Every producer reads it instead of listing and scanning again.
//
// The object is content-addressed (its key ends with the hash of its bytes), so that producers that make it at the same time do no harm.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/result.h"
#include "headrace/store.h"
#include "recipe/recipe.h"

namespace headrace {

struct LakeFile {
  std::string uri;
  uint64_t bytes = 0;
  std::string version;  // what the store tells two contents of the same size apart by; empty if it does not
};

// The smallest piece of a source that is dealt to a strand. What `part` and `first` mean is the format's: a row group and its first row used, a byte
// offset, the number of a sample.
struct Granule {
  uint32_t file = 0;
  uint32_t part = 0;
  uint64_t first = 0;
  uint64_t count = 0;  // rows, samples or bytes, as the format cuts
  uint64_t rows = 0;  // 0: not known before it is read
};

struct Inventory {
  std::string source;
  std::string format;
  std::string fingerprint;  // SourceSpec::Fingerprint of the recipe that it was made from
  std::vector<LakeFile> files;
  std::vector<Granule> granules;
  uint64_t rows = 0, bytes = 0;  // in all; rows are estimated where `exact` is false
  bool exact = true;
  uint32_t granules_per_group = 1;
  uint32_t rows_per_piece = 1;  // how many neighbouring rows are shuffled together
  std::string
      schema;  // of its rows as Arrow has it (IPC), so that all instances read the same types: those of the files, or inferred from the first rows

  std::string Encode() const;  // zstd-compressed
  static Result<Inventory> Decode(std::string_view bytes, std::string_view what);
};

struct InventoryOptions {
  uint32_t strands = 1;
  uint32_t sources = 1;  // that share the shuffle window
  uint64_t shuffle_window = 1;
  uint32_t group_size = 1;
  std::function<void(uint64_t files, uint64_t of)> progress;
};
Result<Inventory> MakeInventory(const SourceSpec& spec, const std::string& folder, const InventoryOptions& options,
                                const Deadline& deadline);

// The files that a source's patterns name, sorted by URI: globs (*, ?, [], **) and brace ranges ({0..9}, {00..12}, {a,b}), in folders and in stores.
Result<std::vector<LakeFile>> FindFiles(const std::vector<std::string>& patterns, const std::string& folder,
                                        const StorageOptions& options, const Deadline& deadline);

}  // namespace headrace
