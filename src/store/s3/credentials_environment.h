// Credentials that somebody wrote down for this very process: in a store's options, or in the environment.
#pragma once

#include "store/s3/credentials_search.h"

namespace headrace {

Result<CredentialFinding> LookInOptions(const CredentialSearch& search);

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_CREDENTIAL_EXPIRATION.
Result<CredentialFinding> LookInEnvironment(const CredentialSearch& search);

}  // namespace headrace
