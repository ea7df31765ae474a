// The stream that a command was given.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <stop_token>
#include <string>

#include "cli/open_for_command.h"
#include "stream/stream_log.h"

namespace headrace::cli {

// What a stream works with in a command: the opened store, the threads of this process, and true randomness.
StreamContext ContextForCommand(const OpenedStore& opened);

// Wrong credentials and dead servers show after seconds; a place without a stream says so, and how to make one.
Result<std::shared_ptr<StreamLog>> OpenStreamForCommand(const std::string& uri, std::stop_token stop);

// The option that every command on a stream has.
CLI::Option* AddStream(CLI::App& app, std::string& uri);

}  // namespace headrace::cli
