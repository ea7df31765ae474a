#include "store/s3/credentials_environment.h"

#include "base/text.h"
#include "store/s3/credentials_answer.h"

namespace headrace {
namespace {

Status Half(std::string_view given, std::string_view missing) {
  return Status(Code::kInvalidArgument, Cat(given, " is set but ", missing, " is not: credentials need both"));
}

}  // namespace

Result<CredentialFinding> LookInOptions(const CredentialSearch& search) {
  const CredentialOptions& options = search.options;
  Credentials credentials;
  credentials.access_key_id = options.access_key_id.value_or("");
  credentials.secret_access_key = options.secret_access_key.value_or("");
  credentials.session_token = options.session_token.value_or("");
  credentials.origin = "the store's options";
  if (credentials.access_key_id.empty() && credentials.secret_access_key.empty()) {
    if (!credentials.session_token.empty()) return Half("the option session_token", "access_key_id");
    return CredentialFinding::Nothing("access_key_id is not given");
  }
  if (credentials.secret_access_key.empty()) return Half("the option access_key_id", "secret_access_key");
  if (credentials.access_key_id.empty()) return Half("the option secret_access_key", "access_key_id");
  HR_RETURN_IF_ERROR(CheckCredentials(credentials));
  return CredentialFinding::Found(std::move(credentials));
}

Result<CredentialFinding> LookInEnvironment(const CredentialSearch& search) {
  if (search.options.profile) return CredentialFinding::Nothing("not looked at, because a profile was asked for by name");
  std::optional<std::string> id = search.Env("AWS_ACCESS_KEY_ID"), secret = search.Env("AWS_SECRET_ACCESS_KEY");
  if (!id) return CredentialFinding::Nothing("AWS_ACCESS_KEY_ID is not set");
  if (!secret) return Half("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
  Credentials credentials;
  credentials.access_key_id = *id;
  credentials.secret_access_key = *secret;
  credentials.session_token = search.Env("AWS_SESSION_TOKEN").value_or(search.Env("AWS_SECURITY_TOKEN").value_or(""));
  credentials.origin = "environment";
  HR_RETURN_IF_ERROR(CheckCredentials(credentials));
  if (std::optional<std::string> end = search.Env("AWS_CREDENTIAL_EXPIRATION")) {
    Result<WallTime> time = ParseTimestamp(*end);
    if (!time.ok()) return time.status().Annotate("AWS_CREDENTIAL_EXPIRATION");
    credentials.expires = *time;
  }
  return CredentialFinding::Found(std::move(credentials));
}

}  // namespace headrace
