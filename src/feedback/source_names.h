// Which sources a stream has, asked for beside a training loop.
//
// A stream that was made from a recipe knows; any other takes every name. Sources may be added while a stream lives, so a name that is
// not known is looked for once more before it is refused. That is the only thing here that waits, and never for longer than `patience`:
// a store that does not answer in time lets the name pass, and is not waited for again for a while.
//
// Thread-safe.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/executor.h"
#include "stream/stream_log.h"

namespace headrace {

class SourceNames : public std::enable_shared_from_this<SourceNames> {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(250);
  static constexpr Duration kPause = std::chrono::seconds(30);

  static std::shared_ptr<SourceNames> Make(std::shared_ptr<StreamLog> log, Executor& executor);

  // kInvalidArgument if one of them is certainly no source of the stream.
  Status Check(const std::vector<std::string_view>& names);
  // Cancels what is on its way.
  void Stop() { stop_.request_stop(); }

 private:
  SourceNames(std::shared_ptr<StreamLog> log, Executor& executor);
  const std::string_view* Unknown(const std::vector<std::string_view>& names) const;
  void Look();

  std::shared_ptr<StreamLog> log_;
  Executor& executor_;
  std::stop_source stop_;

  std::mutex mutex_;
  std::unique_ptr<Signal> changed_;
  std::set<std::string, std::less<>> names_;
  bool looking_ = false;
  uint64_t looks_ = 0;  // that brought an answer
  Instant not_before_{};
};

// The names that the newest mixture that this process knows has, or the recipe; none if the stream was not made from one.
Result<std::vector<std::string>> ReadSourceNames(StreamLog& log, const Deadline& deadline);

}  // namespace headrace
