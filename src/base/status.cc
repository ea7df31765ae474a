#include "headrace/status.h"

#include <array>

#include "base/text.h"

namespace headrace {

std::string_view CodeName(Code code) {
  static constexpr std::array<std::string_view, 18> kNames = {
      "Ok",      "InvalidArgument", "Unsupported", "NotFound", "Trimmed",        "Conflict", "Fenced", "Corrupt",   "Denied",
      "Expired", "Throttled",       "Unavailable", "Timeout",  "OutcomeUnknown", "Stalled",  "Full",   "Cancelled", "Internal"};
  static_assert(kNames.size() == static_cast<size_t>(Code::kInternal) + 1);
  return kNames[static_cast<size_t>(code)];
}

Status::Status(Code code, std::string message) {
  if (code != Code::kOk) failure_ = std::make_unique<Failure>(Failure{code, std::move(message), std::nullopt});
}

Status::Status(const Status& other) : failure_(other.failure_ ? std::make_unique<Failure>(*other.failure_) : nullptr) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) failure_ = other.failure_ ? std::make_unique<Failure>(*other.failure_) : nullptr;
  return *this;
}

const std::string& Status::message() const {
  static const std::string kNone;
  return ok() ? kNone : failure_->message;
}

std::optional<std::chrono::nanoseconds> Status::retry_after() const { return ok() ? std::nullopt : failure_->retry_after; }

Status Status::WithRetryAfter(std::chrono::nanoseconds wait) && {
  if (failure_) failure_->retry_after = wait;
  return std::move(*this);
}

Status Status::Annotate(std::string_view what) const {
  Status annotated = *this;
  if (annotated.failure_) annotated.failure_->message = Cat(what, ": ", annotated.failure_->message);
  return annotated;
}

std::string Status::ToString() const { return ok() ? "Ok" : Cat(CodeName(code()), ": ", failure_->message); }

}  // namespace headrace
