// Where the requests of a bucket go, and by which rules they are signed.
#pragma once

#include <string>

#include "headrace/result.h"
#include "store/s3/s3_store.h"

namespace headrace {

struct S3Endpoint {
  std::string origin;  // "https://lake.s3.eu-west-1.amazonaws.com"
  std::string host;    // as the header has it: without the port that goes without saying
  std::string path;    // before the key's own slash: "", or "/bucket"
  bool tls = true;
  bool express = false;
};

// Fails with kInvalidArgument, as `MakeS3Store` promises.
Result<S3Endpoint> FindEndpoint(const S3Config& config);

}  // namespace headrace
