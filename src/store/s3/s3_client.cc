#include "store/s3/s3_client.h"

#include "base/crc32c.h"
#include "base/hash.h"
#include "base/text.h"

namespace headrace {
namespace {

// Over TLS the transport keeps the body whole, and the checksum header vouches for it; over plain HTTP only the hash does.
std::string PayloadHash(const Body& body, bool tls) {
  if (body.size() == 0) return std::string(kEmptyPayloadHash);
  if (tls) return std::string(kUnsignedPayload);
  Sha256 hash;
  for (const Bytes& part : body.parts()) hash.Update(part.data(), part.size());
  return ToHex(hash.Finish());
}

}  // namespace

S3Client::S3Client(S3Endpoint endpoint, S3Identity identity, NamedValues headers, std::shared_ptr<HttpClient> http, Clock& clock)
    : endpoint_(std::move(endpoint)),
      identity_(std::move(identity)),
      headers_(std::move(headers)),
      http_(std::move(http)),
      clock_(clock),
      signer_(identity_.region, identity_.service) {}

Result<S3Answer> S3Client::Send(const S3Request& request, const Deadline& deadline, HttpFailure* failure) const {
  std::string path = endpoint_.path;
  if (path.empty() || !request.key.empty()) path += '/';
  path += PercentEncode(request.key, true);
  std::string query = EncodeQuery(request.query);

  HttpRequest out;
  out.method = request.method;
  out.url = Cat(endpoint_.origin, path, query.empty() ? "" : "?", query);
  out.body = request.body;
  out.into = request.into;
  out.pool = request.pool;
  out.landing = request.landing;
  out.headers = request.headers;
  out.headers.insert(out.headers.end(), headers_.begin(), headers_.end());
  out.headers.emplace_back("host", endpoint_.host);

  Credentials credentials;
  if (identity_.source != nullptr) {
    Result<Credentials> got = identity_.source->Get(deadline);
    if (!got.ok()) {
      if (failure != nullptr) *failure = {.status = got.status(), .sent = false};
      return got.status();
    }
    credentials = *std::move(got);
    WallTime now = clock_.WallNow();
    std::string payload_hash = PayloadHash(request.body, endpoint_.tls);
    out.headers.emplace_back("x-amz-content-sha256", payload_hash);
    out.headers.emplace_back("x-amz-date", SigningTime(now));
    if (!credentials.session_token.empty()) out.headers.emplace_back(identity_.token_header, credentials.session_token);
    Signature signature = signer_.Sign({request.method, path, request.query, out.headers, payload_hash}, credentials, now);
    out.headers.emplace_back("authorization", signature.authorization);
  }

  HR_ASSIGN_OR_RETURN(HttpResponse response, http_->Do(out, deadline, failure));
  S3Answer answer{.response = std::move(response), .refusal = std::nullopt};
  if (!answer.response.ok() || (request.answer_is_xml && IsErrorAnswer(answer.response.body.AsText()))) {
    answer.refusal = ReadRefusal(answer.response);
    if (identity_.source != nullptr && RefusalCode(*answer.refusal) == Code::kExpired) identity_.source->Invalidate(credentials);
  }
  return answer;
}

std::string Crc32cHeader(const Body& body) {
  uint32_t crc = 0;
  for (const Bytes& part : body.parts()) crc = Crc32c(part.span(), crc);
  const unsigned char big_endian[4] = {static_cast<unsigned char>(crc >> 24), static_cast<unsigned char>(crc >> 16),
                                       static_cast<unsigned char>(crc >> 8), static_cast<unsigned char>(crc)};
  return Base64(big_endian, sizeof(big_endian));
}

Result<Credentials> CreateExpressSession(const S3Client& client, const std::string& bucket, const Deadline& deadline) {
  std::string what = Cat("cannot open a session with the S3 Express bucket ", bucket);
  // Whoever may only read gets a session for reading.
  for (std::string mode : {"ReadWrite", "ReadOnly"}) {
    S3Request request{.query = {{"session", ""}}, .headers = {{"x-amz-create-session-mode", mode}}, .answer_is_xml = true};
    Result<S3Answer> answer = client.Send(request, deadline);
    if (!answer.ok()) return answer.status().Annotate(what);
    if (answer->refusal) {
      if (mode == "ReadWrite" && answer->refusal->answer.code == "AccessDenied") continue;
      return ToStatus(*answer->refusal, what, bucket, client.region());
    }
    Result<Credentials> session = ReadSessionAnswer(answer->response.body.AsText());
    if (!session.ok()) return session.status().Annotate(what);
    return session;
  }
  return Status(Code::kInternal, what);
}

}  // namespace headrace
