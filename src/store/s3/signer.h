// AWS Signature Version 4 in the form that S3 wants it: paths encoded once and never normalised.
//
// The intermediate strings are part of the answer, because a signature alone cannot be compared with anything: tests
// hold them against published examples, and people against what a server says it saw.
//
// Thread-safe. The day's signing key is derived once.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "headrace/clock.h"
#include "store/s3/credentials.h"

namespace headrace {

using NamedValues = std::vector<std::pair<std::string, std::string>>;

// Of everything else that is sent, the signature says nothing.
struct SignableRequest {
  std::string method;
  std::string path;          // as in the request line, percent-encoded
  NamedValues query;         // plain, in any order; a parameter without a value has an empty one
  NamedValues headers;       // `host` and `x-amz-date` among them
  std::string payload_hash;  // SHA-256 in hex, or kUnsignedPayload
};

inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";
// SHA-256 of nothing.
inline constexpr std::string_view kEmptyPayloadHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

struct Signature {
  std::string canonical_request;
  std::string string_to_sign;
  std::string signature;      // hex
  std::string authorization;  // the header's value
};

class Signer {
 public:
  // `service` is "s3", or "s3express".
  Signer(std::string region, std::string service) : region_(std::move(region)), service_(std::move(service)) {}

  // `at` must be the time that `x-amz-date` says.
  Signature Sign(const SignableRequest& request, const Credentials& credentials, WallTime at) const;

 private:
  struct DayKey {
    std::string secret;
    std::string day;
    Sha256Digest key;
  };
  Sha256Digest KeyOf(const std::string& secret, const std::string& day) const;

  const std::string region_;
  const std::string service_;
  mutable std::mutex mutex_;
  mutable DayKey last_;
};

// "20130524T000000Z", as x-amz-date has it.
std::string SigningTime(WallTime at);
// name=value&…, percent-encoded; a parameter with an empty value is its name alone. In the order given.
std::string EncodeQuery(const NamedValues& query);

}  // namespace headrace
