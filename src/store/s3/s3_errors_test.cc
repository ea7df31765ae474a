#include "store/s3/s3_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/s3/scripted_http.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Refusal Refused(int status, const std::string& code, ScriptedHttp::Headers headers = {}) {
  return ReadRefusal(ScriptedHttp::Refuse(status, code, "", headers));
}

Status Say(const Refusal& refusal) { return ToStatus(refusal, "cannot read s3://lake/a", "lake", "us-east-1"); }

struct Meaning {
  int status;
  std::string code;
  Code meaning;
  bool no_effect;
  std::string hint;
};

class S3Words : public ::testing::TestWithParam<Meaning> {};

TEST_P(S3Words, MeanWhatTheyShould) {
  const Meaning& want = GetParam();
  Refusal refusal = Refused(want.status, want.code);
  EXPECT_EQ(RefusalCode(refusal), want.meaning);
  EXPECT_EQ(HadNoEffect(refusal), want.no_effect);
  Status said = Say(refusal);
  EXPECT_EQ(said.code(), want.meaning);
  EXPECT_THAT(said.message(), AllOf(HasSubstr("cannot read s3://lake/a: the store answered"), HasSubstr(Cat(want.status)),
                                    HasSubstr(want.code), HasSubstr("because"), HasSubstr("request R1"), HasSubstr(want.hint)));
}

INSTANTIATE_TEST_SUITE_P(All, S3Words,
                         ::testing::Values(Meaning{403, "AccessDenied", Code::kDenied, true, "s3:ListBucket"},
                                           Meaning{403, "InvalidAccessKeyId", Code::kDenied, true, "AWS_ACCESS_KEY_ID"},
                                           Meaning{404, "XAdminUserNotFound", Code::kDenied, true, "AWS_ACCESS_KEY_ID"},
                                           Meaning{403, "SignatureDoesNotMatch", Code::kDenied, true, "AWS_SECRET_ACCESS_KEY"},
                                           Meaning{403, "RequestTimeTooSkewed", Code::kDenied, true, "clock"},
                                           Meaning{400, "ExpiredToken", Code::kExpired, true, "Renew the credentials"},
                                           Meaning{400, "InvalidToken", Code::kExpired, true, "AWS_SESSION_TOKEN"},
                                           Meaning{404, "NoSuchBucket", Code::kNotFound, true, "The bucket is called lake."},
                                           Meaning{503, "SlowDown", Code::kThrottled, false, ""},
                                           Meaning{503, "ServiceUnavailable", Code::kThrottled, false, ""},
                                           Meaning{429, "TooManyRequests", Code::kThrottled, false, ""},
                                           Meaning{500, "InternalError", Code::kUnavailable, false, ""},
                                           Meaning{200, "InternalError", Code::kUnavailable, false, ""},
                                           Meaning{409, "ConditionalRequestConflict", Code::kUnavailable, false, ""},
                                           Meaning{409, "OperationAborted", Code::kUnavailable, false, ""},
                                           Meaning{409, "SomethingElse", Code::kUnavailable, false, ""},
                                           Meaning{409, "ObjectParentIsFile", Code::kInvalidArgument, true,
                                                   "folder of other keys"},
                                           Meaning{400, "RequestTimeout", Code::kUnavailable, false, ""},
                                           Meaning{400, "BadDigest", Code::kUnavailable, true, "damaged on the way"},
                                           Meaning{400, "EntityTooLarge", Code::kInvalidArgument, true, "multipart_threshold"},
                                           Meaning{400, "SomethingNew", Code::kInvalidArgument, true, ""},
                                           Meaning{501, "NotImplemented", Code::kUnsupported, true, "headrace probe"},
                                           Meaning{507, "XMinioStorageFull", Code::kFull, true, "Make room"},
                                           Meaning{301, "PermanentRedirect", Code::kInvalidArgument, true, "AWS_REGION"},
                                           Meaning{599, "Whatever", Code::kUnavailable, false, ""}));

TEST(ToStatus, NamesTheRightRegion) {
  for (Refusal refusal : {Refused(301, "PermanentRedirect", {{"x-amz-bucket-region", "eu-west-3"}}),
                          ReadRefusal(ScriptedHttp::Refuse(400, "AuthorizationHeaderMalformed", "<Region>eu-west-3</Region>")),
                          Refused(403, "AccessDenied", {{"x-amz-bucket-region", "eu-west-3"}})}) {
    Status said = Say(refusal);
    EXPECT_EQ(said.code(), Code::kInvalidArgument);
    EXPECT_THAT(said.message(), HasSubstr("The bucket lake is in the region eu-west-3, not in us-east-1: set ?region=eu-west-3"));
  }
  Status same = Say(Refused(403, "AccessDenied", {{"x-amz-bucket-region", "us-east-1"}}));
  EXPECT_EQ(same.code(), Code::kDenied);
  EXPECT_THAT(same.message(), Not(HasSubstr("is in the region")));
}

TEST(ToStatus, SaysWhatTheStoresClockSays) {
  EXPECT_THAT(Say(Refused(403, "RequestTimeTooSkewed", {{"date", "Sun, 15 Nov 2026 11:05:09 GMT"}})).message(),
              HasSubstr("The store's clock says Sun, 15 Nov 2026 11:05:09 GMT."));
}

TEST(ToStatus, PassesOnWhenToComeBack) {
  EXPECT_EQ(Say(Refused(503, "SlowDown", {{"retry-after", "7"}})).retry_after(), std::chrono::seconds(7));
  EXPECT_EQ(Say(Refused(503, "SlowDown", {{"retry-after", "Sun, 15 Nov 2026 11:05:09 GMT"}})).retry_after(), std::nullopt);
  EXPECT_EQ(Say(Refused(503, "SlowDown", {{"retry-after", "99999999999"}})).retry_after(), std::chrono::hours(1));
}

TEST(ToStatus, AnswerWithoutWordsIsNamedByItsStatus) {
  for (auto [status, code] : {std::pair{401, Code::kDenied},
                              {403, Code::kDenied},
                              {404, Code::kNotFound},
                              {405, Code::kUnsupported},
                              {408, Code::kUnavailable},
                              {413, Code::kInvalidArgument},
                              {429, Code::kThrottled},
                              {500, Code::kUnavailable},
                              {502, Code::kUnavailable},
                              {503, Code::kUnavailable},
                              {504, Code::kUnavailable},
                              {507, Code::kFull}}) {
    Status said = Say(ReadRefusal(ScriptedHttp::Answer(status, "<html>nginx</html>")));
    EXPECT_EQ(said.code(), code) << status;
    EXPECT_THAT(said.message(), HasSubstr(Cat("the store answered ", status, ".")));
  }
}

// Something between us and the store can make these up after the store did its work.
TEST(HadNoEffect, IsNeverClaimedForWhatAProxyMaySay) {
  for (int status : {200, 204, 404, 408, 409, 412, 429, 499 + 1, 502, 503, 504, 520, 100, 0}) {
    EXPECT_FALSE(HadNoEffect(ReadRefusal(ScriptedHttp::Answer(status)))) << status;
  }
}

TEST(ToStatus, RedirectSaysWhereToWithoutTheQuery) {
  Status said = Say(ReadRefusal(ScriptedHttp::Answer(302, "", {{"location", "https://login.example.com/?token=secret"}})));
  EXPECT_THAT(said.message(), AllOf(HasSubstr("https://login.example.com/"), Not(HasSubstr("secret"))));
}

}  // namespace
}  // namespace headrace
