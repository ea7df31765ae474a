// A bucket, or a prefix of one, as a store: AWS S3, S3 Express, and the servers that speak their language.
//
// Every call is one request, or, for large bodies, one multipart upload (s3_multipart.h). What came back is checked
// before it is believed: status, Content-Range, lengths, error bodies inside a 200. See s3_errors.h for what an
// answer means.
//
// Thread-safe, as far as its parts are. Blocks in the HTTP client only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/executor.h"
#include "headrace/clock.h"
#include "headrace/result.h"
#include "headrace/store.h"
#include "store/s3/credentials.h"
#include "store/s3/http.h"

namespace headrace {

struct S3Config {
  // Where the bucket's name goes: into the path (http://host/bucket/key) or the host (https://bucket.host/key). Auto: the
  // host on AWS if the name allows it, the path at a custom endpoint.
  enum class Addressing { kAuto, kPath, kVirtual };

  std::string bucket;
  std::string prefix;               // all keys live below it ("runs/a"); empty: the whole bucket
  std::string region = "us-east-1";
  std::string endpoint;             // "http://127.0.0.1:9000"; empty: that of AWS for the region
  Addressing addressing = Addressing::kAuto;
  bool allow_http = false;          // plain HTTP also beyond this machine; loopback always may
  bool unsigned_requests = false;   // for public buckets: no credentials are asked for
  bool requester_pays = false;
  std::optional<bool> express;      // S3 Express (directory bucket); unset: if the bucket's name ends with "--x-s3"
  uint64_t multipart_threshold = 64ull << 20;  // larger bodies go up in parts
  uint64_t part_bytes = 16ull << 20;           // at least 5 MiB, which is S3's own limit
  size_t part_concurrency = 4;
};

// Asks nobody yet. Fails with kInvalidArgument where the configuration cannot be right: no bucket or an impossible name,
// a bad endpoint, plain HTTP to another machine without `allow_http`. `credentials` may be null for unsigned requests.
Result<std::shared_ptr<ObjectStore>> MakeS3Store(S3Config config, std::shared_ptr<CredentialSource> credentials,
                                                 std::shared_ptr<HttpClient> http, Executor& executor, Clock& clock);

}  // namespace headrace
