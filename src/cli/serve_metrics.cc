#include "cli/serve_metrics.h"

#include <fmt/core.h>

namespace headrace::cli {

void AddMetrics(CLI::App& app, std::string& words) {
  app.add_option("--metrics", words, "serve metrics for Prometheus at this address, e.g. 127.0.0.1:9100 (HEADRACE_METRICS)")
      ->type_name("HOST:PORT");
}

Result<std::unique_ptr<MetricsServer>> ServeMetrics(const std::string& words) {
  if (words.empty()) return ServeMetricsOfEnvironment();
  HR_ASSIGN_OR_RETURN(HostPort at, ParseHostPort(words));
  HR_ASSIGN_OR_RETURN(std::unique_ptr<MetricsServer> server, MetricsServer::Start(at, Metrics::Default()));
  if (at.port == 0) fmt::print(stderr, "metrics: {}\n", server->url());  // nobody could know otherwise
  return server;
}

}  // namespace headrace::cli
