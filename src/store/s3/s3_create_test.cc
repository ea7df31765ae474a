// What became of a put, for every way in which it can be answered.
#include "base/crc32c.h"
#include "base/hash.h"
#include "store/s3/s3_fixture.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class S3CreateTest : public S3StoreTest {
 protected:
  Result<PutOutcome> Create(Body body = Body("body")) { return store().PutIfAbsent("k", body, Deadline()); }
};

TEST_F(S3CreateTest, CarriesTheConditionAndTheChecksums) {
  auto outcome = Create(Body("123456789"));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->kind, PutOutcome::kCreated);
  HttpRequest sent = http->last();
  EXPECT_EQ(sent.method, "PUT");
  EXPECT_EQ(ScriptedHttp::Sent(sent, "if-none-match"), "*");
  EXPECT_EQ(ScriptedHttp::Sent(sent, "x-amz-checksum-crc32c"), "4waSgw==");  // 0xE3069283, the check value of CRC32C
  EXPECT_EQ(ScriptedHttp::Sent(sent, "x-amz-content-sha256"), Sha256Hex("123456789"));
  EXPECT_THAT(ScriptedHttp::Sent(sent, "authorization"), HasSubstr("if-none-match;x-amz-checksum-crc32c;x-amz-content-sha256"));
}

TEST_F(S3CreateTest, PutHasNoCondition) {
  ASSERT_TRUE(store().Put("k", Body("x"), Deadline()).ok());
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "if-none-match"), "");
}

TEST_F(S3CreateTest, OverTlsTheBodyIsNotHashedTwice) {
  config.endpoint = "https://minio.example.com";
  ASSERT_TRUE(Create().ok());
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
  ASSERT_TRUE(Create(Body()).ok());
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "x-amz-content-sha256"),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(S3CreateTest, TakenKeyIsAnAnswer) {
  http->Always(ScriptedHttp::Refuse(412, "PreconditionFailed"));
  EXPECT_EQ(Create()->kind, PutOutcome::kExists);
}

TEST_F(S3CreateTest, InDoubtIsUnknown) {
  for (HttpResponse answer :
       {ScriptedHttp::Refuse(409, "ConditionalRequestConflict"), ScriptedHttp::Refuse(409, "OperationAborted"),
        ScriptedHttp::Refuse(500, "InternalError"), ScriptedHttp::Answer(502, "bad gateway"),
        ScriptedHttp::Refuse(503, "SlowDown"), ScriptedHttp::Answer(504), ScriptedHttp::Answer(429), ScriptedHttp::Answer(408),
        ScriptedHttp::Refuse(404, "NoSuchKey"), ScriptedHttp::Answer(404), ScriptedHttp::Refuse(400, "RequestTimeout"),
        ScriptedHttp::Answer(0)}) {
    http->Always(answer);
    auto outcome = Create();
    ASSERT_TRUE(outcome.ok()) << answer.status;
    EXPECT_EQ(outcome->kind, PutOutcome::kUnknown) << answer.status;
    EXPECT_THAT(outcome->reason.message(), AllOf(HasSubstr("cannot create s3://lake/runs/a/k"), HasSubstr(Cat(answer.status))));
  }
}

TEST_F(S3CreateTest, LostAnswerIsUnknown) {
  for (Code code : {Code::kUnavailable, Code::kTimeout, Code::kCancelled}) {
    http->AlwaysFail(Status(code, "lost"), true);
    auto outcome = Create();
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->kind, PutOutcome::kUnknown);
    EXPECT_EQ(outcome->reason.code(), code);
  }
}

TEST_F(S3CreateTest, WhatWasNeverSentIsAnError) {
  http->AlwaysFail(Status(Code::kUnavailable, "connection refused"), false);
  auto outcome = Create();
  EXPECT_EQ(outcome.code(), Code::kUnavailable);
  EXPECT_EQ(outcome.status().message(), "cannot create s3://lake/runs/a/k: connection refused");
}

TEST_F(S3CreateTest, PlainRefusalIsAnError) {
  for (auto& [answer, code] :
       std::vector<std::pair<HttpResponse, Code>>{{ScriptedHttp::Refuse(403, "AccessDenied"), Code::kDenied},
                                                  {ScriptedHttp::Answer(403), Code::kDenied},
                                                  {ScriptedHttp::Answer(401), Code::kDenied},
                                                  {ScriptedHttp::Refuse(400, "ExpiredToken"), Code::kExpired},
                                                  {ScriptedHttp::Refuse(404, "NoSuchBucket"), Code::kNotFound},
                                                  {ScriptedHttp::Refuse(400, "BadDigest"), Code::kUnavailable},
                                                  {ScriptedHttp::Refuse(400, "InvalidArgument"), Code::kInvalidArgument},
                                                  {ScriptedHttp::Refuse(501, "NotImplemented"), Code::kUnsupported},
                                                  {ScriptedHttp::Refuse(507, "XMinioStorageFull"), Code::kFull},
                                                  {ScriptedHttp::Refuse(301, "PermanentRedirect"), Code::kInvalidArgument}}) {
    http->Always(answer);
    EXPECT_EQ(Create().code(), code) << answer.status;
  }
}

TEST_F(S3CreateTest, ThrottlingSaysWhenToComeBack) {
  http->Always(ScriptedHttp::Refuse(503, "SlowDown", "", {{"retry-after", "3"}}));
  auto outcome = Create();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->kind, PutOutcome::kUnknown);
  EXPECT_EQ(outcome->reason.code(), Code::kThrottled);
  EXPECT_EQ(outcome->reason.retry_after(), std::chrono::seconds(3));
  Status put = store().Put("k", Body("x"), Deadline());
  EXPECT_EQ(put.code(), Code::kThrottled);
  EXPECT_EQ(put.retry_after(), std::chrono::seconds(3));
}

TEST_F(S3CreateTest, ExpiredCredentialsAreNotUsedAgain) {
  http->Always(ScriptedHttp::Refuse(403, "ExpiredToken"));
  EXPECT_EQ(Create().code(), Code::kExpired);
  EXPECT_EQ(credentials->invalidated, 1);
}

// One call is one attempt, whatever comes back.
TEST_F(S3CreateTest, NothingIsSentTwice) {
  for (HttpResponse answer : {ScriptedHttp::Answer(500), ScriptedHttp::Answer(503), ScriptedHttp::Refuse(400, "ExpiredToken"),
                              ScriptedHttp::Refuse(307, "TemporaryRedirect", "", {{"location", "http://127.0.0.1:1/"}})}) {
    size_t before = http->requests().size();
    http->Always(answer);
    Create().ok();
    EXPECT_EQ(http->requests().size(), before + 1);
  }
}

}  // namespace
}  // namespace headrace
