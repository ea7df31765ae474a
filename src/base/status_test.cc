#include "headrace/status.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "headrace/result.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;

TEST(Status, SuccessHoldsNothing) {
  Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.ToString(), "Ok");
  EXPECT_FALSE(status.retry_after());
  EXPECT_TRUE(Status::Ok().ok());
  EXPECT_TRUE(Status(Code::kOk, "all is well").ok());
}

TEST(Status, FailureSaysWhatAndWhy) {
  Status status(Code::kUnavailable, "GET s3://lake/a: connection reset");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message(), "GET s3://lake/a: connection reset");
  EXPECT_EQ(status.ToString(), "Unavailable: GET s3://lake/a: connection reset");
}

TEST(Status, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::kInternal); ++code) names.insert(CodeName(static_cast<Code>(code)));
  EXPECT_EQ(names.size(), static_cast<size_t>(Code::kInternal) + 1);
  EXPECT_EQ(CodeName(Code::kInvalidArgument), "InvalidArgument");
  EXPECT_EQ(CodeName(Code::kOutcomeUnknown), "OutcomeUnknown");
  EXPECT_EQ(CodeName(Code::kInternal), "Internal");
}

TEST(Status, CopiesAreIndependent) {
  Status first(Code::kFull, "no space");
  Status copy = first;
  first = Status::Ok();
  EXPECT_EQ(copy.ToString(), "Full: no space");
  Status& alias = copy;
  copy = alias;
  EXPECT_EQ(copy.ToString(), "Full: no space");
  Status moved = std::move(copy);
  EXPECT_EQ(moved.ToString(), "Full: no space");
}

TEST(Status, AnnotationKeepsCodeAndRetryAfter) {
  Status status = Status(Code::kThrottled, "503 SlowDown").WithRetryAfter(3s);
  Status seen = status.Annotate("cannot open s3://lake/run-7");
  EXPECT_EQ(seen.ToString(), "Throttled: cannot open s3://lake/run-7: 503 SlowDown");
  EXPECT_EQ(seen.retry_after(), 3s);
  EXPECT_EQ(status.message(), "503 SlowDown") << "the original stays as it is";
  EXPECT_TRUE(Status::Ok().Annotate("anything").ok());
  EXPECT_FALSE(Status::Ok().WithRetryAfter(1s).retry_after());
}

TEST(Result, IsAValueOrAReason) {
  Result<std::string> value = std::string("here");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value, "here");
  EXPECT_EQ(value->size(), 4u);
  EXPECT_EQ(value.code(), Code::kOk);
  EXPECT_TRUE(value.status().ok());

  Result<std::string> failure = Status(Code::kNotFound, "no such bucket");
  ASSERT_FALSE(failure.ok());
  EXPECT_EQ(failure.code(), Code::kNotFound);
  EXPECT_EQ(failure.status().message(), "no such bucket");
  EXPECT_EQ(std::move(failure).status().message(), "no such bucket");
}

TEST(Result, HoldsWhatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 7);
}

Status FailIf(bool fail) { return fail ? Status(Code::kDenied, "no") : Status::Ok(); }

Result<std::unique_ptr<int>> Give(int value) {
  if (value < 0) return Status(Code::kInvalidArgument, "negative");
  return std::make_unique<int>(value);
}

Result<int> Sum(int a, int b, bool fail, int& reached) {
  HR_RETURN_IF_ERROR(FailIf(fail));
  ++reached;
  HR_ASSIGN_OR_RETURN(std::unique_ptr<int> first, Give(a));
  ++reached;
  std::unique_ptr<int> second;
  HR_ASSIGN_OR_RETURN(second, Give(b));
  ++reached;
  return *first + *second;
}

TEST(Result, MacrosLeaveWithTheFirstFailure) {
  int reached = 0;
  Result<int> sum = Sum(1, 2, false, reached);
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ(*sum, 3);
  EXPECT_EQ(reached, 3);

  reached = 0;
  EXPECT_EQ(Sum(1, 2, true, reached).status().ToString(), "Denied: no");
  EXPECT_EQ(reached, 0);
  EXPECT_EQ(Sum(-1, 2, false, reached).status().ToString(), "InvalidArgument: negative");
  EXPECT_EQ(reached, 1);
  reached = 0;
  EXPECT_EQ(Sum(1, -2, false, reached).status().ToString(), "InvalidArgument: negative");
  EXPECT_EQ(reached, 2);
}

}  // namespace
}  // namespace headrace
