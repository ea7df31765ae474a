// A value, or the reason why there is none.
#pragma once

#include <cassert>
#include <type_traits>
#include <utility>
#include <variant>

#include "headrace/status.h"

namespace headrace {

template <typename T>
class [[nodiscard]] Result {
 public:
  // From anything that is a T by nature, so that an optional's value or a unique_ptr to a derived class can be returned as it is.
  template <typename U = T>
    requires(std::is_convertible_v<U, T> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_same_v<std::remove_cvref_t<U>, Status>)
  Result(U&& value) : state_(std::in_place_index<1>, std::forward<U>(value)) {}
  Result(Status failure) : state_(std::in_place_index<0>, std::move(failure)) {
    assert(!std::get<0>(state_).ok() && "a Result without a value needs a reason");
  }

  bool ok() const { return state_.index() == 1; }
  Code code() const { return ok() ? Code::kOk : std::get<0>(state_).code(); }
  Status status() const& { return ok() ? Status::Ok() : std::get<0>(state_); }
  Status status() && { return ok() ? Status::Ok() : std::move(std::get<0>(state_)); }

  T& operator*() & { return std::get<1>(state_); }
  const T& operator*() const& { return std::get<1>(state_); }
  T&& operator*() && { return std::move(std::get<1>(state_)); }
  T* operator->() { return &std::get<1>(state_); }
  const T* operator->() const { return &std::get<1>(state_); }

 private:
  std::variant<Status, T> state_;
};

#define HR_CONCAT_INNER(a, b) a##b
#define HR_CONCAT(a, b) HR_CONCAT_INNER(a, b)

// Leaves the function with the failure of `expression`, a Status.
#define HR_RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                     \
    if (::headrace::Status hr_status_ = (expression); !hr_status_.ok()) return hr_status_; \
  } while (false)

// `target` gets the value of `expression`, a Result; or the function is left with its failure.
#define HR_ASSIGN_OR_RETURN(target, expression) HR_ASSIGN_OR_RETURN_INNER(HR_CONCAT(hr_result_, __LINE__), target, expression)
#define HR_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) return std::move(result).status();        \
  target = *std::move(result)

}  // namespace headrace
