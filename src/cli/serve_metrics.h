// `--metrics HOST:PORT` and HEADRACE_METRICS, for commands that run for long.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/metrics_server.h"

namespace headrace::cli {

void AddMetrics(CLI::App& app, std::string& words);

// `words`: of the option. What is asked for by name must work; the variable is a wish (ServeMetricsOfEnvironment). Nothing if nobody asked.
Result<std::unique_ptr<MetricsServer>> ServeMetrics(const std::string& words);

}  // namespace headrace::cli
