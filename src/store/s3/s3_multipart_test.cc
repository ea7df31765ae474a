#include "store/s3/s3_multipart.h"

#include <atomic>
#include <latch>

#include "store/s3/s3_fixture.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kPart = 5 << 20;

// A server that keeps parts, and answers each step as a test wants it.
class S3MultipartTest : public S3StoreTest {
 protected:
  S3MultipartTest() {
    config.multipart_threshold = kPart;
    config.part_bytes = kPart;
    config.part_concurrency = 3;
    http->Always([this](const HttpRequest& request) { return Serve(request); });
  }

  Result<HttpResponse> Serve(const HttpRequest& request) {
    if (request.url.ends_with("?uploads")) return on_begin;
    if (request.method == "PUT") {
      size_t at = request.url.find("partNumber=");
      size_t number = std::stoul(request.url.substr(at + 11));
      if (number == bad_part) return on_bad_part;
      std::lock_guard lock(mutex);
      parts[number] = request.body.Join().ToString();
      return ScriptedHttp::Answer(200, "", {{"etag", Cat("\"e", number, "\"")}});
    }
    if (request.method == "DELETE") {
      ++aborts;
      return ScriptedHttp::Answer(204);
    }
    ++completions;
    return on_complete;
  }

  Result<PutOutcome> Create() { return store().PutIfAbsent("k", body, Deadline()); }

  static std::string Varied(size_t size) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 2654435761u >> 13);
    return text;
  }

  Body body{Varied(2 * kPart + 100)};
  Result<HttpResponse> on_begin =
      ScriptedHttp::Answer(200, "<InitiateMultipartUploadResult><UploadId>u/1+2</UploadId></InitiateMultipartUploadResult>");
  Result<HttpResponse> on_complete =
      ScriptedHttp::Answer(200, "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>");
  Result<HttpResponse> on_bad_part = ScriptedHttp::Answer(500);
  size_t bad_part = 0;
  std::mutex mutex;
  std::map<size_t, std::string> parts;
  std::atomic<int> aborts = 0, completions = 0;
};

TEST_F(S3MultipartTest, PartsMakeTheBody) {
  auto outcome = Create();
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->kind, PutOutcome::kCreated);
  ASSERT_EQ(parts.size(), 3u);
  std::string whole = parts[1] + parts[2] + parts[3];
  EXPECT_TRUE(body.Equals(std::as_bytes(std::span(whole))));
  EXPECT_EQ(parts[3].size(), 100u);
  EXPECT_EQ(aborts, 0);

  HttpRequest last = http->last();
  EXPECT_THAT(last.url, HasSubstr("/lake/runs/a/k?uploadId=u%2F1%2B2"));
  EXPECT_EQ(ScriptedHttp::Sent(last, "if-none-match"), "*");
  std::string xml = last.body.Join().ToString();
  for (int i = 1; i <= 3; ++i)
    EXPECT_THAT(xml, HasSubstr(Cat("<ETag>&quot;e", i, "&quot;</ETag><PartNumber>", i, "</PartNumber>")));
}

TEST_F(S3MultipartTest, EveryPartHasItsChecksum) {
  ASSERT_TRUE(Create().ok());
  for (const HttpRequest& request : http->requests()) {
    if (request.method != "PUT") continue;
    std::string checksum = ScriptedHttp::Sent(request, "x-amz-checksum-crc32c");
    EXPECT_EQ(checksum, Crc32cHeader(request.body));
    EXPECT_THAT(http->last().body.Join().ToString(), HasSubstr(Cat("<ChecksumCRC32C>", checksum, "</ChecksumCRC32C>")));
  }
}

TEST_F(S3MultipartTest, SmallBodyGoesInOne) {
  body = Body(std::string(kPart, 'x'));
  http->Always(ScriptedHttp::Answer(200));
  ASSERT_TRUE(Create().ok());
  EXPECT_EQ(http->requests().size(), 1u);
}

TEST_F(S3MultipartTest, PlainPutHasNoCondition) {
  ASSERT_TRUE(store().Put("k", body, Deadline()).ok());
  EXPECT_EQ(ScriptedHttp::Sent(http->last(), "if-none-match"), "");
}

// Before the last request nothing can have appeared, whatever was lost.
TEST_F(S3MultipartTest, FailedPartIsAnErrorAndAborts) {
  bad_part = 2;
  for (Result<HttpResponse> bad :
       {Result<HttpResponse>(ScriptedHttp::Answer(500)), Result<HttpResponse>(ScriptedHttp::Refuse(503, "SlowDown")),
        Result<HttpResponse>(Status(Code::kUnavailable, "reset")), Result<HttpResponse>(ScriptedHttp::Answer(200))}) {
    on_bad_part = bad;
    aborts = 0;
    auto outcome = Create();
    EXPECT_FALSE(outcome.ok());
    EXPECT_THAT(outcome.status().message(), HasSubstr("cannot create s3://lake/runs/a/k (part 2)"));
    EXPECT_EQ(aborts, 1);
    EXPECT_EQ(completions, 0);
  }
}

TEST_F(S3MultipartTest, RefusedBeginningIsAnErrorWithNothingToAbort) {
  for (Result<HttpResponse> bad :
       {Result<HttpResponse>(ScriptedHttp::Refuse(403, "AccessDenied")), Result<HttpResponse>(ScriptedHttp::Answer(500)),
        Result<HttpResponse>(Status(Code::kUnavailable, "reset")), Result<HttpResponse>(ScriptedHttp::Answer(200, "<x/>"))}) {
    on_begin = bad;
    EXPECT_FALSE(Create().ok());
    EXPECT_EQ(http->requests().back().method, "POST");
  }
}

TEST_F(S3MultipartTest, TakenKeyIsAnAnswerAndAborts) {
  for (HttpResponse answer : {ScriptedHttp::Refuse(412, "PreconditionFailed"), ScriptedHttp::Refuse(200, "PreconditionFailed")}) {
    on_complete = answer;
    aborts = 0;
    auto outcome = Create();
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->kind, PutOutcome::kExists);
    EXPECT_EQ(aborts, 1);
  }
}

TEST_F(S3MultipartTest, DoubtAboutTheLastRequestIsUnknownAndLeftAlone) {
  for (Result<HttpResponse> lost :
       {Result<HttpResponse>(ScriptedHttp::Refuse(200, "InternalError")), Result<HttpResponse>(ScriptedHttp::Answer(200, "")),
        Result<HttpResponse>(ScriptedHttp::Answer(200, "<CompleteMultipartUploadResult>")),
        Result<HttpResponse>(ScriptedHttp::Answer(500)),
        Result<HttpResponse>(ScriptedHttp::Refuse(409, "ConditionalRequestConflict")),
        Result<HttpResponse>(ScriptedHttp::Refuse(404, "NoSuchUpload")), Result<HttpResponse>(Status(Code::kTimeout, "late"))}) {
    on_complete = lost;
    auto outcome = Create();
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->kind, PutOutcome::kUnknown);
    EXPECT_THAT(outcome->reason.message(), HasSubstr("cannot create s3://lake/runs/a/k"));
    EXPECT_EQ(aborts, 0);
  }
}

TEST_F(S3MultipartTest, RefusedCompletionIsAnErrorAndAborts) {
  on_complete = ScriptedHttp::Refuse(403, "AccessDenied");
  EXPECT_EQ(Create().code(), Code::kDenied);
  EXPECT_EQ(aborts, 1);
}

TEST_F(S3MultipartTest, CallerWhoStopsLeavesNothingBehind) {
  std::stop_source stop;
  http->Always([&](const HttpRequest& request) {
    if (request.method == "PUT") stop.request_stop();
    return Serve(request);
  });
  body = Body(std::string(20 * kPart, 'x'));
  auto outcome = store().PutIfAbsent("k", body, Deadline::OnlyStop(stop.get_token()));
  EXPECT_EQ(outcome.code(), Code::kCancelled);
  EXPECT_LE(parts.size(), 3u);
  EXPECT_EQ(aborts, 1);
  EXPECT_EQ(completions, 0);
}

TEST_F(S3MultipartTest, PartsGoSideBySideUpToTheLimit) {
  std::latch three(3);
  std::atomic<int> now = 0, most = 0;
  http->Always([&](const HttpRequest& request) {
    if (request.method != "PUT") return Serve(request);
    most = std::max<int>(most, ++now);
    three.count_down();
    three.wait();  // hangs unless three parts are under way at once
    auto answer = Serve(request);
    --now;
    return answer;
  });
  ASSERT_TRUE(Create().ok());
  EXPECT_EQ(most, 3);
}

TEST_F(S3MultipartTest, PartsGrowSoThatTenThousandSuffice) {
  // 60 GB that nobody has to hold: every piece of the body is the same memory.
  auto piece = Bytes::FromString(std::string(64 << 20, 'x'));
  std::vector<Bytes> pieces(960, piece);
  std::atomic<int> count = 0;
  http->Always([&](const HttpRequest& request) {
    if (request.method == "PUT") {
      ++count;
      return Result<HttpResponse>(ScriptedHttp::Answer(500));
    }
    return Serve(request);
  });
  body = Body(pieces);
  config.part_concurrency = 1;
  EXPECT_FALSE(Create().ok());
  EXPECT_GE(http->requests()[1].body.size(), body.size() / 10'000);
}

}  // namespace
}  // namespace headrace
