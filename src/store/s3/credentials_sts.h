// One call to the AWS Security Token Service.
#pragma once

#include <optional>
#include <string>

#include "store/s3/credentials_search.h"
#include "store/s3/signer.h"

namespace headrace {

struct StsCall {
  std::string endpoint;     // from `StsEndpoint`
  NamedValues parameters;   // Action, RoleArn, …
  std::string secret;       // what must not come back in a message: the token among the parameters
  std::optional<Credentials> signed_by;
  std::string origin;       // of what comes back
};

// Temporary credentials, or what STS had against it.
Result<Credentials> CallSts(const CredentialSearch& search, const StsCall& call, const Deadline& deadline);

// Where STS is: AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL, the profile's own setting, or that of AWS for the region.
Result<std::string> StsEndpoint(const CredentialSearch& search, const std::optional<std::string>& profile_endpoint);

}  // namespace headrace
