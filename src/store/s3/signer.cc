#include "store/s3/signer.h"

#include <algorithm>
#include <ctime>
#include <map>

#include "base/text.h"

namespace headrace {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::string_view View(const Sha256Digest& digest) { return {reinterpret_cast<const char*>(digest.data()), digest.size()}; }

std::string CanonicalQuery(const NamedValues& query) {
  NamedValues encoded;
  encoded.reserve(query.size());
  for (const auto& [name, value] : query) encoded.emplace_back(PercentEncode(name), PercentEncode(value));
  std::ranges::sort(encoded);
  std::string out;
  for (const auto& [name, value] : encoded) {
    if (!out.empty()) out += '&';
    out += Cat(name, '=', value);
  }
  return out;
}

// Without space at the ends, and runs of it inside as one.
std::string CanonicalValue(std::string_view value) {
  std::string out;
  for (char c : Trim(value)) {
    if (c == ' ' && !out.empty() && out.back() == ' ') continue;
    out += c;
  }
  return out;
}

}  // namespace

Signature Signer::Sign(const SignableRequest& request, const Credentials& credentials, WallTime at) const {
  std::map<std::string, std::string> headers;
  for (const auto& [name, value] : request.headers) {
    auto [entry, fresh] = headers.try_emplace(Lower(name), CanonicalValue(value));
    if (!fresh) entry->second += Cat(',', CanonicalValue(value));
  }
  std::string names, lines;
  for (const auto& [name, value] : headers) {
    names += Cat(names.empty() ? "" : ";", name);
    lines += Cat(name, ':', value, '\n');
  }

  Signature out;
  out.canonical_request = Cat(request.method, '\n', request.path, '\n', CanonicalQuery(request.query), '\n', lines, '\n', names,
                              '\n', request.payload_hash);
  std::string time = SigningTime(at);
  std::string day = time.substr(0, 8);
  std::string scope = Cat(day, '/', region_, '/', service_, "/aws4_request");
  out.string_to_sign = Cat(kAlgorithm, '\n', time, '\n', scope, '\n', Sha256Hex(out.canonical_request));
  out.signature = ToHex(HmacSha256(View(KeyOf(credentials.secret_access_key, day)), out.string_to_sign));
  out.authorization = Cat(kAlgorithm, " Credential=", credentials.access_key_id, '/', scope, ", SignedHeaders=", names,
                          ", Signature=", out.signature);
  return out;
}

Sha256Digest Signer::KeyOf(const std::string& secret, const std::string& day) const {
  {
    std::lock_guard lock(mutex_);
    if (last_.secret == secret && last_.day == day) return last_.key;
  }
  Sha256Digest key = HmacSha256(Cat("AWS4", secret), day);
  for (std::string_view part : {std::string_view(region_), std::string_view(service_), std::string_view("aws4_request")}) {
    key = HmacSha256(View(key), part);
  }
  std::lock_guard lock(mutex_);
  last_ = {secret, day, key};
  return key;
}

std::string SigningTime(WallTime at) {
  std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(at));
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return std::string(text, std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &parts));
}

std::string EncodeQuery(const NamedValues& query) {
  std::string out;
  for (const auto& [name, value] : query) {
    if (!out.empty()) out += '&';
    out += PercentEncode(name);
    if (!value.empty()) out += Cat('=', PercentEncode(value));
  }
  return out;
}

}  // namespace headrace
