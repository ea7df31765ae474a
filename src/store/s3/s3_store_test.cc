#include "store/s3/s3_store.h"

#include "store/s3/s3_fixture.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

HttpResponse Part(std::string body, const std::string& content_range) {
  return ScriptedHttp::Answer(206, std::move(body), {{"content-range", content_range}});
}

TEST_F(S3StoreTest, RequestsAreAddressedAndSigned) {
  http->Always(ScriptedHttp::Answer(200, "x"));
  ASSERT_TRUE(Get("log/a b=+%ü").ok());
  HttpRequest sent = http->last();
  EXPECT_EQ(sent.method, "GET");
  EXPECT_EQ(sent.url, "http://127.0.0.1:9000/lake/runs/a/log/a%20b%3D%2B%25%C3%BC");
  EXPECT_EQ(ScriptedHttp::Sent(sent, "host"), "127.0.0.1:9000");
  EXPECT_THAT(ScriptedHttp::Sent(sent, "authorization"),
              AllOf(HasSubstr("AWS4-HMAC-SHA256 Credential=AKID/"), HasSubstr("/us-east-1/s3/aws4_request"),
                    HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date,")));
  EXPECT_EQ(ScriptedHttp::Sent(sent, "x-amz-security-token"), "");
}

TEST_F(S3StoreTest, SessionTokenIsSentAndSigned) {
  credentials->SetToken("token");
  ASSERT_TRUE(Get("a").ok());
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "x-amz-security-token"), "token");
  EXPECT_THAT(ScriptedHttp::Sent(http->last(), "authorization"), HasSubstr(";x-amz-security-token,"));
}

TEST_F(S3StoreTest, UnsignedRequestsCarryNothingOfUs) {
  config.unsigned_requests = true;
  ASSERT_TRUE(Get("a").ok());
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "authorization"), "");
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "x-amz-date"), "");
}

TEST_F(S3StoreTest, RequesterPaysIfAsked) {
  config.requester_pays = true;
  ASSERT_TRUE(Get("a").ok());
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "x-amz-request-payer"), "requester");
  EXPECT_THAT(ScriptedHttp::Sent(http->last(), "authorization"), HasSubstr("x-amz-request-payer"));
}

TEST_F(S3StoreTest, GetBringsTheBytesAndTheSize) {
  http->Always(ScriptedHttp::Answer(200, "hello"));
  auto object = Get("a");
  ASSERT_TRUE(object.ok() && *object);
  EXPECT_EQ((*object)->bytes.AsText(), "hello");
  EXPECT_EQ((*object)->size, 5u);
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "range"), "");
}

TEST_F(S3StoreTest, GetOfARange) {
  http->Always(Part("ell", "bytes 1-3/5"));
  std::vector<std::byte> memory(3);
  auto object = Get("a", ByteRange::At(1, 3), memory);
  ASSERT_TRUE(object.ok() && *object) << object.status().ToString();
  EXPECT_EQ((*object)->bytes.AsText(), "ell");
  EXPECT_EQ((*object)->bytes.data(), memory.data());
  EXPECT_EQ((*object)->size, 5u);
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "range"), "bytes=1-3");
}

TEST_F(S3StoreTest, RangeEndsWithTheObject) {
  http->Always(Part("lo", "bytes 3-4/5"));
  EXPECT_EQ((*Get("a", ByteRange::At(3, 100)))->bytes.AsText(), "lo");
  EXPECT_EQ((*Get("a", ByteRange::From(3)))->bytes.AsText(), "lo");
  EXPECT_EQ((*Get("a", ByteRange::Last(2)))->bytes.AsText(), "lo");
}

TEST_F(S3StoreTest, WholeObjectMayAnswerARangeThatCoversIt) {
  http->Always(ScriptedHttp::Answer(200, "hello"));
  EXPECT_EQ((*Get("a", ByteRange::Last(9)))->bytes.AsText(), "hello");
  EXPECT_EQ((*Get("a", ByteRange::At(0, 5)))->bytes.AsText(), "hello");
}

TEST_F(S3StoreTest, StoreThatIgnoresRangesIsFound) {
  http->Always(ScriptedHttp::Answer(200, "hello"));
  std::vector<std::byte> small(2), large(10);
  for (std::span<std::byte> into : {std::span<std::byte>(), std::span(small), std::span(large)}) {
    auto object = Get("a", ByteRange::At(0, 2), into);
    EXPECT_EQ(object.code(), Code::kUnsupported);
    EXPECT_THAT(object.status().message(), AllOf(HasSubstr("s3://lake/runs/a/a (bytes=0-1)"), HasSubstr("ignores ranges")));
  }
}

TEST_F(S3StoreTest, AnswersThatAreNotWhatWasAskedForAreErrors) {
  HttpResponse no_length = ScriptedHttp::Answer(200, "hello");
  no_length.headers.clear();
  for (auto& [answer, range, why] : std::vector<std::tuple<HttpResponse, ByteRange, std::string>>{
           {ScriptedHttp::Answer(200, "hell", {{"content-length", "5"}}), {}, "has 4 bytes instead of 5"},
           {no_length, {}, "does not say how long it is"},
           {ScriptedHttp::Answer(204), {}, "has the status 204"},
           {Part("hello", "bytes 0-4/5"), {}, "has the status 206"},
           {ScriptedHttp::Answer(206, "ell"), ByteRange::At(1, 3), "no proper Content-Range"},
           {Part("ell", "bytes 1-3/*"), ByteRange::At(1, 3), "no proper Content-Range"},
           {Part("ell", "bytes 3-1/5"), ByteRange::At(1, 3), "no proper Content-Range"},
           {Part("ell", "bytes 1-5/5"), ByteRange::At(1, 9), "no proper Content-Range"},
           {Part("ell", "bytes 0-2/5"), ByteRange::At(1, 3), "about other bytes"},
           {Part("el", "bytes 1-2/5"), ByteRange::At(1, 3), "about other bytes"},
           {Part("el", "bytes 1-3/5"), ByteRange::At(1, 3), "has 2 bytes instead of 3"},
           {Part("hel", "bytes 0-2/5"), ByteRange::Last(3), "about other bytes"}}) {
    http->Always(answer);
    auto object = Get("a", range);
    EXPECT_EQ(object.code(), Code::kUnavailable) << why;
    EXPECT_THAT(object.status().message(), AllOf(HasSubstr("cannot read s3://lake/runs/a/a"), HasSubstr(why)));
  }
}

TEST_F(S3StoreTest, BodyOfAnObjectIsNeverTakenForAnError) {
  std::string body = "<Error><Code>NoSuchKey</Code></Error>";
  http->Always(ScriptedHttp::Answer(200, body));
  EXPECT_EQ((*Get("a"))->bytes.AsText(), body);
}

TEST_F(S3StoreTest, AbsentKeyIsNothing) {
  http->Always(ScriptedHttp::Refuse(404, "NoSuchKey"));
  auto object = Get("a");
  ASSERT_TRUE(object.ok());
  EXPECT_FALSE(*object);
}

// Else a stream would look empty to whoever mistypes the bucket or the endpoint.
TEST_F(S3StoreTest, OtherKindsOfAbsenceAreErrors) {
  http->Always(ScriptedHttp::Refuse(404, "NoSuchBucket"));
  EXPECT_EQ(Get("a").code(), Code::kNotFound);
  EXPECT_THAT(Get("a").status().message(), HasSubstr("The bucket is called lake."));
  http->Always(ScriptedHttp::Answer(404, "<html>nginx</html>"));
  EXPECT_EQ(Get("a").code(), Code::kNotFound);
  EXPECT_THAT(Get("a").status().message(), HasSubstr("check that the endpoint is an S3 server"));
}

TEST_F(S3StoreTest, RangeBehindTheEndIsEmpty) {
  for (HttpResponse answer : {ScriptedHttp::Refuse(416, "InvalidRange", "", {{"content-range", "bytes */5"}}),
                              ScriptedHttp::Refuse(416, "InvalidRange", "<ActualObjectSize>5</ActualObjectSize>")}) {
    http->Always(answer);
    auto object = Get("a", ByteRange::At(5, 10));
    ASSERT_TRUE(object.ok() && *object) << object.status().ToString();
    EXPECT_TRUE((*object)->bytes.empty());
    EXPECT_EQ((*object)->size, 5u);
  }
}

TEST_F(S3StoreTest, RangeOfAnEmptyObjectIsEmptyEvenIfTheStoreDoesNotSayItsSize) {
  http->Always(ScriptedHttp::Refuse(416, "InvalidRange"));
  for (ByteRange range : {ByteRange::At(0, 10), ByteRange::Last(10)}) {
    auto object = Get("a", range);
    ASSERT_TRUE(object.ok() && *object);
    EXPECT_EQ((*object)->size, 0u);
  }
}

TEST_F(S3StoreTest, SizeIsAskedForWhereTheRefusalDoesNotSayIt) {
  http->Always([](const HttpRequest& request) {
    return request.method == "HEAD" ? ScriptedHttp::Answer(200, "", {{"content-length", "5"}})
                                    : ScriptedHttp::Refuse(416, "InvalidRange");
  });
  auto object = Get("a", ByteRange::At(7, 1));
  ASSERT_TRUE(object.ok() && *object) << object.status().ToString();
  EXPECT_EQ((*object)->size, 5u);
}

TEST_F(S3StoreTest, RangeInsideTheObjectCannotBeRefused) {
  http->Always(ScriptedHttp::Refuse(416, "InvalidRange", "", {{"content-range", "bytes */5"}}));
  EXPECT_EQ(Get("a", ByteRange::At(4, 1)).code(), Code::kUnavailable);
}

TEST_F(S3StoreTest, LostAnswerNamesTheObject) {
  http->AlwaysFail(Status(Code::kUnavailable, "connection reset"), true);
  auto object = Get("a", ByteRange::At(1, 3));
  EXPECT_EQ(object.code(), Code::kUnavailable);
  EXPECT_EQ(object.status().message(), "cannot read s3://lake/runs/a/a (bytes=1-3): connection reset");
}

TEST_F(S3StoreTest, MemoryThatIsTooSmallIsTheCallersFault) {
  http->Always(ScriptedHttp::Answer(200, "hello"));
  std::vector<std::byte> memory(2);
  EXPECT_EQ(Get("a", {}, memory).code(), Code::kInvalidArgument);
}

TEST_F(S3StoreTest, ExpiredCredentialsAreNotUsedAgain) {
  http->Always(ScriptedHttp::Refuse(400, "ExpiredToken"));
  EXPECT_EQ(Get("a").code(), Code::kExpired);
  EXPECT_EQ(credentials->invalidated, 1);
  http->Always(ScriptedHttp::Refuse(403, "AccessDenied"));
  EXPECT_EQ(Get("a").code(), Code::kDenied);
  EXPECT_EQ(credentials->invalidated, 1);
}

TEST_F(S3StoreTest, BadKeysAreRefusedBeforeAnythingIsSent) {
  for (std::string key : {"", "../x", "a//b", "/a", "a/"}) {
    EXPECT_EQ(Get(key).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store().PutIfAbsent(key, Body("x"), Deadline()).code(), Code::kInvalidArgument);
    EXPECT_EQ(store().Put(key, Body("x"), Deadline()).code(), Code::kInvalidArgument);
    EXPECT_EQ(store().DeleteOne(key, Deadline()).code(), Code::kInvalidArgument);
  }
  EXPECT_THAT(http->requests(), IsEmpty());
}

TEST_F(S3StoreTest, DescribesItself) {
  EXPECT_EQ(store().Describe(""), "s3://lake/runs/a");
  EXPECT_EQ(store().Describe("log/1"), "s3://lake/runs/a/log/1");
}

TEST_F(S3StoreTest, WholeBucketHasNoPrefix) {
  config.prefix = "";
  EXPECT_EQ(store().Describe(""), "s3://lake");
  ASSERT_TRUE(Get("k").ok());
  EXPECT_EQ(http->last().url, "http://127.0.0.1:9000/lake/k");
}

std::string ListOf(const std::vector<std::string>& keys, const std::string& next = "") {
  std::string xml =
      Cat("<ListBucketResult><IsTruncated>", next.empty() ? "false" : "true", "</IsTruncated><NextContinuationToken>", next,
          "</NextContinuationToken><EncodingType>url</EncodingType>");
  for (const std::string& key : keys) xml += Cat("<Contents><Key>", PercentEncode(key), "</Key><Size>1</Size></Contents>");
  return xml + "</ListBucketResult>";
}

TEST_F(S3StoreTest, ListStripsThePrefixAndAsksForThePage) {
  http->Always(ScriptedHttp::Answer(200, ListOf({"runs/a/log/1", "runs/a/log/2"}, "next+/=")));
  auto page = store().List({.prefix = "log/", .start_after = "log/0", .page = "p 1", .limit = 5000}, Deadline());
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_THAT(page->entries, ElementsAre(ListEntry{"log/1", 1}, ListEntry{"log/2", 1}));
  EXPECT_EQ(page->next, "next+/=");
  EXPECT_EQ(
      http->last().url,
      "http://127.0.0.1:9000/lake?list-type=2&encoding-type=url&max-keys=1000&prefix=runs%2Fa%2Flog%2F&continuation-token=p%201"
      "&start-after=runs%2Fa%2Flog%2F0");
}

TEST_F(S3StoreTest, ListLeavesOutWhatStartAfterExcludesWhateverTheStoreSends) {
  http->Always(ScriptedHttp::Answer(200, ListOf({"runs/a/1", "runs/a/2", "runs/a/3"})));
  auto page = store().List({.start_after = "2"}, Deadline());
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(page->entries, ElementsAre(ListEntry{"3", 1}));
}

TEST_F(S3StoreTest, ListSkipsTheMarkOfAFolder) {
  http->Always(ScriptedHttp::Answer(200, ListOf({"runs/a/", "runs/a/1"})));
  EXPECT_THAT(store().List({}, Deadline())->entries, ElementsAre(ListEntry{"1", 1}));
}

TEST_F(S3StoreTest, ListThatCannotBeTrustedIsAnError) {
  for (HttpResponse answer :
       {ScriptedHttp::Answer(200, ListOf({"other/1"})), ScriptedHttp::Answer(200, "<html>"), ScriptedHttp::Answer(200),
        ScriptedHttp::Refuse(200, "InternalError"), ScriptedHttp::Answer(200, ListOf({}, "same"))}) {
    http->Always(answer);
    auto page = store().List({.page = "same"}, Deadline());
    EXPECT_THAT(page.code(), ::testing::AnyOf(Code::kUnavailable, Code::kUnsupported));
    EXPECT_THAT(page.status().message(), HasSubstr("cannot list s3://lake/runs/a"));
  }
}

TEST_F(S3StoreTest, DeleteOfOneKey) {
  http->Always(ScriptedHttp::Answer(204));
  EXPECT_TRUE(store().DeleteOne("k", Deadline()).ok());
  EXPECT_EQ(http->last().method, "DELETE");
  EXPECT_EQ(http->last().url, "http://127.0.0.1:9000/lake/runs/a/k");
  http->Always(ScriptedHttp::Refuse(404, "NoSuchKey"));
  EXPECT_TRUE(store().DeleteOne("k", Deadline()).ok());
  http->Always(ScriptedHttp::Refuse(404, "NoSuchBucket"));
  EXPECT_EQ(store().DeleteOne("k", Deadline()).code(), Code::kNotFound);
}

TEST_F(S3StoreTest, DeleteOfManyGoesInBatches) {
  http->Always(ScriptedHttp::Answer(200, "<DeleteResult/>"));
  std::vector<std::string> keys;
  for (int i = 0; i < 2001; ++i) keys.push_back(Cat("k<", i));
  ASSERT_TRUE(store().Delete(keys, Deadline()).ok());
  auto sent = http->requests();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].method, "POST");
  EXPECT_EQ(sent[0].url, "http://127.0.0.1:9000/lake?delete");
  std::string body = sent[0].body.Join().ToString();
  EXPECT_THAT(
      body, AllOf(HasSubstr("<Key>runs/a/k&lt;0</Key>"), HasSubstr("<Key>runs/a/k&lt;999</Key>"), Not(HasSubstr("k&lt;1000<"))));
  EXPECT_NE(ScriptedHttp::Sent(sent[0], "content-md5"), "");
  EXPECT_NE(ScriptedHttp::Sent(sent[0], "x-amz-checksum-crc32c"), "");
  EXPECT_THAT(sent[2].body.Join().ToString(), HasSubstr("<Key>runs/a/k&lt;2000</Key>"));
}

TEST_F(S3StoreTest, DeleteSaysWhatStayed) {
  std::vector<std::string> keys = {"a", "b"};
  http->Always(ScriptedHttp::Answer(
      200, "<DeleteResult><Error><Key>runs/a/b</Key><Code>AccessDenied</Code><Message>m</Message></Error></DeleteResult>"));
  Status status = store().Delete(keys, Deadline());
  EXPECT_EQ(status.code(), Code::kDenied);
  EXPECT_THAT(status.message(), HasSubstr("cannot delete 1 of 2 objects, the first one s3://lake/runs/a/b"));
  http->Always(ScriptedHttp::Refuse(200, "InternalError"));
  EXPECT_EQ(store().Delete(keys, Deadline()).code(), Code::kUnavailable);
  http->Always(ScriptedHttp::Answer(200, ""));
  EXPECT_EQ(store().Delete(keys, Deadline()).code(), Code::kUnavailable);
  EXPECT_TRUE(store().Delete({}, Deadline()).ok());
}

TEST(MakeS3Store, RefusesWhatCannotWork) {
  ThreadExecutor executor;
  auto http = std::make_shared<ScriptedHttp>();
  auto make = [&](auto change, std::shared_ptr<CredentialSource> credentials = std::make_shared<FixedCredentials>()) {
    S3Config config;
    config.bucket = "lake";
    change(config);
    return MakeS3Store(config, credentials, http, executor, RealClock()).status();
  };
  EXPECT_TRUE(make([](S3Config&) {}).ok());
  EXPECT_EQ(make([](S3Config& config) { config.bucket = ""; }).code(), Code::kInvalidArgument);
  EXPECT_THAT(make([](S3Config& config) { config.part_bytes = 1 << 20; }).message(), HasSubstr("5 MiB"));
  EXPECT_THAT(make([](S3Config& config) { config.multipart_threshold = 6ull << 30; }).message(), HasSubstr("5 GiB"));
  EXPECT_EQ(make([](S3Config&) {}, nullptr).code(), Code::kInvalidArgument);
  EXPECT_TRUE(make([](S3Config& config) { config.unsigned_requests = true; }, nullptr).ok());
}

}  // namespace
}  // namespace headrace
