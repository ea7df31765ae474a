#include "store/s3/credentials_sts.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "store/s3/credentials_answer.h"
#include "store/s3/xml.h"

namespace headrace {
namespace {

constexpr Duration kAnswerTimeout = std::chrono::seconds(20);

// What stands in `parent` ("Credentials", "Error"), wherever that is; as far as the answer can be read at all.
std::map<std::string, std::string> FieldsOf(std::string_view document, std::string_view parent) {
  std::map<std::string, std::string> fields;
  XmlScanner xml(document);
  while (true) {
    Result<XmlScanner::Event> event = xml.Next();
    if (!event.ok() || *event == XmlScanner::Event::kEnd) return fields;
    if (*event != XmlScanner::Event::kClose) continue;
    std::vector<std::string> names = Split(xml.path(), '/');
    if (names.size() >= 2 && names[names.size() - 2] == parent) fields[names.back()] = xml.text();
  }
}

struct Address {
  std::string host;  // with the port, unless it is the scheme's own
  std::string path;
};

Address AddressOf(const std::string& endpoint) {
  size_t start = endpoint.find("://") + 3;
  size_t slash = endpoint.find('/', start);
  Address address{endpoint.substr(start, slash - start), slash == std::string::npos ? "/" : endpoint.substr(slash)};
  std::string_view standard = endpoint.starts_with("https:") ? ":443" : ":80";
  if (address.host.ends_with(standard)) address.host.resize(address.host.size() - standard.size());
  return address;
}

// sts.eu-west-1.amazonaws.com signs for eu-west-1, whatever the store's region is; sts.amazonaws.com for us-east-1.
std::string SigningRegion(const std::string& region) { return region.empty() ? "us-east-1" : region; }

Status Refusal(const StsCall& call, const std::string& host, const HttpResponse& response) {
  std::map<std::string, std::string> error = FieldsOf(response.body.AsText(), "Error");
  std::string code = error["Code"];
  std::string message = Redact(error["Message"], call.secret).substr(0, 500);
  bool throttled = code.starts_with("Throttl") || code == "RequestLimitExceeded" || response.status == 429;
  bool passing = response.status >= 500 || code == "IDPCommunicationError" || code == "RequestTimeout";
  return Status(throttled ? Code::kThrottled
                : passing ? Code::kUnavailable
                          : Code::kDenied,
                Cat(host, " refused ", call.origin, ": ", response.status, code.empty() ? "" : " ", code,
                    message.empty() ? "" : ": ", message));
}

}  // namespace

Result<std::string> StsEndpoint(const CredentialSearch& search, const std::optional<std::string>& profile_endpoint) {
  std::optional<std::string> endpoint;
  if (Lower(search.Env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").value_or("")) != "true") {
    endpoint = search.Env("AWS_ENDPOINT_URL_STS");
    if (!endpoint) endpoint = search.Env("AWS_ENDPOINT_URL");
    if (!endpoint) endpoint = profile_endpoint;
  }
  if (endpoint) {
    std::string_view rest = *endpoint;
    for (std::string_view scheme : {"https://", "http://"}) {
      if (rest.starts_with(scheme)) rest.remove_prefix(scheme.size());
    }
    bool clean =
        std::ranges::all_of(rest, [](char c) { return c > 0x20 && c < 0x7F && c != '@' && c != '?' && c != '#' && c != '\\'; });
    if (rest.size() == endpoint->size() || rest.empty() || rest.front() == '/' || !clean) {
      return Status(Code::kInvalidArgument,
                    "the endpoint set for STS (AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL or the profile's endpoint_url) "
                    "is not a URL like https://sts.eu-west-1.amazonaws.com");
    }
    while (endpoint->ends_with('/')) endpoint->pop_back();
    return *endpoint;
  }
  const std::string& region = search.options.region;
  if (region.empty()) return std::string("https://sts.amazonaws.com");
  bool name = std::ranges::all_of(region, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  if (!name) return Status(Code::kInvalidArgument, Cat("\"", region, "\" is not the name of an AWS region like eu-west-1"));
  return Cat("https://sts.", region, region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
}

Result<Credentials> CallSts(const CredentialSearch& search, const StsCall& call, const Deadline& deadline) {
  const Address address = AddressOf(call.endpoint);
  NamedValues parameters = call.parameters;
  parameters.emplace_back("Version", "2011-06-15");
  const std::string form = EncodeQuery(parameters);

  HttpRequest request;
  request.method = "POST";
  request.url = address.path == "/" ? Cat(call.endpoint, "/") : call.endpoint;
  request.headers = {{"content-type", "application/x-www-form-urlencoded; charset=utf-8"}};
  request.body = Body(form);
  if (call.signed_by) {
    WallTime now = search.clock.WallNow();
    request.headers.emplace_back("x-amz-date", SigningTime(now));
    if (!call.signed_by->session_token.empty())
      request.headers.emplace_back("x-amz-security-token", call.signed_by->session_token);
    SignableRequest signable{"POST", address.path, {}, request.headers, Sha256Hex(form)};
    signable.headers.emplace_back("host", address.host);
    Signer signer(SigningRegion(search.options.region), "sts");
    request.headers.emplace_back("authorization", signer.Sign(signable, *call.signed_by, now).authorization);
  }
  Result<HttpResponse> response = search.http->Do(request, deadline.NotAfter(search.clock.Now() + kAnswerTimeout));
  if (!response.ok())
    return Status(response.code(), Cat("asking STS for ", call.origin, ": ", Redact(response.status().message(), call.secret)));
  if (!response->ok()) return Refusal(call, address.host, *response);

  std::map<std::string, std::string> given = FieldsOf(response->body.AsText(), "Credentials");
  Credentials credentials{given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], {}, call.origin};
  Result<WallTime> expires = ParseTimestamp(given["Expiration"]);
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty() || credentials.session_token.empty() ||
      !expires.ok()) {
    return Status(Code::kUnavailable,
                  Cat(address.host, " answered ", response->status, " but without credentials. Is STS really there?"));
  }
  HR_RETURN_IF_ERROR(CheckCredentials(credentials));
  credentials.expires = *expires;
  return credentials;
}

}  // namespace headrace
