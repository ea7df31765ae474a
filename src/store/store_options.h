// Every option of a store, in one table: its name, its kind of value, which stores have it, and what it does.
//
// Options come as words: from `storage_options=` in Python, from a recipe, from the query of a URI. `StoreSettings` is what they mean,
// with types. What is left unset here is looked for in the environment when the store is opened (open.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "headrace/clock.h"
#include "headrace/result.h"
#include "headrace/store.h"
#include "store/s3/s3_store.h"
#include "store/uri.h"

namespace headrace {

struct StoreOption {
  enum class Kind { kText, kFlag, kSize, kDuration, kCount, kAddressing };

  std::string_view name;
  Kind kind;
  bool s3;  // s3:// has it
  bool folder;  // file:// has it
  bool secret;  // may not stand in a URI
  std::string_view meaning;
};

std::span<const StoreOption> AllStoreOptions();
// Nothing if there is none of that name.
const StoreOption* FindStoreOption(std::string_view name);

struct StoreSettings {
  std::optional<std::string> endpoint, region, profile, access_key_id, secret_access_key, session_token, ca_file;
  std::optional<S3Config::Addressing> addressing;
  std::optional<bool> unsigned_requests, requester_pays, allow_http, express, hedge, sync;
  std::optional<Duration> timeout, connect_timeout;
  std::optional<uint64_t> concurrency, retries, multipart_threshold, part_size;
};

// The settings of `uri`, of its query and of `options`, which win. Fails with kInvalidArgument, naming the option: unknown (and the near one),
// not one of this kind of store, a value that is none, a secret in the URI, keys that come without their other half.
Result<StoreSettings> ReadStoreSettings(const StoreUri& uri, const StorageOptions& options);

}  // namespace headrace
