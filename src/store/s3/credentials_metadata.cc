#include "store/s3/credentials_metadata.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "store/s3/credentials_answer.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kContainerHost = "http://169.254.170.2";
constexpr std::string_view kInstanceHost = "http://169.254.169.254";
constexpr std::string_view kInstanceHost6 = "http://[fd00:ec2::254]";
constexpr std::string_view kRolePath = "/latest/meta-data/iam/security-credentials/";
// Metadata services are one hop away: who has not accepted within a second is not there.
constexpr Duration kConnectTimeout = 1s;
constexpr Duration kAnswerTimeout = 5s;

// Scheme and host alone: the rest of a container's URL is a secret of a kind.
std::string_view HostOf(std::string_view url) {
  size_t host = url.find("://");
  host = host == std::string_view::npos ? 0 : host + 3;
  return url.substr(0, url.find_first_of("/?#", host));
}

Result<HttpResponse> Ask(const CredentialSearch& search, HttpRequest request, std::string_view secret, const Deadline& deadline) {
  request.connect_timeout = kConnectTimeout;
  Result<HttpResponse> response = search.http->Do(request, deadline.NotAfter(search.clock.Now() + kAnswerTimeout));
  if (response.ok()) return response;
  return Status(response.code(), Cat(HostOf(request.url), " did not answer: ", Redact(response.status().message(), secret)));
}

bool IsAddress(const std::string& host, std::string_view address) {
  std::array<unsigned char, 16> a{}, b{};
  std::string other(address);
  int family = other.find(':') == std::string::npos ? AF_INET : AF_INET6;
  return inet_pton(family, host.c_str(), a.data()) == 1 && inet_pton(family, other.c_str(), b.data()) == 1 && a == b;
}

bool IsLoopback(const std::string& host) {
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return (ntohl(address.s_addr) >> 24) == 127;
  return host == "localhost" || IsAddress(host, "::1");
}

// What the service says about its refusal, if it says it the usual way.
std::string MessageOf(const HttpResponse& response, std::string_view secret) {
  nlohmann::json object = nlohmann::json::parse(response.body.AsText(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return {};
  for (const char* name : {"message", "Message"}) {
    auto found = object.find(name);
    if (found != object.end() && found->is_string()) return Cat(": ", Redact(found->get<std::string>(), secret).substr(0, 300));
  }
  return {};
}

Status Refusal(std::string_view host, const HttpResponse& response, std::string_view what, std::string_view secret = {}) {
  bool passing = response.status >= 500 || response.status == 429;
  return Status(passing ? Code::kUnavailable : Code::kDenied,
                Cat(host, " answered ", response.status, " when asked for ", what, MessageOf(response, secret)));
}

Result<std::string> ContainerToken(const CredentialSearch& search) {
  std::string token = search.Env("AWS_CONTAINER_AUTHORIZATION_TOKEN").value_or("");
  std::string_view from = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
  if (std::optional<std::string> path = search.Env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    HR_ASSIGN_OR_RETURN(std::optional<std::string> text, search.surroundings.read(*path));
    if (!text) return Status(Code::kDenied, Cat(*path, " (from AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE) does not exist"));
    token = Trim(*text);
    from = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
  }
  bool legal = std::all_of(token.begin(), token.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
  if (!legal) return Status(Code::kInvalidArgument, Cat("the token of ", from, " cannot stand in an HTTP header"));
  return token;
}

}  // namespace

Status CheckContainerUrl(std::string_view url) {
  const bool tls = url.starts_with("https://"), plain = url.starts_with("http://");
  std::string_view authority = HostOf(url).substr(tls ? 8 : plain ? 7 : 0);
  // A name before an @ is how one host is made to look like another.
  bool clean = std::all_of(url.begin(), url.end(), [](char c) { return c > 0x20 && c < 0x7F && c != '\\'; });
  if ((!tls && !plain) || authority.empty() || !clean || authority.find('@') != std::string_view::npos) {
    return Status(Code::kInvalidArgument,
                  "AWS_CONTAINER_CREDENTIALS_FULL_URI is not a URL like http://127.0.0.1:8080/credentials");
  }
  if (tls) return Status::Ok();
  std::string host = Lower(authority.substr(0, authority.front() == '[' ? authority.find(']') : authority.rfind(':')));
  if (host.starts_with('[')) host.erase(0, 1);
  if (IsLoopback(host)) return Status::Ok();
  for (std::string_view allowed : {"169.254.170.2", "169.254.170.23", "fd00:ec2::23"}) {
    if (IsAddress(host, allowed)) return Status::Ok();
  }
  return Status(Code::kInvalidArgument, Cat("AWS_CONTAINER_CREDENTIALS_FULL_URI names the host ", host,
                                            ". Without TLS, credentials are fetched only from this machine, ",
                                            "169.254.170.2, 169.254.170.23 and fd00:ec2::23; use https://"));
}

Result<CredentialFinding> LookAtContainer(const CredentialSearch& search, const Deadline& deadline) {
  std::string url;
  if (std::optional<std::string> relative = search.Env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")) {
    if (relative->front() != '/')
      return Status(Code::kInvalidArgument, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must start with '/'");
    url = Cat(kContainerHost, *relative);
  } else if (std::optional<std::string> full = search.Env("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
    url = *full;
  } else {
    return CredentialFinding::Nothing(
        "neither AWS_CONTAINER_CREDENTIALS_RELATIVE_URI nor AWS_CONTAINER_CREDENTIALS_FULL_URI is set");
  }
  HR_RETURN_IF_ERROR(CheckContainerUrl(url));
  HR_ASSIGN_OR_RETURN(std::string token, ContainerToken(search));
  HttpRequest request;
  request.url = url;
  request.headers = {{"Accept", "application/json"}};
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  std::string_view path = std::string_view(url).substr(HostOf(url).size());
  Result<HttpResponse> response = Ask(search, std::move(request), path.size() > 1 ? path : "", deadline);
  if (!response.ok()) return response.status().Annotate("container credentials");
  if (response->status != 200) return Refusal(HostOf(url), *response, "the container's credentials", token);
  HR_ASSIGN_OR_RETURN(Credentials credentials, ParseCredentialsJson(response->body.AsText(), "Token", "container role"));
  return CredentialFinding::Found(std::move(credentials));
}

Result<CredentialFinding> LookAtInstance(const CredentialSearch& search, const Deadline& deadline) {
  if (Lower(search.Env("AWS_EC2_METADATA_DISABLED").value_or("")) == "true") {
    return CredentialFinding::Nothing("not asked, because AWS_EC2_METADATA_DISABLED is set");
  }
  bool mode6 = Lower(search.Env("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").value_or("")) == "ipv6";
  std::string host =
      search.Env("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or(std::string(mode6 ? kInstanceHost6 : kInstanceHost));
  while (host.ends_with('/')) host.pop_back();

  HttpRequest token_request;
  token_request.method = "PUT";
  token_request.url = Cat(host, "/latest/api/token");
  token_request.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}};
  Result<HttpResponse> token = Ask(search, std::move(token_request), {}, deadline);
  if (token.code() == Code::kCancelled) return token.status();
  if (!token.ok()) return CredentialFinding::Nothing(token.status().message());
  if (token->status == 429 || token->status >= 500) return Refusal(host, *token, "an IMDSv2 token");
  if (token->status != 200)
    return CredentialFinding::Nothing(Cat(host, " answered ", token->status, " when asked for an IMDSv2 token"));

  auto get = [&](std::string_view path) {
    HttpRequest request;
    request.url = Cat(host, path);
    request.headers = {{"X-aws-ec2-metadata-token", std::string(Trim(token->body.AsText()))}};
    return Ask(search, std::move(request), {}, deadline);
  };
  HR_ASSIGN_OR_RETURN(HttpResponse roles, get(kRolePath));
  std::string role(Trim(Split(roles.body.AsText(), '\n').front()));
  if (roles.status == 404 || (roles.status == 200 && role.empty()))
    return CredentialFinding::Nothing("this EC2 instance has no role attached");
  if (roles.status != 200) return Refusal(host, roles, "the name of the instance role");

  HR_ASSIGN_OR_RETURN(HttpResponse answer, get(Cat(kRolePath, PercentEncode(role))));
  if (answer.status != 200) return Refusal(host, answer, "the credentials of the instance role");
  HR_ASSIGN_OR_RETURN(Credentials credentials, ParseCredentialsJson(answer.body.AsText(), "Token", Cat("instance role ", role)));
  // When EC2 itself cannot renew, it goes on handing out the old ones, and the services go on taking them.
  WallTime now = search.clock.WallNow();
  if (credentials.expires && *credentials.expires <= now) {
    HR_LOG(kWarning, "the instance role's credentials have ended and EC2 has no newer ones: trying them nevertheless",
           {"origin", credentials.origin}, {"ended", FormatTimestamp(*credentials.expires)});
    credentials.expires = now + 10min;
  }
  return CredentialFinding::Found(std::move(credentials));
}

}  // namespace headrace
