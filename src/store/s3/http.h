// One HTTP request, one attempt.
//
// The engine behind it (curl_engine.h) keeps connections open and runs all transfers of the process on a few event
// threads; a call blocks its own thread until the answer is whole, the deadline passes or it is asked to stop.
// A status of 4xx or 5xx is an answer, not an error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headrace/bytes.h"
#include "headrace/deadline.h"
#include "headrace/result.h"
#include "headrace/store.h"

namespace headrace {

class BufferPool;

struct HttpRequest {
  std::string method = "GET";
  std::string url;  // percent-encoded already; sent as it is
  std::vector<std::pair<std::string, std::string>> headers;
  Body body;
  // Where a 2xx body shall land; empty: in a buffer of the engine's. More than fits is an error.
  std::span<std::byte> into = {};
  BufferPool* pool = nullptr;  // where the engine's buffer comes from, if not from the allocator
  Landing* landing = nullptr;  // takes the body of a 206 instead of all that
  std::optional<Duration> connect_timeout;  // metadata services must be given up quickly
};

struct HttpResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  Bytes body;
  uint64_t landed = 0;  // bytes that went to the landing, and not into the body

  // The first header of this name, or an empty string.
  const std::string& Header(std::string_view lower_case_name) const;
  bool ok() const { return status >= 200 && status < 300; }
};

// How far a request got before it failed: whether the other side can have acted on it.
struct HttpFailure {
  Status status;
  bool sent = true;       // false: certainly no byte of the request left this machine
  bool too_long = false;  // the answer was longer than `into`
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // `failure`, if given, says more about an error.
  virtual Result<HttpResponse> Do(const HttpRequest& request, const Deadline& deadline, HttpFailure* failure = nullptr) = 0;
};

}  // namespace headrace
