// Credentials of a role that we are allowed to take on, handed out by AWS STS.
//
// Both ways are asked for again from the start at each renewal: the token's file is read anew, the source profile looked up anew.
#pragma once

#include "store/s3/credentials_search.h"

namespace headrace {

// A profile with `role_arn` and `source_profile` or `credential_source`: AssumeRole, signed with the source's credentials.
Result<CredentialFinding> LookForAssumedRole(const CredentialSearch& search, const Deadline& deadline);

// AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or `web_identity_token_file` and `role_arn` of the profile:
// AssumeRoleWithWebIdentity.
Result<CredentialFinding> LookForWebIdentity(const CredentialSearch& search, const Deadline& deadline);

}  // namespace headrace
