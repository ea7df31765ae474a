#include "store/s3/credentials_sts.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "store/s3/credentials_answer.h"

namespace headrace {
namespace {

constexpr Duration kAnswerTimeout = std::chrono::seconds(20);

// The text of the first <name> element, if there is one.
std::string ElementText(std::string_view xml, std::string_view name) {
  const std::string open = Cat("<", name, ">"), close = Cat("</", name, ">");
  size_t first = xml.find(open);
  if (first == std::string_view::npos) return {};
  std::string_view text = xml.substr(first + open.size());
  text = Trim(text.substr(0, text.find(close)));
  std::string out;
  while (!text.empty()) {
    constexpr std::pair<std::string_view, char> kEntities[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    auto entity = std::ranges::find_if(kEntities, [&](const auto& candidate) { return text.starts_with(candidate.first); });
    bool plain = entity == std::end(kEntities);
    out.push_back(plain ? text.front() : entity->second);
    text.remove_prefix(plain ? 1 : entity->first.size());
  }
  return out;
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
  std::string code = ElementText(response.body.AsText(), "Code");
  std::string message = Redact(ElementText(response.body.AsText(), "Message").substr(0, 500), call.secret);
  bool throttled = code.starts_with("Throttl") || code == "RequestLimitExceeded" || response.status == 429;
  bool passing = response.status >= 500 || code == "IDPCommunicationError" || code == "RequestTimeout";
  return Status(throttled ? Code::kThrottled : passing ? Code::kUnavailable : Code::kDenied,
                Cat(host, " refused ", call.origin, ": ", response.status, code.empty() ? "" : " ", code, message.empty() ? "" : ": ", message));
}

}  // namespace

Result<std::string> StsEndpoint(const Search& search, const std::optional<std::string>& profile_endpoint) {
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
    bool clean = std::ranges::all_of(rest, [](char c) { return c > 0x20 && c < 0x7F && c != '@' && c != '?' && c != '#' && c != '\\'; });
    if (rest.size() == endpoint->size() || rest.empty() || rest.front() == '/' || !clean) {
      return Status(Code::kInvalidArgument, "the endpoint set for STS (AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL or the profile's endpoint_url) "
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

Result<Credentials> CallSts(const Search& search, const StsCall& call, const Deadline& deadline) {
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
    if (!call.signed_by->session_token.empty()) request.headers.emplace_back("x-amz-security-token", call.signed_by->session_token);
    SignableRequest signable{"POST", address.path, {}, request.headers, Sha256Hex(form)};
    signable.headers.emplace_back("host", address.host);
    Signer signer(SigningRegion(search.options.region), "sts");
    request.headers.emplace_back("authorization", signer.Sign(signable, *call.signed_by, now).authorization);
  }
  Result<HttpResponse> response = search.http->Do(request, deadline.NotAfter(search.clock.Now() + kAnswerTimeout));
  if (!response.ok()) return Status(response.code(), Cat("asking STS for ", call.origin, ": ", Redact(response.status().message(), call.secret)));
  if (!response->ok()) return Refusal(call, address.host, *response);

  std::string_view xml = response->body.AsText();
  Credentials credentials{ElementText(xml, "AccessKeyId"), ElementText(xml, "SecretAccessKey"), ElementText(xml, "SessionToken"), {}, call.origin};
  Result<WallTime> expires = ParseTimestamp(ElementText(xml, "Expiration"));
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty() || credentials.session_token.empty() || !expires.ok()) {
    return Status(Code::kUnavailable, Cat(address.host, " answered ", response->status, " but without credentials. Is STS really there?"));
  }
  HR_RETURN_IF_ERROR(CheckCredentials(credentials));
  credentials.expires = *expires;
  return credentials;
}

}  // namespace headrace
