// Credentials of the machine that we run on, asked for at its metadata service.
#pragma once

#include <string_view>

#include "store/s3/credentials_search.h"

namespace headrace {

// ECS tasks and EKS pods: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, with AWS_CONTAINER_AUTHORIZATION_TOKEN or
// _TOKEN_FILE. The file is read each time, for its content is replaced while we run.
Result<CredentialFinding> LookAtContainer(const CredentialSearch& search, const Deadline& deadline);

// EC2 instances, by IMDSv2 only: a server that can be talked into sending one plain GET must not be able to steal the role.
// Silence is no error: that is how a machine outside EC2 answers, and it costs a second.
Result<CredentialFinding> LookAtInstance(const CredentialSearch& search, const Deadline& deadline);

// Ok if credentials may be asked for at `url`: by TLS anywhere, in plain only on this machine and at the addresses that ECS and
// EKS use.
Status CheckContainerUrl(std::string_view url);

}  // namespace headrace
