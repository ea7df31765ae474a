// For tests: an HTTP client that answers as it is told, and keeps what it was asked.
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "store/s3/credentials.h"
#include "store/s3/http.h"

namespace headrace {

class ScriptedHttp final : public HttpClient {
 public:
  using Script = std::function<Result<HttpResponse>(const HttpRequest&)>;
  using Headers = std::vector<std::pair<std::string, std::string>>;

  static HttpResponse Answer(int status, std::string body = "", Headers headers = {}) {
    HttpResponse response;
    response.status = status;
    response.headers = std::move(headers);
    if (response.Header("content-length").empty()) response.headers.emplace_back("content-length", Cat(body.size()));
    response.body = Bytes::FromString(std::move(body));
    return response;
  }
  static HttpResponse Refuse(int status, const std::string& code, const std::string& more = "", Headers headers = {}) {
    return Answer(status,
                  Cat("<Error><Code>", code, "</Code><Message>because.</Message><RequestId>R1</RequestId>", more, "</Error>"),
                  headers);
  }

  // Answers every request by `script`, at once.
  void Always(Script script) { script_ = std::move(script); }
  void Always(HttpResponse response) {
    Always([response](const HttpRequest&) { return response; });
  }
  // Fails every request.
  void AlwaysFail(Status status, bool sent) {
    sent_ = sent;
    Always([status](const HttpRequest&) -> Result<HttpResponse> { return status; });
  }

  Result<HttpResponse> Do(const HttpRequest& request, const Deadline&, HttpFailure* failure) override {
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    Result<HttpResponse> answer = script_(request);
    if (!answer.ok()) {
      if (failure != nullptr) *failure = {.status = answer.status(), .sent = sent_};
      return answer;
    }
    if (!answer->ok() || request.into.empty()) return answer;
    if (answer->body.size() > request.into.size()) {
      Status status(Code::kInvalidArgument, "the answer is too long");
      if (failure != nullptr) *failure = {.status = status, .sent = true, .too_long = true};
      return status;
    }
    std::ranges::copy(answer->body.span(), request.into.begin());
    answer->body = Bytes::Borrow(request.into.first(answer->body.size()));
    return answer;
  }

  std::vector<HttpRequest> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  HttpRequest last() const { return requests().back(); }

  // The value of a header that was sent, empty if it was not.
  static std::string Sent(const HttpRequest& request, std::string_view name) {
    for (const auto& [key, value] : request.headers) {
      if (Lower(key) == name) return value;
    }
    return {};
  }

 private:
  Script script_ = [](const HttpRequest&) { return Answer(200); };
  bool sent_ = true;
  mutable std::mutex mutex_;
  std::vector<HttpRequest> requests_;
};

// Hands out the same keys, and counts refusals.
class FixedCredentials final : public CredentialSource {
 public:
  FixedCredentials() {
    credentials_.access_key_id = "AKID";
    credentials_.secret_access_key = "secret";
  }
  Result<Credentials> Get(const Deadline&) override { return credentials_; }
  void Invalidate(const Credentials& refused) override { invalidated += refused.access_key_id == credentials_.access_key_id; }
  void SetToken(std::string token) { credentials_.session_token = std::move(token); }

  int invalidated = 0;

 private:
  Credentials credentials_;
};

}  // namespace headrace
