#include "cli/stream_for_command.h"

#include <fmt/core.h>

#include "base/random.h"

namespace headrace::cli {

StreamContext ContextForCommand(const OpenedStore& opened) { return {opened.store, &SharedExecutor(), Random::FromEntropy()}; }

Result<std::shared_ptr<StreamLog>> OpenStreamForCommand(const std::string& uri, std::stop_token stop) {
  HR_ASSIGN_OR_RETURN(OpenedStore opened, OpenForCommand(uri));
  if (opened.uri.scheme == StoreUri::Scheme::kS3) HR_RETURN_IF_ERROR(Reach(opened, stop));
  Result<std::shared_ptr<StreamLog>> log = StreamLog::Open(ContextForCommand(opened), Deadline::OnlyStop(std::move(stop)));
  if (log.code() == Code::kNotFound) {
    return Status(Code::kNotFound, fmt::format("{}; `headrace create --help` says how to make one", log.status().message()));
  }
  return log;
}

CLI::Option* AddStream(CLI::App& app, std::string& uri) {
  return app.add_option("STREAM", uri, "the stream: s3://bucket/prefix, file:///path, a plain path")->required();
}

}  // namespace headrace::cli
