// Serves the metrics of a process over HTTP: GET /metrics in Prometheus' text format, GET /healthz. Nothing else is answered.
//
//   HR_ASSIGN_OR_RETURN(std::unique_ptr<MetricsServer> server, MetricsServer::Start("127.0.0.1:9100", Metrics::Default()));
//
// It is there for whoever may connect: bind it to an address that only those reach who shall. One thread, a few connections at once, requests of
// at most 8 KiB, a few seconds for each, so that no client can hold anything up. The destructor closes everything at once.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/metrics.h"
#include "headrace/result.h"

namespace headrace {

struct HostPort {
  std::string host;  // all interfaces if empty
  uint16_t port = 0;  // the system chooses if 0

  std::string ToString() const;
};
// HOST:PORT, [IPv6]:PORT or :PORT.
Result<HostPort> ParseHostPort(const std::string& text);

class MetricsServer {
 public:
  // kConflict if the port is taken, and the `ports` − 1 after it too.
  static Result<std::unique_ptr<MetricsServer>> Start(const HostPort& at, Metrics& metrics, uint16_t ports = 1);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // Where it is served: port 0 is none any more.
  const HostPort& at() const { return at_; }
  // "http://127.0.0.1:9100/metrics"
  std::string url() const;

 private:
  MetricsServer(HostPort at, int listener, int wake, Metrics& metrics);
  void Serve();

  const HostPort at_;
  const int listener_;
  const int wake_;  // readable when it is time to end
  Metrics& metrics_;
  std::thread thread_;
};

// What HEADRACE_METRICS asks for, nothing if it is unset or empty. A process that finds its port taken has the next free one of 64, and one that cannot
// serve at all goes on without: many processes of a machine share the variable, and none shall die of it. `shift` is added to the port.
std::unique_ptr<MetricsServer> ServeMetricsOfEnvironment(uint16_t shift = 0);
inline constexpr uint16_t kPortsTried = 64;

}  // namespace headrace
