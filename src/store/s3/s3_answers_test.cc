#include "store/s3/s3_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Listing(std::string_view inside) { return Cat("<ListBucketResult>", inside, "</ListBucketResult>"); }

TEST(ReadListAnswer, DecodesKeysIfTheStoreEncodedThem) {
  // As AWS has it: '+' for a space. The word that says so may come after the keys.
  auto page = ReadListAnswer(
      Listing("<IsTruncated>false</IsTruncated><Contents><Key>a+b%2Bc%3D%25%C3%BC/d</Key><Size>12</Size></Contents>"
              "<EncodingType>url</EncodingType>"));
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_THAT(page->entries, ElementsAre(ListEntry{"a b+c=%ü/d", 12}));
  EXPECT_EQ(page->next, "");
}

TEST(ReadListAnswer, LeavesKeysAloneIfItDidNot) {
  auto page = ReadListAnswer(
      Listing("<IsTruncated>false</IsTruncated><Contents><Size>1</Size><Key>a+b%20&amp;c</Key></Contents><EncodingType/>"));
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(page->entries, ElementsAre(ListEntry{"a+b%20&c", 1}));
}

TEST(ReadListAnswer, KnowsWhetherThereIsMore) {
  auto page = ReadListAnswer(Listing("<IsTruncated>true</IsTruncated><NextContinuationToken>a+/=</NextContinuationToken>"));
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(page->entries, IsEmpty());
  EXPECT_EQ(page->next, "a+/=");
}

// A list that looks complete and is not would lose data.
TEST(ReadListAnswer, RefusesWhatMayBeIncomplete) {
  for (auto [inside, why] :
       {std::pair<std::string_view, std::string_view>{"", "IsTruncated"},
        {"<IsTruncated>true</IsTruncated>", "NextContinuationToken"},
        {"<IsTruncated>false</IsTruncated><Contents><Key>a</Key></Contents>", "<Size>"},
        {"<IsTruncated>false</IsTruncated><Contents><Size>1</Size></Contents>", "<Key>"},
        {"<IsTruncated>false</IsTruncated><Contents><Key>a</Key><Size>-1</Size></Contents>", "proper <Size>"},
        {"<IsTruncated>false</IsTruncated><Contents><Key>a</Key><Key>b</Key><Size>1</Size></Contents>", "<Key>"},
        {"<IsTruncated>false</IsTruncated><EncodingType>url</EncodingType><Contents><Key>%4</Key><Size>1</Size></Contents>",
         "proper <Key>"}}) {
    auto page = ReadListAnswer(Listing(inside));
    EXPECT_EQ(page.code(), Code::kUnavailable) << inside;
    EXPECT_THAT(page.status().message(), HasSubstr(why));
  }
  EXPECT_EQ(ReadListAnswer("<ListBucketResult><IsTruncated>false</IsTruncated>").code(), Code::kUnavailable);
}

// What a server says that takes the name of the bucket for something else.
TEST(ReadListAnswer, AnswerToAnotherQuestionIsFinal) {
  for (std::string_view xml : {"<html>welcome</html>", "<ListAllMyBucketsResult/>"}) {
    auto page = ReadListAnswer(xml);
    EXPECT_EQ(page.code(), Code::kUnsupported);
    EXPECT_THAT(page.status().message(), HasSubstr("check that the endpoint is an S3 server"));
    EXPECT_THAT(page.status().message(), HasSubstr("(addressing)"));
  }
}

TEST(ReadErrorAnswer, ReadsWhatThereIs) {
  ErrorAnswer answer = ReadErrorAnswer(
      "<?xml version=\"1.0\"?><Error><Code>InvalidRange</Code><Message>no &amp; no</Message><ActualObjectSize>5</ActualObjectSize>"
      "<Region>eu-west-1</Region><RequestId>7</RequestId><Endpoint>e</Endpoint></Error>");
  EXPECT_EQ(answer.code, "InvalidRange");
  EXPECT_EQ(answer.message, "no & no");
  EXPECT_EQ(answer.object_size, 5u);
  EXPECT_EQ(answer.region, "eu-west-1");
  EXPECT_EQ(answer.request_id, "7");
  EXPECT_EQ(answer.endpoint, "e");
  EXPECT_EQ(ReadErrorAnswer("<Error><Code>SlowDown</Code><Mess").code, "SlowDown");
  EXPECT_EQ(ReadErrorAnswer("<html><Code>x</Code></html>").code, "");
  EXPECT_EQ(ReadErrorAnswer("").code, "");
}

TEST(IsErrorAnswer, SeesAnErrorUnderA200) {
  EXPECT_TRUE(IsErrorAnswer("<?xml version=\"1.0\"?>\n   \n<Error><Code>InternalError</Code></Error>"));
  EXPECT_TRUE(IsErrorAnswer("<Error><Code>Inter"));
  EXPECT_FALSE(IsErrorAnswer("<CompleteMultipartUploadResult/>"));
  EXPECT_FALSE(IsErrorAnswer("<DeleteResult><Error/></DeleteResult>"));
  EXPECT_FALSE(IsErrorAnswer(""));
}

TEST(ReadDeleteAnswer, NamesWhatStayed) {
  auto refusals = ReadDeleteAnswer(
      "<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>AccessDenied</Code><Message>m</Message></Error></DeleteResult>");
  ASSERT_TRUE(refusals.ok());
  ASSERT_EQ(refusals->size(), 1u);
  EXPECT_EQ(refusals->front().key, "b");
  EXPECT_EQ(refusals->front().code, "AccessDenied");
  EXPECT_FALSE(ReadDeleteAnswer("").ok());
}

TEST(ReadUploadAnswer, NeedsAnId) {
  EXPECT_EQ(*ReadUploadAnswer("<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>"), "u1");
  EXPECT_FALSE(ReadUploadAnswer("<InitiateMultipartUploadResult/>").ok());
}

TEST(ReadCompleteAnswer, NeedsTheWholeAnswer) {
  EXPECT_TRUE(ReadCompleteAnswer("\n\n<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>").ok());
  EXPECT_FALSE(ReadCompleteAnswer("<CompleteMultipartUploadResult><ETag>\"e\"</ETag>").ok());
  EXPECT_FALSE(ReadCompleteAnswer("").ok());
}

TEST(ReadSessionAnswer, GivesCredentialsThatEnd) {
  auto session = ReadSessionAnswer(
      "<CreateSessionResult><Credentials><SessionToken>t</SessionToken><SecretAccessKey>s</SecretAccessKey><AccessKeyId>k</AccessKeyId>"
      "<Expiration>2026-01-02T03:04:05Z</Expiration></Credentials></CreateSessionResult>");
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  EXPECT_EQ(session->access_key_id, "k");
  EXPECT_EQ(session->secret_access_key, "s");
  EXPECT_EQ(session->session_token, "t");
  using namespace std::chrono;
  EXPECT_EQ(session->expires, WallTime(sys_days(year(2026) / 1 / 2) + 3h + 4min + 5s));
  EXPECT_FALSE(ReadSessionAnswer("<CreateSessionResult><Credentials/></CreateSessionResult>").ok());
}

}  // namespace
}  // namespace headrace
