// Where all HTTP of a process runs: a few event threads, each with its own libcurl multi handle and connections.
//
// A call hands its request to the thread with the least to do and sleeps until the answer is whole. Bodies go straight
// between the socket and the caller's memory. Connections are kept open and used again (HTTP/1.1).
//
// One call is one attempt. libcurl by itself sends a request again when a kept connection turns out to be dead; here that
// second sending is stopped before it begins, because nobody could tell any more what became of a conditional put.
//
// When `Do` returns, for whatever reason, the engine has let go of the request's memory.
//
// Environment proxies (HTTPS_PROXY, NO_PROXY, …) are honoured, except for loopback and link-local addresses, where the
// machine itself and metadata services live.
//
// Thread-safe. Does not survive `fork`: in the child every call is an error, and `SharedCurlEngine` gives a new engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "headrace/clock.h"
#include "headrace/result.h"
#include "store/s3/http.h"

namespace headrace {

struct CurlOptions {
  size_t event_threads = 2;
  // Over all threads; a request beyond that waits for its turn.
  size_t max_connections = 1024;
  Duration connect_timeout = std::chrono::seconds(10);
  // A transfer on which no byte moves for so long is given up.
  Duration stall_timeout = std::chrono::seconds(30);
  // Certificates to trust, as a PEM file; empty: those of the system.
  std::string ca_file;
  // Names that nobody shall be asked for: "host:port:address,address", as `curl --resolve` has it.
  std::vector<std::string> resolve;
  // What libcurl asks the kernel for in one go.
  size_t receive_bytes = 256 << 10;
  size_t send_bytes = 256 << 10;

  friend bool operator==(const CurlOptions&, const CurlOptions&) = default;
};

// An engine of its own. Fails with kInvalidArgument if `ca_file` cannot be read.
Result<std::shared_ptr<HttpClient>> MakeCurlEngine(const CurlOptions& options = {});

// The process's engine for these options: made when first asked for, gone with its last user.
Result<std::shared_ptr<HttpClient>> SharedCurlEngine(const CurlOptions& options = {});

}  // namespace headrace
