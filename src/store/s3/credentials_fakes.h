// Surroundings and an HTTP client that tests make up.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "headrace/clock.h"
#include "store/s3/credentials.h"

namespace headrace {

struct FakeSurroundings {
  std::map<std::string, std::string> env = {{"HOME", "/home/ann"}, {"AWS_EC2_METADATA_DISABLED", "true"}};
  std::map<std::string, std::string> files;
  std::map<std::string, Status> unreadable;
  std::map<std::string, Result<std::string>> commands;
  int commands_run = 0;

  // Sees every later change.
  Surroundings Get() {
    Surroundings surroundings;
    surroundings.env = [this](const std::string& name) -> std::optional<std::string> {
      auto found = env.find(name);
      if (found == env.end() || found->second.empty()) return std::nullopt;
      return found->second;
    };
    surroundings.read = [this](const std::string& path) -> Result<std::optional<std::string>> {
      if (auto found = unreadable.find(path); found != unreadable.end()) return found->second;
      auto found = files.find(path);
      return found == files.end() ? std::optional<std::string>() : std::optional(found->second);
    };
    surroundings.run = [this](const std::string& command, const Deadline&) -> Result<std::string> {
      ++commands_run;
      auto found = commands.find(command);
      if (found == commands.end()) return Status(Code::kInvalidArgument, "the command ended with status 127 and said: not found");
      return found->second;
    };
    return surroundings;
  }
};

// Answers by "METHOD url"; whoever is not known refuses the connection. Each answer takes `latency`.
class FakeHttp final : public HttpClient {
 public:
  using Handler = std::function<Result<HttpResponse>(const HttpRequest&)>;

  explicit FakeHttp(Clock& clock) : clock_(clock) {}

  void On(const std::string& method_and_url, Handler handler) { handlers_[method_and_url] = std::move(handler); }
  void On(const std::string& method_and_url, int status, std::string body) {
    On(method_and_url, [status, body](const HttpRequest&) { return Answer(status, body); });
  }
  static Result<HttpResponse> Answer(int status, std::string body) {
    HttpResponse response;
    response.status = status;
    response.body = Bytes::FromString(std::move(body));
    return response;
  }

  Result<HttpResponse> Do(const HttpRequest& request, const Deadline& deadline, HttpFailure* = nullptr) override {
    requests.push_back(request);
    if (latency > Duration::zero()) clock_.SleepUntil(std::min(clock_.Now() + latency, deadline.at()), deadline.stop());
    Status late = deadline.Check(clock_, Cat(request.method, " ", request.url));
    if (!late.ok()) return late;
    auto found = handlers_.find(Cat(request.method, " ", request.url));
    if (found == handlers_.end())
      return Status(Code::kUnavailable, Cat(request.method, " ", request.url, ": connection refused"));
    return found->second(request);
  }

  std::vector<HttpRequest> requests;
  Duration latency{};

 private:
  Clock& clock_;
  std::map<std::string, Handler> handlers_;
};

inline std::string HeaderOf(const HttpRequest& request, const std::string& name) {
  for (const auto& [key, value] : request.headers) {
    if (Lower(key) == name) return value;
  }
  return "(none)";
}

}  // namespace headrace
