#include "store/s3/s3_store.h"

#include <openssl/evp.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "store/checks.h"
#include "store/s3/credentials_refresh.h"
#include "store/s3/s3_client.h"
#include "store/s3/s3_endpoint.h"
#include "store/s3/s3_multipart.h"
#include "store/s3/xml.h"

namespace headrace {
namespace {

constexpr size_t kMaxKeysPerRequest = 1000;  // S3's own limit, of lists and of deletes

// "bytes 0-9/100" → {0, 10, 100}.
struct ContentRange {
  uint64_t first = 0, count = 0, size = 0;
};
std::optional<ContentRange> ReadContentRange(std::string_view value) {
  if (!value.starts_with("bytes ")) return std::nullopt;
  value = Trim(value.substr(6));
  size_t dash = value.find('-'), slash = value.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) return std::nullopt;
  uint64_t first = 0, last = 0, size = 0;
  if (!ParseNumber(value.substr(0, dash), first) || !ParseNumber(value.substr(dash + 1, slash - dash - 1), last) ||
      !ParseNumber(value.substr(slash + 1), size) || last < first || last >= size) {
    return std::nullopt;
  }
  return ContentRange{first, last - first + 1, size};
}

// "bytes */100": the size of an object that has nothing in the range.
std::optional<uint64_t> SizeBesideRefusedRange(const S3Answer& answer) {
  std::string_view value = answer.response.Header("content-range");
  uint64_t size = 0;
  if (value.starts_with("bytes */") && ParseNumber(value.substr(8), size)) return size;
  return answer.refusal->answer.object_size;
}

// Asked for by older servers. Nothing where the machine's policy has taken MD5 away.
std::optional<std::string> Md5Header(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  size_t size = 0;
  if (EVP_Q_digest(nullptr, "MD5", nullptr, text.data(), text.size(), digest, &size) != 1) return std::nullopt;
  return Base64(digest, size);
}

class S3Store final : public ObjectStore {
 public:
  S3Store(S3Config config, std::unique_ptr<const S3Client> client, Executor& executor)
      : config_(std::move(config)), client_(std::move(client)), executor_(executor) {
    std::string_view prefix = config_.prefix;
    while (prefix.starts_with('/')) prefix.remove_prefix(1);
    while (prefix.ends_with('/')) prefix.remove_suffix(1);
    if (!prefix.empty()) prefix_ = Cat(prefix, '/');
  }

  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
    HR_RETURN_IF_ERROR(CheckKey(key));
    HR_RETURN_IF_ERROR(CheckGet(*this, key, options));
    S3Request request{.key = prefix_ + key, .into = options.into, .pool = options.pool, .landing = options.landing};
    if (!options.range.all()) request.headers.emplace_back("range", options.range.ToString());
    HttpFailure failure;
    Result<S3Answer> answer = client_->Send(request, deadline, &failure);
    if (!answer.ok()) {
      const ByteRange& range = options.range;
      bool must_fit = range.length <= options.into.size();
      if (failure.too_long && must_fit)
        return Wrong(key, options, "is longer than the range; this store ignores ranges", Code::kUnsupported);
      return answer.status().Annotate(What("read", key, options));
    }
    if (answer->refusal) return GetRefused(key, options, *answer, deadline);
    return GetAnswered(key, options, std::move(answer->response));
  }

  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override {
    return Create(key, body, true, deadline);
  }

  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override {
    HR_ASSIGN_OR_RETURN(PutOutcome outcome, Create(key, body, false, deadline));
    if (outcome.kind == PutOutcome::kCreated) return {};
    if (outcome.kind == PutOutcome::kUnknown) return outcome.reason;
    return Status(Code::kConflict, Cat(What("write", key), ": the store answered that it exists, though it was not asked"));
  }

  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override {
    HR_RETURN_IF_ERROR(CheckList(*this, options));
    std::string prefix = prefix_ + options.prefix;
    bool express = client_->endpoint().express;
    // S3 Express lists whole folders only, in no order. What is too much is left out below.
    std::string asked = express ? prefix.substr(0, prefix.rfind('/') + 1) : prefix;
    S3Request request{
        .query = {{"list-type", "2"}, {"encoding-type", "url"}, {"max-keys", Cat(std::min(options.limit, kMaxKeysPerRequest))}},
        .answer_is_xml = true};
    if (!asked.empty()) request.query.emplace_back("prefix", asked);
    if (!options.page.empty()) request.query.emplace_back("continuation-token", options.page);
    if (!options.start_after.empty() && !express) request.query.emplace_back("start-after", prefix_ + options.start_after);
    std::string what = Cat("cannot list ", Describe(options.prefix));
    Result<S3Answer> answer = client_->Send(request, deadline);
    if (!answer.ok()) return answer.status().Annotate(what);
    if (answer->refusal) return Refused(*answer->refusal, what);
    Result<ListPage> page = ReadListAnswer(answer->response.body.AsText());
    if (!page.ok()) return page.status().Annotate(what);
    if (!page->next.empty() && page->next == options.page) {
      return Status(Code::kUnavailable, Cat(what, ": the store answered that the next page is the one that it gave"));
    }
    ListPage ours{.entries = {}, .next = std::move(page->next)};
    ours.entries.reserve(page->entries.size());
    for (ListEntry& entry : page->entries) {
      if (!entry.key.starts_with(asked)) {
        return Status(Code::kUnavailable,
                      Cat(what, ": the store answered with ", entry.key.substr(0, 100), ", which does not lie under it"));
      }
      // The key that equals our prefix is a mark that some tools leave to make a folder show.
      if (!entry.key.starts_with(prefix) || entry.key.size() == prefix_.size()) continue;
      entry.key.erase(0, prefix_.size());
      if (entry.key > options.start_after) ours.entries.push_back(std::move(entry));
    }
    return ours;
  }

  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override {
    for (const std::string& key : keys) HR_RETURN_IF_ERROR(CheckKey(key));
    if (keys.size() == 1) return DeleteOneKey(keys.front(), deadline);
    while (!keys.empty()) {
      size_t count = std::min(keys.size(), kMaxKeysPerRequest);
      HR_RETURN_IF_ERROR(DeleteMany(keys.first(count), deadline));
      keys = keys.subspan(count);
    }
    return {};
  }

  std::string Describe(const std::string& key) const override {
    std::string path = prefix_ + key;
    if (key.empty() && path.ends_with('/')) path.pop_back();
    return Cat("s3://", config_.bucket, path.empty() ? "" : "/", path);
  }

 private:
  std::string What(std::string_view verb, const std::string& key) const { return Cat("cannot ", verb, ' ', Describe(key)); }
  std::string What(std::string_view verb, const std::string& key, const GetOptions& options) const {
    return options.range.all() ? What(verb, key) : Cat(What(verb, key), " (", options.range.ToString(), ')');
  }
  Status Refused(const Refusal& refusal, std::string_view what) const {
    return ToStatus(refusal, what, config_.bucket, client_->region());
  }
  Status Wrong(const std::string& key, const GetOptions& options, std::string_view why, Code code = Code::kUnavailable) const {
    return Status(code, Cat(What("read", key, options), ": the answer ", why));
  }

  Result<std::optional<Object>> GetAnswered(const std::string& key, const GetOptions& options, HttpResponse response) {
    uint64_t got = response.body.size() + response.landed, length = 0;
    if (ParseNumber(response.Header("content-length"), length)) {
      if (length != got) return Wrong(key, options, Cat("has ", got, " bytes instead of ", length));
    } else if (Lower(response.Header("transfer-encoding")) != "chunked") {
      return Wrong(key, options, "does not say how long it is, so nobody can tell whether it is whole");
    }
    if (response.status == 206 && !options.range.all()) {
      std::optional<ContentRange> range = ReadContentRange(response.Header("content-range"));
      if (!range)
        return Wrong(key, options, Cat("has no proper Content-Range: \"", response.Header("content-range").substr(0, 100), '"'));
      auto [first, count] = options.range.Within(range->size);
      if (first != range->first || count != range->count) {
        return Wrong(key, options, Cat("is about other bytes: ", response.Header("content-range")));
      }
      if (got != count) return Wrong(key, options, Cat("has ", got, " bytes instead of ", count));
      return std::optional(Object{std::move(response.body), range->size, PlainETag(response.Header("etag")), response.landed});
    }
    if (response.status != 200) return Wrong(key, options, Cat("has the status ", response.status));
    auto [first, count] = options.range.Within(got);
    if (first != 0 || count != got)
      return Wrong(key, options, "is the whole object; this store ignores ranges", Code::kUnsupported);
    return std::optional(Object{std::move(response.body), got, PlainETag(response.Header("etag"))});
  }

  Result<std::optional<Object>> GetRefused(const std::string& key, const GetOptions& options, const S3Answer& answer,
                                           const Deadline& deadline) {
    const Refusal& refusal = *answer.refusal;
    if (refusal.status == 404 && refusal.answer.code == "NoSuchKey") return std::optional<Object>();
    if (refusal.status != 416 || options.range.all()) return Refused(refusal, What("read", key, options));
    // Nothing of the object lies in the range.
    std::optional<uint64_t> size = SizeBesideRefusedRange(answer);
    if (!size && (options.range.suffix || options.range.offset == 0)) size = 0;  // every other object has bytes there
    if (!size) {
      Result<S3Answer> head = client_->Send({.method = "HEAD", .key = prefix_ + key}, deadline);
      if (!head.ok()) return head.status().Annotate(What("read", key, options));
      if (head->refusal && head->refusal->status == 404) return std::optional<Object>();
      if (head->refusal) return Refused(*head->refusal, What("read", key, options));
      uint64_t length = 0;
      if (!ParseNumber(head->response.Header("content-length"), length))
        return Wrong(key, options, "does not say how long the object is");
      size = length;
    }
    if (options.range.Within(*size).second != 0) {
      return Wrong(key, options, Cat("says that an object of ", *size, " bytes has nothing in the range"));
    }
    return std::optional(Object{Bytes::Borrow(options.into.first(0)), *size});
  }

  Result<PutOutcome> Create(const std::string& key, const Body& body, bool if_absent, const Deadline& deadline) {
    HR_RETURN_IF_ERROR(CheckKey(key));
    std::string whole_key = prefix_ + key, what = What(if_absent ? "create" : "write", key);
    if (body.size() > config_.multipart_threshold) {
      return PutInParts({*client_, whole_key, what, config_.bucket, body, if_absent},
                        {config_.part_bytes, config_.part_concurrency}, executor_, deadline);
    }
    S3Request request{
        .method = "PUT", .key = whole_key, .headers = {{"x-amz-checksum-crc32c", Crc32cHeader(body)}}, .body = body};
    if (if_absent) request.headers.emplace_back("if-none-match", "*");
    HttpFailure failure;
    Result<S3Answer> answer = client_->Send(request, deadline, &failure);
    return OutcomeOf(answer, failure.sent, what, config_.bucket, client_->region());
  }

  Status DeleteOneKey(const std::string& key, const Deadline& deadline) {
    Result<S3Answer> answer = client_->Send({.method = "DELETE", .key = prefix_ + key}, deadline);
    if (!answer.ok()) return answer.status().Annotate(What("delete", key));
    if (answer->refusal && !(answer->refusal->status == 404 && answer->refusal->answer.code == "NoSuchKey")) {
      return Refused(*answer->refusal, What("delete", key));
    }
    return {};
  }

  Status DeleteMany(std::span<const std::string> keys, const Deadline& deadline) {
    std::string what = Cat("cannot delete ", keys.size(), " objects of ", Describe(""));
    std::string xml = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
    for (const std::string& key : keys) xml += Cat("<Object><Key>", XmlEscape(prefix_ + key), "</Key></Object>");
    xml += "<Quiet>true</Quiet></Delete>";
    S3Request request{.method = "POST", .query = {{"delete", ""}}, .body = Body(xml), .answer_is_xml = true};
    request.headers.emplace_back("x-amz-checksum-crc32c", Crc32cHeader(request.body));
    if (auto md5 = Md5Header(xml); md5 && !client_->endpoint().express) request.headers.emplace_back("content-md5", *md5);
    Result<S3Answer> answer = client_->Send(request, deadline);
    if (!answer.ok()) return answer.status().Annotate(what);
    if (answer->refusal) return Refused(*answer->refusal, what);
    Result<std::vector<DeleteRefusal>> refusals = ReadDeleteAnswer(answer->response.body.AsText());
    if (!refusals.ok()) return refusals.status().Annotate(what);
    std::erase_if(*refusals, [](const DeleteRefusal& refusal) { return refusal.code == "NoSuchKey"; });
    if (refusals->empty()) return {};
    const DeleteRefusal& first = refusals->front();
    Refusal refusal{
        .status = 200,
        .answer = {.code = first.code, .message = first.message, .request_id = answer->response.Header("x-amz-request-id")}};
    return Refused(refusal, Cat("cannot delete ", refusals->size(), " of ", keys.size(), " objects, the first one s3://",
                                config_.bucket, '/', first.key));
  }

  const S3Config config_;
  const std::unique_ptr<const S3Client> client_;
  Executor& executor_;
  std::string prefix_;  // empty, or ends with '/'
};

}  // namespace

Result<std::shared_ptr<ObjectStore>> MakeS3Store(S3Config config, std::shared_ptr<CredentialSource> credentials,
                                                 std::shared_ptr<HttpClient> http, Executor& executor, Clock& clock) {
  HR_ASSIGN_OR_RETURN(S3Endpoint endpoint, FindEndpoint(config));
  if (config.part_bytes < (5u << 20)) {
    return Status(Code::kInvalidArgument,
                  Cat("parts of ", config.part_bytes, " bytes are too small: S3 wants 5 MiB or more (part_size)"));
  }
  if (config.multipart_threshold > (5ull << 30)) {
    return Status(Code::kInvalidArgument, "multipart_threshold is above 5 GiB, the most that S3 takes in one request");
  }
  if (!config.unsigned_requests && credentials == nullptr) {
    return Status(Code::kInvalidArgument,
                  Cat("no credentials for s3://", config.bucket, ", and unsigned requests were not asked for"));
  }
  NamedValues headers;
  if (config.requester_pays) headers.emplace_back("x-amz-request-payer", "requester");
  S3Identity identity{.source = config.unsigned_requests ? nullptr : std::move(credentials), .region = config.region};
  if (endpoint.express && identity.source != nullptr) {
    identity.service = "s3express";
    auto opener = std::make_shared<S3Client>(endpoint, identity, headers, http, clock);
    identity.source = std::make_shared<RefreshingCredentials>(
        [opener, bucket = config.bucket](const Deadline& deadline) { return CreateExpressSession(*opener, bucket, deadline); },
        executor, Random::FromEntropy());
    identity.token_header = "x-amz-s3session-token";
  }
  auto client = std::make_unique<S3Client>(std::move(endpoint), std::move(identity), std::move(headers), std::move(http), clock);
  return std::shared_ptr<ObjectStore>(std::make_shared<S3Store>(std::move(config), std::move(client), executor));
}

}  // namespace headrace
