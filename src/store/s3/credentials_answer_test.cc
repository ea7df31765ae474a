#include "store/s3/credentials_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Read(std::string_view text) {
  Result<WallTime> time = ParseTimestamp(text);
  return time.ok() ? FormatTimestamp(*time) : "refused";
}

TEST(Timestamp, IsReadInTheFormsThatServicesUse) {
  EXPECT_EQ(Read("2026-01-02T03:04:05Z"), "2026-01-02T03:04:05Z");
  EXPECT_EQ(Read("2026-01-02T03:04:05.678901Z"), "2026-01-02T03:04:05Z");
  EXPECT_EQ(Read("2026-01-02 03:04:05+00:00"), "2026-01-02T03:04:05Z");
  EXPECT_EQ(Read("2026-01-02T00:30:00+01:00"), "2026-01-01T23:30:00Z");
  EXPECT_EQ(Read("2026-02-28T22:30:00-0530"), "2026-03-01T04:00:00Z");
  EXPECT_EQ(Read("2028-02-29T00:00:00UTC"), "2028-02-29T00:00:00Z");
}

TEST(Timestamp, FarInTheFutureDoesNotOverflow) {
  Result<WallTime> never = ParseTimestamp("9999-12-31T23:59:59Z");
  ASSERT_TRUE(never.ok());
  EXPECT_GT(*never, WallTime(std::chrono::hours(24 * 365 * 200)));
}

TEST(Timestamp, AnythingElseIsRefused) {
  for (const char* text : {"", "tomorrow", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z", "2026-02-30T03:04:05Z",
                           "2026-01-02T24:04:05Z", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05Z ", "2026-01-02T03:04:05+1:00",
                           "1799107200", "1969-12-31T23:59:59Z", "2026-1-02T03:04:05Z"}) {
    EXPECT_EQ(Read(text), "refused") << text;
  }
}

constexpr char kAnswer[] =
    R"({"Code": "Success", "AccessKeyId": "ASIA1", "SecretAccessKey": "hush", "Token": "mum", "Expiration": "2026-01-02T03:04:05Z"})";

TEST(CredentialsJson, HasAllParts) {
  Result<Credentials> credentials = ParseCredentialsJson(kAnswer, "Token", "instance role a");
  ASSERT_TRUE(credentials.ok()) << credentials.status().ToString();
  EXPECT_EQ(credentials->access_key_id, "ASIA1");
  EXPECT_EQ(credentials->secret_access_key, "hush");
  EXPECT_EQ(credentials->session_token, "mum");
  EXPECT_EQ(FormatTimestamp(*credentials->expires), "2026-01-02T03:04:05Z");
  EXPECT_EQ(credentials->origin, "instance role a");
}

TEST(CredentialsJson, TokenAndEndMayBeLeftOut) {
  Result<Credentials> credentials =
      ParseCredentialsJson(R"({"AccessKeyId": "A", "SecretAccessKey": "S", "Expiration": null})", "Token", "x");
  ASSERT_TRUE(credentials.ok());
  EXPECT_EQ(credentials->session_token, "");
  EXPECT_FALSE(credentials->expires);
}

TEST(CredentialsJson, WhatIsWrongIsNamedAndNotQuoted) {
  auto refusal = [](std::string_view text) {
    Result<Credentials> credentials = ParseCredentialsJson(text, "Token", "container role");
    EXPECT_FALSE(credentials.ok()) << text;
    EXPECT_THAT(credentials.status().message(), Not(HasSubstr("hush")));
    return credentials.ok() ? "" : credentials.status().message();
  };
  EXPECT_EQ(refusal("hush"), "the answer of container role is not a JSON object");
  EXPECT_EQ(refusal(R"(["hush"])"), "the answer of container role is not a JSON object");
  EXPECT_EQ(refusal(R"({"SecretAccessKey": "hush"})"), "the answer of container role has no `AccessKeyId`");
  EXPECT_EQ(refusal(R"({"AccessKeyId": "A", "Token": "hush"})"), "the answer of container role has no `SecretAccessKey`");
  EXPECT_EQ(refusal(R"({"AccessKeyId": "A", "SecretAccessKey": ["hush"]})"),
            "`SecretAccessKey` in the answer of container role is not text");
  EXPECT_THAT(refusal(R"({"AccessKeyId": "A", "SecretAccessKey": "hush", "Expiration": "soon"})"),
              HasSubstr("`Expiration` in the answer of container role: not a time"));
  EXPECT_THAT(refusal(R"({"AccessKeyId": "A", "SecretAccessKey": "hush\r\nX-Evil: 1"})"), HasSubstr("holds a blank"));
  EXPECT_THAT(refusal(R"({"AccessKeyId": "A", "SecretAccessKey": "S", "Token": "hush hush"})"),
              HasSubstr("the session token from"));
}

TEST(CredentialsJson, TheGiversOwnErrorIsPassedOn) {
  Result<Credentials> credentials = ParseCredentialsJson(
      R"({"Code": "AssumeRoleUnauthorizedAccess", "Message": "EC2 cannot assume the role"})", "Token", "instance role a");
  EXPECT_EQ(credentials.code(), Code::kDenied);
  EXPECT_EQ(credentials.status().message(), "instance role a answered AssumeRoleUnauthorizedAccess: EC2 cannot assume the role");
}

TEST(Redact, BlotsOutEveryOccurrence) {
  EXPECT_EQ(Redact("a hush b hush", "hush"), "a *** b ***");
  EXPECT_EQ(Redact("*****", "**"), "*******");
  EXPECT_EQ(Redact("untouched", ""), "untouched");
}

}  // namespace
}  // namespace headrace
