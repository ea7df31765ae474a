// A large object in parts that go up side by side.
//
// The object appears, whole, with the last request (CompleteMultipartUpload), and that one carries the condition of a create. So until it
// is sent, whatever fails certainly created nothing; after it, the outcome is what its answer says. What failed for certain is aborted, so
// that its parts cost nothing. An upload whose last answer was lost is left alone: aborting it could meet its completion half-way, and not
// every server bears that. A lifecycle rule (AbortIncompleteMultipartUpload) takes care of what stays behind.
//
// A server may hold the condition of a plain put against a race and not that of a completion (moto does not). Nothing that a stream's
// safety rests on is ever this large; large objects have names that nobody else uses.
#pragma once

#include <string>

#include "base/executor.h"
#include "headrace/store.h"
#include "store/s3/s3_client.h"

namespace headrace {

struct MultipartOptions {
  uint64_t part_bytes;
  size_t concurrency;
};

struct MultipartUpload {
  const S3Client& client;
  const std::string& key;  // whole
  const std::string& what;  // how messages begin: "cannot create s3://lake/a"
  const std::string& bucket;
  const Body& body;
  bool if_absent;
};

// An error means that certainly nothing was created.
Result<PutOutcome> PutInParts(const MultipartUpload& upload, const MultipartOptions& options, Executor& executor,
                              const Deadline& deadline);

// What the answer to the request that makes an object appear says about it. `sent`: whether the request may have arrived.
Result<PutOutcome> OutcomeOf(const Result<S3Answer>& answer, bool sent, const std::string& what, const std::string& bucket,
                             const std::string& region);

}  // namespace headrace
