// One request to a bucket: addressed, signed, sent once, and the answer sorted into yes and no.
//
// Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "headrace/clock.h"
#include "headrace/result.h"
#include "headrace/store.h"
#include "store/s3/credentials.h"
#include "store/s3/http.h"
#include "store/s3/s3_endpoint.h"
#include "store/s3/s3_errors.h"
#include "store/s3/signer.h"

namespace headrace {

struct S3Request {
  std::string method = "GET";
  std::string key = {};  // whole, with the store's prefix; empty: the bucket itself
  NamedValues query = {};
  NamedValues headers = {};
  Body body = {};
  std::span<std::byte> into = {};
  BufferPool* pool = nullptr;
  Landing* landing = nullptr;
  bool answer_is_xml = false;  // so an error in its body is one, even under a 200
};

struct S3Answer {
  HttpResponse response;
  std::optional<Refusal> refusal;  // set: the answer was no
};

// Who signs, and how. Without a source requests go unsigned.
struct S3Identity {
  std::shared_ptr<CredentialSource> source;
  std::string region;
  std::string service = "s3";
  std::string token_header = "x-amz-security-token";
};

class S3Client {
 public:
  // `headers` go with every request.
  S3Client(S3Endpoint endpoint, S3Identity identity, NamedValues headers, std::shared_ptr<HttpClient> http, Clock& clock);

  // Fails if there was no whole answer, or no credentials to ask with. Credentials that were refused as expired are not used again.
  Result<S3Answer> Send(const S3Request& request, const Deadline& deadline, HttpFailure* failure = nullptr) const;

  const S3Endpoint& endpoint() const { return endpoint_; }
  const std::string& region() const { return identity_.region; }

 private:
  const S3Endpoint endpoint_;
  const S3Identity identity_;
  const NamedValues headers_;
  const std::shared_ptr<HttpClient> http_;
  Clock& clock_;
  const Signer signer_;
};

// As x-amz-checksum-crc32c has it.
std::string Crc32cHeader(const Body& body);

// Asks S3 Express for a session, `client` being one that signs with the caller's own credentials.
Result<Credentials> CreateExpressSession(const S3Client& client, const std::string& bucket, const Deadline& deadline);

}  // namespace headrace
