#include "store/s3/credentials_answer.h"
#include "store/s3/s3_fixture.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class S3ExpressTest : public S3StoreTest {
 protected:
  S3ExpressTest() {
    config.bucket = "lake--usw2-az1--x-s3";
    config.region = "us-west-2";
    config.endpoint = "";
    credentials->SetToken("own-token");
    http->Always([this](const HttpRequest& request) {
      if (!request.url.ends_with("?session")) return answer;
      std::string mode = ScriptedHttp::Sent(request, "x-amz-create-session-mode");
      if (mode == "ReadWrite" && read_only) return ScriptedHttp::Refuse(403, "AccessDenied");
      return ScriptedHttp::Answer(
          200, Cat("<CreateSessionResult><Credentials><SessionToken>session-", mode, ++sessions,
                   "</SessionToken><SecretAccessKey>s</SecretAccessKey><AccessKeyId>SK</AccessKeyId><Expiration>",
                   FormatTimestamp(RealClock().WallNow() + std::chrono::minutes(5)),
                   "</Expiration></Credentials></CreateSessionResult>"));
    });
  }

  HttpResponse answer = ScriptedHttp::Answer(200, "x");
  bool read_only = false;
  int sessions = 0;
};

TEST_F(S3ExpressTest, RequestsAreSignedWithASession) {
  ASSERT_TRUE(Get("k").ok());
  ASSERT_TRUE(Get("k").ok());
  auto sent = http->requests();
  ASSERT_EQ(sent.size(), 3u);  // one session for both
  EXPECT_EQ(sent[0].url, "https://lake--usw2-az1--x-s3.s3express-usw2-az1.us-west-2.amazonaws.com/?session");
  EXPECT_THAT(ScriptedHttp::Sent(sent[0], "authorization"),
              AllOf(HasSubstr("Credential=AKID/"), HasSubstr("/us-west-2/s3express/aws4_request")));
  EXPECT_EQ(ScriptedHttp::Sent(sent[0], "x-amz-security-token"), "own-token");
  EXPECT_EQ(sent[1].url, "https://lake--usw2-az1--x-s3.s3express-usw2-az1.us-west-2.amazonaws.com/runs/a/k");
  EXPECT_EQ(ScriptedHttp::Sent(sent[1], "x-amz-s3session-token"), "session-ReadWrite1");
  EXPECT_EQ(ScriptedHttp::Sent(sent[1], "x-amz-security-token"), "");
  EXPECT_THAT(ScriptedHttp::Sent(sent[1], "authorization"),
              AllOf(HasSubstr("Credential=SK/"), HasSubstr("x-amz-s3session-token")));
}

TEST_F(S3ExpressTest, SessionThatWasRefusedIsReplaced) {
  answer = ScriptedHttp::Refuse(400, "ExpiredToken");
  EXPECT_EQ(Get("k").code(), Code::kExpired);
  answer = ScriptedHttp::Answer(200, "x");
  ASSERT_TRUE(Get("k").ok());
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "x-amz-s3session-token"), "session-ReadWrite2");
  EXPECT_EQ(credentials->invalidated, 0);  // our own were never the matter
}

TEST_F(S3ExpressTest, ReaderNeedsPermissionToReadOnly) {
  read_only = true;
  ASSERT_TRUE(Get("k").ok());
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "x-amz-s3session-token"), "session-ReadOnly1");
}

TEST_F(S3ExpressTest, ListAsksForWholeFoldersAndSortsOutTheRest) {
  answer = ScriptedHttp::Answer(
      200,
      "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>runs/a/log/21</Key><Size>1</Size></Contents>"
      "<Contents><Key>runs/a/log/1</Key><Size>1</Size></Contents>"
      "<Contents><Key>runs/a/log/20</Key><Size>1</Size></Contents></ListBucketResult>");
  auto page = store().List({.prefix = "log/2", .start_after = "log/20"}, Deadline());
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_THAT(page->entries, ElementsAre(ListEntry{"log/21", 1}));
  EXPECT_THAT(http->last().url, AllOf(HasSubstr("prefix=runs%2Fa%2Flog%2F"), ::testing::Not(HasSubstr("log%2F2")),
                                      ::testing::Not(HasSubstr("start-after"))));
}

TEST_F(S3ExpressTest, NoSessionNoRequest) {
  http->Always(ScriptedHttp::Refuse(403, "InvalidAccessKeyId"));
  auto object = Get("k");
  EXPECT_EQ(object.code(), Code::kDenied);
  EXPECT_THAT(object.status().message(), HasSubstr("cannot open a session with the S3 Express bucket lake--usw2-az1--x-s3"));
  auto outcome = store().PutIfAbsent("k", Body("x"), Deadline());
  EXPECT_EQ(outcome.code(), Code::kDenied) << "nothing was sent, so nothing is in doubt";
}

}  // namespace
}  // namespace headrace
