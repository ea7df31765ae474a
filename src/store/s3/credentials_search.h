// What a search for credentials has to go by, and what one place of it brought.
//
// A place that is not set up has nothing, and says why: the search goes on, and if nobody has anything those reasons are the
// error. A place that is set up and does not work is an error at once: falling through to another identity would be a surprise.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "store/s3/credentials.h"

namespace headrace {

struct CredentialSearch {
  CredentialOptions options;
  Surroundings surroundings;
  std::shared_ptr<HttpClient> http;
  Clock& clock;

  std::optional<std::string> Env(const std::string& name) const { return surroundings.env(name); }
};

struct CredentialFinding {
  std::optional<Credentials> credentials;
  std::string reason;  // why there are none here: "AWS_ACCESS_KEY_ID is not set"

  static CredentialFinding Found(Credentials credentials) { return {std::move(credentials), {}}; }
  static CredentialFinding Nothing(std::string reason) { return {std::nullopt, std::move(reason)}; }
};

}  // namespace headrace
