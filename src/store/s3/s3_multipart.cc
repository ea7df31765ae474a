#include "store/s3/s3_multipart.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stop_token>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "store/s3/xml.h"

namespace headrace {
namespace {

constexpr uint64_t kMaxParts = 10'000;  // S3's own limit
constexpr Duration kAbortTime = std::chrono::seconds(10);

struct Part {
  std::string etag;
  std::string crc32c;
};

Result<std::string> Begin(const MultipartUpload& upload, const Deadline& deadline) {
  S3Request request{.method = "POST",
                    .key = upload.key,
                    .query = {{"uploads", ""}},
                    .headers = {{"x-amz-checksum-algorithm", "CRC32C"}},
                    .answer_is_xml = true};
  Result<S3Answer> answer = upload.client.Send(request, deadline);
  if (!answer.ok()) return answer.status().Annotate(upload.what);
  if (answer->refusal) return ToStatus(*answer->refusal, upload.what, upload.bucket, upload.client.region());
  Result<std::string> id = ReadUploadAnswer(answer->response.body.AsText());
  if (!id.ok()) return id.status().Annotate(upload.what);
  return id;
}

Result<Part> SendPart(const MultipartUpload& upload, const std::string& id, size_t number, const Body& body,
                      const Deadline& deadline) {
  Part part{.etag = {}, .crc32c = Crc32cHeader(body)};
  std::string what = Cat(upload.what, " (part ", number, ')');
  S3Request request{.method = "PUT",
                    .key = upload.key,
                    .query = {{"partNumber", Cat(number)}, {"uploadId", id}},
                    .headers = {{"x-amz-checksum-crc32c", part.crc32c}},
                    .body = body};
  Result<S3Answer> answer = upload.client.Send(request, deadline);
  if (!answer.ok()) return answer.status().Annotate(what);
  if (answer->refusal) return ToStatus(*answer->refusal, what, upload.bucket, upload.client.region());
  part.etag = answer->response.Header("etag");
  if (part.etag.empty()) return Status(Code::kUnavailable, Cat(what, ": the answer has no ETag"));
  return part;
}

Result<std::vector<Part>> SendParts(const MultipartUpload& upload, const std::string& id, const MultipartOptions& options,
                                    Executor& executor, const Deadline& deadline) {
  uint64_t size = upload.body.size();
  uint64_t part_bytes = std::max<uint64_t>({options.part_bytes, (size + kMaxParts - 1) / kMaxParts, 1});
  size_t count = static_cast<size_t>((size + part_bytes - 1) / part_bytes);
  std::vector<Part> parts(count);
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  Status failure;          // guarded by `mutex`
  std::stop_source stop;   // the first failure, or the caller, ends all parts
  std::stop_callback caller(deadline.stop(), [&stop] { stop.request_stop(); });
  Deadline until(deadline.at(), stop.get_token());
  {
    TaskGroup group(executor);
    for (size_t worker = 0; worker < std::min(count, std::max<size_t>(1, options.concurrency)); ++worker) {
      group.Spawn([&] {
        for (size_t i = next++; i < count && !stop.stop_requested(); i = next++) {
          Result<Part> part = SendPart(upload, id, i + 1, upload.body.Slice(i * part_bytes, part_bytes), until);
          if (part.ok()) {
            parts[i] = *std::move(part);
            continue;
          }
          {
            std::lock_guard lock(mutex);
            if (failure.ok()) failure = part.status();
          }
          stop.request_stop();
          return;
        }
      });
    }
  }
  if (!failure.ok()) return failure;
  if (deadline.stop().stop_requested()) return Status(Code::kCancelled, Cat(upload.what, ": asked to stop"));
  return parts;
}

Result<PutOutcome> Complete(const MultipartUpload& upload, const std::string& id, const std::vector<Part>& parts,
                            const Deadline& deadline) {
  std::string xml = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < parts.size(); ++i) {
    xml += Cat("<Part><ChecksumCRC32C>", parts[i].crc32c, "</ChecksumCRC32C><ETag>", XmlEscape(parts[i].etag),
               "</ETag><PartNumber>", i + 1, "</PartNumber></Part>");
  }
  xml += "</CompleteMultipartUpload>";
  S3Request request{.method = "POST", .key = upload.key, .query = {{"uploadId", id}}, .body = Body(xml), .answer_is_xml = true};
  if (upload.if_absent) request.headers.emplace_back("if-none-match", "*");
  HttpFailure failure;
  Result<S3Answer> answer = upload.client.Send(request, deadline, &failure);
  HR_ASSIGN_OR_RETURN(PutOutcome outcome, OutcomeOf(answer, failure.sent, upload.what, upload.bucket, upload.client.region()));
  if (outcome.kind == PutOutcome::kCreated) {
    Status whole = ReadCompleteAnswer(answer->response.body.AsText());
    if (!whole.ok()) return PutOutcome{PutOutcome::kUnknown, whole.Annotate(upload.what)};
  }
  return outcome;
}

void Abort(const MultipartUpload& upload, const std::string& id, Clock& clock) {
  // With time of its own: the caller's is often what has run out.
  S3Request request{.method = "DELETE", .key = upload.key, .query = {{"uploadId", id}}};
  Result<S3Answer> answer = upload.client.Send(request, Deadline::After(clock, kAbortTime));
  bool gone = answer.ok() && (!answer->refusal || answer->refusal->answer.code == "NoSuchUpload");
  if (!gone)
    HR_LOG(kWarning, "a failed multipart upload could not be aborted; its parts stay", {"key", upload.key}, {"upload_id", id});
}

}  // namespace

Result<PutOutcome> OutcomeOf(const Result<S3Answer>& answer, bool sent, const std::string& what, const std::string& bucket,
                             const std::string& region) {
  if (!answer.ok()) {
    Status reason = answer.status().Annotate(what);
    if (!sent) return reason;
    return PutOutcome{PutOutcome::kUnknown, reason};
  }
  if (!answer->refusal) return PutOutcome{PutOutcome::kCreated, {}};
  const Refusal& refusal = *answer->refusal;
  if (refusal.status == 412 || refusal.answer.code == "PreconditionFailed") return PutOutcome{PutOutcome::kExists, {}};
  Status reason = ToStatus(refusal, what, bucket, region);
  if (HadNoEffect(refusal)) return reason;
  return PutOutcome{PutOutcome::kUnknown, reason};
}

Result<PutOutcome> PutInParts(const MultipartUpload& upload, const MultipartOptions& options, Executor& executor,
                              const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::string id, Begin(upload, deadline));
  Result<PutOutcome> outcome = [&]() -> Result<PutOutcome> {
    HR_ASSIGN_OR_RETURN(std::vector<Part> parts, SendParts(upload, id, options, executor, deadline));
    return Complete(upload, id, parts, deadline);
  }();
  bool settled_without_object = !outcome.ok() || outcome->kind == PutOutcome::kExists;
  if (settled_without_object) Abort(upload, id, executor.clock());
  return outcome;
}

}  // namespace headrace
