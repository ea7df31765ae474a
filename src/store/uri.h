// Where a store is, as people write it.
//
//   s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-west-1
//   file:///data/runs?sync=false
//   /data/runs, runs/a, ../a      a plain path is taken as it stands: no escapes, no options
//   mem://name/prefix             in the memory of this process
//
// In the first two and the last form %20 is a space and '#' must be written %23. What comes after '?' are options (store_options.h).
// A failure never repeats the query or a user's name in the URI: there may be secrets in them.
#pragma once

#include <string>

#include "headrace/result.h"
#include "headrace/store.h"

namespace headrace {

struct StoreUri {
  enum class Scheme { kS3, kFile, kMemory };

  Scheme scheme = Scheme::kFile;
  std::string name;  // the bucket, or the name of the store in memory
  std::string path;  // the folder; or the prefix in the bucket or in memory, without slashes at its ends
  StorageOptions query;  // not checked yet

  // Without the options: what messages call this store.
  std::string ToString() const;
};

// kInvalidArgument if the words are wrong, kUnsupported if they are right for something that Headrace does not speak.
Result<StoreUri> ParseStoreUri(const std::string& text);

}  // namespace headrace
