#include "store/s3/s3_endpoint.h"

#include <algorithm>

#include "base/text.h"
#include "store/s3/curl_transfer.h"

namespace headrace {
namespace {

constexpr std::string_view kExpressSuffix = "--x-s3";

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

Status CheckBucket(std::string_view bucket) {
  auto refuse = [&](std::string_view why) {
    return Status(Code::kInvalidArgument, Cat("\"", bucket.substr(0, 100), "\" cannot be the name of a bucket: ", why));
  };
  if (bucket.empty()) return Status(Code::kInvalidArgument, "there is no bucket: write s3://BUCKET/PREFIX");
  if (bucket.size() < 3 || bucket.size() > 255) return refuse("it must have 3 to 63 characters");
  if (!std::ranges::all_of(bucket, IsNameCharacter)) return refuse("only letters, digits, '-' and '.' are allowed");
  if (bucket.starts_with('.') || bucket.starts_with('-') || bucket.find("..") != std::string_view::npos) {
    return refuse("it must begin with a letter or digit, and have no two dots side by side");
  }
  return {};
}

// Without it nothing of `region` could end up in a host name that is not one of AWS's.
Status CheckRegion(std::string_view region) {
  bool fine = !region.empty() && std::ranges::all_of(region, [](char c) { return IsNameCharacter(c) && c != '.'; });
  if (fine) return {};
  return Status(Code::kInvalidArgument, Cat("\"", region.substr(0, 100), "\" cannot be a region; they look like eu-west-1"));
}

// lake--usw2-az1--x-s3 → usw2-az1
Result<std::string> ZoneOf(const std::string& bucket) {
  std::string_view name = bucket;
  if (name.ends_with(kExpressSuffix)) {
    name.remove_suffix(kExpressSuffix.size());
    size_t at = name.rfind("--");
    if (at != std::string_view::npos && at > 0 && at + 2 < name.size()) return std::string(name.substr(at + 2));
  }
  return Status(Code::kInvalidArgument,
                Cat("the S3 Express bucket ", bucket, " has no zone in its name; they end like --usw2-az1--x-s3"));
}

Result<S3Endpoint> CustomEndpoint(const S3Config& config) {
  auto refuse = [&](std::string_view why) {
    // Without what stands between the two: it may be a secret.
    const size_t scheme = config.endpoint.find("://");
    const std::string shown =
        Cat(config.endpoint.substr(0, scheme == std::string::npos ? 0 : scheme + 3), HostOf(config.endpoint));
    return Status(Code::kInvalidArgument, Cat("the endpoint \"", shown.substr(0, 200), "\" cannot be used: ", why));
  };
  S3Endpoint found;
  std::string_view rest = config.endpoint;
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    found.tls = false;
    rest.remove_prefix(7);
  } else {
    return refuse("it must begin with https:// or http://");
  }
  if (rest.find_first_of("?#@") != std::string_view::npos)
    return refuse("it must be a host, with a port and a path if need be, and nothing else");
  if (std::ranges::any_of(rest, [](unsigned char c) { return c <= 0x20 || c >= 0x7F; }))
    return refuse("it has a character that no address has");
  std::string_view authority = rest.substr(0, rest.find('/'));
  std::string_view path = rest.substr(authority.size());
  while (path.ends_with('/')) path.remove_suffix(1);

  size_t colon = authority.rfind(':');
  bool has_port = colon != std::string_view::npos && authority.find(']', colon) == std::string_view::npos;
  std::string_view host = has_port ? authority.substr(0, colon) : authority;
  if (host.empty()) return refuse("there is no host");
  if (has_port) {
    uint64_t port = 0;
    if (!ParseNumber(authority.substr(colon + 1), port) || port == 0 || port > 65535)
      return refuse("the port is not a number from 1 to 65535");
    if (port == (found.tls ? 443u : 80u)) authority = host;
  }
  if (!found.tls && !config.allow_http && !IsLoopback(Lower(authority))) {
    return refuse(
        "over plain HTTP everybody on the way can read and change the data; use https://, or say allow_http=true if that is all right");
  }
  std::string name = Lower(authority);
  if (config.addressing == S3Config::Addressing::kVirtual) {
    name = Cat(Lower(config.bucket), '.', name);
    found.path = path;
  } else {
    found.path = Cat(path, '/', config.bucket);
  }
  found.host = name;
  found.origin = Cat(found.tls ? "https://" : "http://", name);
  return found;
}

Result<S3Endpoint> AwsEndpoint(const S3Config& config, bool express) {
  std::string domain = config.region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  S3Endpoint found;
  std::string service = "s3";
  if (express) {
    HR_ASSIGN_OR_RETURN(std::string zone, ZoneOf(config.bucket));
    service = Cat("s3express-", zone);
  }
  found.host = Cat(service, '.', config.region, '.', domain);
  // A dot in the name would make one more level of host names than the certificate covers.
  bool in_host = express || config.addressing == S3Config::Addressing::kVirtual ||
                 (config.addressing == S3Config::Addressing::kAuto && config.bucket.find_first_of("._") == std::string::npos &&
                  Lower(config.bucket) == config.bucket);
  if (in_host) {
    found.host = Cat(config.bucket, '.', found.host);
  } else {
    found.path = Cat('/', config.bucket);
  }
  found.origin = Cat("https://", found.host);
  return found;
}

}  // namespace

Result<S3Endpoint> FindEndpoint(const S3Config& config) {
  HR_RETURN_IF_ERROR(CheckBucket(config.bucket));
  HR_RETURN_IF_ERROR(CheckRegion(config.region));
  bool express = config.express.value_or(config.bucket.ends_with(kExpressSuffix));
  HR_ASSIGN_OR_RETURN(S3Endpoint found, config.endpoint.empty() ? AwsEndpoint(config, express) : CustomEndpoint(config));
  found.express = express;
  return found;
}

}  // namespace headrace
