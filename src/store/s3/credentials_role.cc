#include "store/s3/credentials_role.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "store/s3/credentials_answer.h"
#include "store/s3/credentials_environment.h"
#include "store/s3/credentials_metadata.h"
#include "store/s3/credentials_profile.h"
#include "store/s3/credentials_sts.h"

namespace headrace {
namespace {

// Shows up in the logs of AWS as the name of who acted.
std::string SessionName(const CredentialSearch& search, const std::optional<std::string>& chosen) {
  if (chosen) return *chosen;
  return Cat("headrace-", std::chrono::duration_cast<std::chrono::seconds>(search.clock.WallNow().time_since_epoch()).count());
}

Status Wrong(const SharedFiles& files, const std::string& profile, std::string_view why) {
  const IniSection* section = files.InConfig(profile);
  const IniFile& file = section != nullptr ? files.config() : files.credentials();
  if (section == nullptr) section = files.InCredentials(profile);
  return Status(Code::kInvalidArgument,
                Cat(file.path, ":", section == nullptr ? 0 : section->line, ": profile ", profile, " ", why));
}

// `from_env`: the environment has its say too, and the first one.
Result<CredentialFinding> WebIdentity(const CredentialSearch& search, const SharedFiles& files, const std::string& profile,
                                      bool from_env, const Deadline& deadline) {
  auto setting = [&](const std::string& variable, const std::string& name) {
    std::optional<std::string> value = from_env ? search.Env(variable) : std::nullopt;
    return value ? value : files.Value(profile, name);
  };
  std::optional<std::string> path = setting("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file");
  if (!path) {
    return CredentialFinding::Nothing(
        from_env ? Cat("neither AWS_WEB_IDENTITY_TOKEN_FILE nor web_identity_token_file of profile ", profile, " is set")
                 : Cat("web_identity_token_file of profile ", profile, " is not set"));
  }
  std::optional<std::string> role = setting("AWS_ROLE_ARN", "role_arn");
  if (!role) {
    return Status(Code::kInvalidArgument, Cat("a web identity token is given (", *path,
                                              ") but no role: set AWS_ROLE_ARN, or role_arn in profile ", profile));
  }
  HR_ASSIGN_OR_RETURN(std::optional<std::string> text, search.surroundings.read(*path));
  if (!text) return Status(Code::kDenied, Cat("the web identity token ", *path, " does not exist"));
  std::string token(Trim(*text));
  if (token.empty()) return Status(Code::kDenied, Cat("the web identity token ", *path, " is empty"));
  HR_ASSIGN_OR_RETURN(std::optional<std::string> endpoint, files.Endpoint(profile, "sts"));
  StsCall call;
  HR_ASSIGN_OR_RETURN(call.endpoint, StsEndpoint(search, endpoint));
  call.parameters = {{"Action", "AssumeRoleWithWebIdentity"},
                     {"RoleArn", *role},
                     {"RoleSessionName", SessionName(search, setting("AWS_ROLE_SESSION_NAME", "role_session_name"))},
                     {"WebIdentityToken", token}};
  call.secret = token;
  call.origin = Cat("role ", *role, " by web identity");
  HR_ASSIGN_OR_RETURN(Credentials credentials, CallSts(search, call, deadline));
  return CredentialFinding::Found(std::move(credentials));
}

bool HasKeys(const SharedFiles& files, const std::string& profile) {
  return files.Value(profile, "aws_access_key_id") || files.Value(profile, "aws_secret_access_key");
}

bool AssumesRole(const SharedFiles& files, const std::string& profile) {
  return files.Value(profile, "role_arn") && !files.Value(profile, "web_identity_token_file");
}

Result<Credentials> AssumeRole(const CredentialSearch& search, const SharedFiles& files, const std::string& profile,
                               std::vector<std::string> visited, const Deadline& deadline);

Result<Credentials> FromSourceProfile(const CredentialSearch& search, const SharedFiles& files, const std::string& profile,
                                      const std::string& source, std::vector<std::string> visited, const Deadline& deadline) {
  if (!files.Has(source)) return Wrong(files, profile, Cat("names the source_profile ", source, ", which does not exist"));
  // A profile may be its own source, for the keys in it.
  bool circle = std::ranges::find(visited, source) != visited.end() && !(source == profile && HasKeys(files, source));
  if (circle) return Wrong(files, profile, Cat("names the source_profile ", source, ", which leads back to itself"));
  if (AssumesRole(files, source) && !HasKeys(files, source))
    return AssumeRole(search, files, source, std::move(visited), deadline);
  HR_ASSIGN_OR_RETURN(CredentialFinding finding, WebIdentity(search, files, source, /*from_env=*/false, deadline));
  if (!finding.credentials) {
    HR_ASSIGN_OR_RETURN(finding, LookInProfile(search, files, source, deadline));
  }
  if (!finding.credentials)
    return Wrong(files, profile, Cat("names the source_profile ", source, ", which has no credentials: ", finding.reason));
  return *std::move(finding.credentials);
}

Result<Credentials> FromNamedSource(const CredentialSearch& search, const SharedFiles& files, const std::string& profile,
                                    const std::string& source, const Deadline& deadline) {
  Result<CredentialFinding> finding = CredentialFinding::Nothing({});
  if (source == "Environment") {
    CredentialSearch by_environment = search;
    by_environment.options.profile.reset();
    finding = LookInEnvironment(by_environment);
  } else if (source == "EcsContainer") {
    finding = LookAtContainer(search, deadline);
  } else if (source == "Ec2InstanceMetadata") {
    finding = LookAtInstance(search, deadline);
  } else {
    return Wrong(files, profile,
                 Cat("has credential_source = ", source, "; it can be Environment, EcsContainer or Ec2InstanceMetadata"));
  }
  if (!finding.ok()) return finding.status();
  if (finding->credentials) return *std::move(finding->credentials);
  return Status(Code::kDenied,
                Cat("credential_source ", source, " of profile ", profile, " has no credentials: ", finding->reason));
}

Result<Credentials> AssumeRole(const CredentialSearch& search, const SharedFiles& files, const std::string& profile,
                               std::vector<std::string> visited, const Deadline& deadline) {
  visited.push_back(profile);
  const std::string role = files.Value(profile, "role_arn").value_or("");
  if (files.Value(profile, "mfa_serial")) {
    return Status(Code::kUnsupported,
                  Cat("profile ", profile,
                      " has mfa_serial, and nobody is here to type a code. Let another program ask for it: a profile with\n",
                      "  credential_process = aws configure export-credentials --profile ", profile, " --format process"));
  }
  std::optional<std::string> source_profile = files.Value(profile, "source_profile"),
                             source = files.Value(profile, "credential_source");
  if (source_profile && source) return Wrong(files, profile, "has both source_profile and credential_source: which is it?");
  if (!source_profile && !source) return Wrong(files, profile, "has role_arn but neither source_profile nor credential_source");
  StsCall call;
  if (source_profile) {
    HR_ASSIGN_OR_RETURN(call.signed_by, FromSourceProfile(search, files, profile, *source_profile, std::move(visited), deadline));
  } else {
    HR_ASSIGN_OR_RETURN(call.signed_by, FromNamedSource(search, files, profile, *source, deadline));
  }
  HR_ASSIGN_OR_RETURN(std::optional<std::string> endpoint, files.Endpoint(profile, "sts"));
  HR_ASSIGN_OR_RETURN(call.endpoint, StsEndpoint(search, endpoint));
  call.parameters = {{"Action", "AssumeRole"},
                     {"RoleArn", role},
                     {"RoleSessionName", SessionName(search, files.Value(profile, "role_session_name"))}};
  if (std::optional<std::string> id = files.Value(profile, "external_id")) call.parameters.emplace_back("ExternalId", *id);
  if (std::optional<std::string> seconds = files.Value(profile, "duration_seconds")) {
    uint64_t number = 0;
    if (!ParseNumber(*seconds, number)) return Wrong(files, profile, "has a duration_seconds that is not a number");
    call.parameters.emplace_back("DurationSeconds", *seconds);
  }
  call.origin = Cat("role ", role, " of profile ", profile);
  return CallSts(search, call, deadline);
}

}  // namespace

Result<CredentialFinding> LookForAssumedRole(const CredentialSearch& search, const Deadline& deadline) {
  ChosenProfile profile = ChooseProfile(search.options.profile, search.surroundings);
  HR_ASSIGN_OR_RETURN(SharedFiles files, LoadFilesFor(profile, search.surroundings));
  if (!AssumesRole(files, profile.name)) return CredentialFinding::Nothing(Cat("profile ", profile.name, " has no role_arn"));
  // The role of the profile with the token of the environment: that is a web identity.
  bool sourced = files.Value(profile.name, "source_profile") || files.Value(profile.name, "credential_source");
  if (!sourced && !search.options.profile && search.Env("AWS_WEB_IDENTITY_TOKEN_FILE"))
    return CredentialFinding::Nothing("it goes by web identity");
  HR_ASSIGN_OR_RETURN(Credentials credentials, AssumeRole(search, files, profile.name, {}, deadline));
  return CredentialFinding::Found(std::move(credentials));
}

Result<CredentialFinding> LookForWebIdentity(const CredentialSearch& search, const Deadline& deadline) {
  ChosenProfile profile = ChooseProfile(search.options.profile, search.surroundings);
  HR_ASSIGN_OR_RETURN(SharedFiles files, LoadFilesFor(profile, search.surroundings));
  return WebIdentity(search, files, profile.name, /*from_env=*/!search.options.profile, deadline);
}

}  // namespace headrace
