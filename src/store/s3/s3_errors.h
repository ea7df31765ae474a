// What an answer other than success means: a table of S3's words, and of HTTP's where S3 said nothing.
//
// Two questions are asked of a refusal. Which `Code`: whether to try again, and what to tell people. And for creates: did it
// certainly have no effect? Only a plain refusal has none. A 5xx, a 409, a 429 or anything unheard of may come
// from something between us and the store, after the store had done its work: those leave it open.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "headrace/clock.h"
#include "headrace/status.h"
#include "store/s3/http.h"
#include "store/s3/s3_answers.h"

namespace headrace {

struct Refusal {
  int status = 0;
  ErrorAnswer answer = {};
  std::string location = {};            // of a redirect
  std::string store_date = {};          // what the store's clock says
  std::optional<Duration> retry_after = {};
};

// From an answer whose status or body says no.
Refusal ReadRefusal(const HttpResponse& response);

// Which of our codes it is.
Code RefusalCode(const Refusal& refusal);

// True if the request certainly had no effect and never will.
bool HadNoEffect(const Refusal& refusal);

// "cannot read s3://lake/a: the store answered 403 AccessDenied (Access Denied; request 4442587FB7D0A2F9). <what to do>"
// `region` is the one that we signed for.
Status ToStatus(const Refusal& refusal, std::string_view what, std::string_view bucket, std::string_view region);

}  // namespace headrace
