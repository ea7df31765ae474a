// What became of something that can fail.
//
// A `Status` is about the person who reads it: its message says what was being done, to which object, what came back
// and what to do next. Its code is for programs: retry policies, exit codes and Python exceptions go by it.
//
// "Not found" and "already exists" are answers of a store, not failures, and have types of their own (store.h).
//
// Cheap to move; success holds no memory. Not thread-safe, like any value.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace headrace {

enum class Code {
  kOk = 0,
  kInvalidArgument,  // the words were wrong; no retry helps
  kUnsupported,      // right words for something that this version or this store does not have
  kNotFound,         // what had to be there is not (a bucket, a stream, a pin)
  kTrimmed,          // it was there, and retention removed it
  kConflict,         // somebody else holds the place
  kFenced,           // somebody else took over; this writer must stop
  kCorrupt,          // the bytes are not the ones that were written
  kDenied,           // credentials are missing, wrong or not allowed to do this
  kExpired,          // credentials were right and have run out: fetch new ones and try again
  kThrottled,        // the store asks for fewer requests (429, 503 SlowDown)
  kUnavailable,      // the store failed, or the answer was lost or cut short
  kTimeout,          // the deadline passed
  kOutcomeUnknown,   // nobody can tell yet whether it happened: keep what was staged
  kStalled,          // others did not make progress for too long
  kFull,             // no space left, or a quota is used up
  kCancelled,        // the caller asked to stop
  kInternal,         // a defect of Headrace
};

// "InvalidArgument", "Corrupt", …: the name that logs, metrics and Python exceptions use.
std::string_view CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message);

  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  static Status Ok() { return {}; }

  bool ok() const { return failure_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : failure_->code; }
  const std::string& message() const;

  // The store's own wish of when to come back (Retry-After), if it had one.
  std::optional<std::chrono::nanoseconds> retry_after() const;
  Status WithRetryAfter(std::chrono::nanoseconds wait) &&;

  // The same failure seen from one level higher: "cannot open s3://lake/run-7: " + message.
  Status Annotate(std::string_view what) const;

  // "Unavailable: GET s3://…: connection reset", or "Ok".
  std::string ToString() const;

 private:
  struct Failure {
    Code code;
    std::string message;
    std::optional<std::chrono::nanoseconds> retry_after;
  };
  std::unique_ptr<Failure> failure_;
};

}  // namespace headrace
