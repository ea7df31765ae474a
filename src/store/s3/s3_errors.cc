#include "store/s3/s3_errors.h"

#include <algorithm>

#include "base/text.h"

namespace headrace {
namespace {

struct KnownWord {
  std::string_view code;
  Code meaning;
  bool no_effect;  // the store certainly did nothing
  std::string_view hint;
};

constexpr std::string_view kCheckRegion = "Set the region where the bucket is (?region=, AWS_REGION).";
constexpr std::string_view kCheckClock =
    "The clock of this machine is wrong by more than S3 bears (15 minutes): set it, with NTP if you can.";
constexpr std::string_view kCheckKey =
    "The store does not know this access key: check AWS_ACCESS_KEY_ID or the profile, and that they belong to this endpoint.";
// Also said of a folder whose last object is being deleted at this moment, so it is worth another try.
constexpr std::string_view kBecomesObject =
    "On this store a key cannot also be a folder of other keys, as long as that folder is there.";
constexpr std::string_view kParentIsObject = "On this store a key cannot also be a folder of other keys.";
constexpr std::string_view kDamaged = "The bytes were damaged on the way, or something between here and the store changes them.";
constexpr std::string_view kNoSpace = "Make room, or raise the quota.";

// clang-format off
constexpr KnownWord kKnownWords[] = {
    {"AccessDenied", Code::kDenied, true, "Check the policies of the bucket and of this identity. S3 also says this of an object or bucket that is not there, to those who may not list (s3:ListBucket)."},
    {"AllAccessDisabled", Code::kDenied, true, "The owner has closed this bucket."},
    {"AccountProblem", Code::kDenied, true, "There is a problem with the AWS account; its owner must ask AWS."},
    {"InvalidAccessKeyId", Code::kDenied, true, kCheckKey},
    {"XAdminUserNotFound", Code::kDenied, true, kCheckKey},
    {"SignatureDoesNotMatch", Code::kDenied, true, "The secret key does not belong to this access key: check AWS_SECRET_ACCESS_KEY. A proxy that changes requests has the same effect."},
    {"RequestTimeTooSkewed", Code::kDenied, true, kCheckClock},
    {"RequestExpired", Code::kDenied, true, kCheckClock},
    {"ExpiredToken", Code::kExpired, true, "Renew the credentials (for example: aws sso login), or use a source that renews them by itself."},
    {"ExpiredTokenException", Code::kExpired, true, "Renew the credentials (for example: aws sso login), or use a source that renews them by itself."},
    {"TokenRefreshRequired", Code::kExpired, true, "Renew the credentials."},
    {"InvalidToken", Code::kExpired, true, "The session token is wrong or too old: check that AWS_SESSION_TOKEN belongs to the access key, or unset it."},
    {"NoSuchBucket", Code::kNotFound, true, "Create the bucket first, or check its name and the endpoint."},
    {"NoSuchKey", Code::kNotFound, false, ""},
    {"NoSuchUpload", Code::kUnavailable, false, "The upload was aborted by somebody else, or by a lifecycle rule."},
    {"PermanentRedirect", Code::kInvalidArgument, true, kCheckRegion},
    {"TemporaryRedirect", Code::kUnavailable, true, "A bucket that was created just now is known everywhere after some minutes."},
    {"AuthorizationHeaderMalformed", Code::kInvalidArgument, true, kCheckRegion},
    {"IllegalLocationConstraintException", Code::kInvalidArgument, true, kCheckRegion},
    {"InvalidBucketName", Code::kInvalidArgument, true, "Check the name of the bucket."},
    {"KeyTooLongError", Code::kInvalidArgument, true, "Use a shorter prefix."},
    {"EntityTooLarge", Code::kInvalidArgument, true, "Lower multipart_threshold, so that large objects go up in parts."},
    {"ObjectParentIsFile", Code::kInvalidArgument, true, kParentIsObject},
    {"ExistingObjectIsDirectory", Code::kUnavailable, true, kBecomesObject},
    {"XMinioParentIsObject", Code::kInvalidArgument, true, kParentIsObject},
    {"XMinioObjectExistsAsDirectory", Code::kInvalidArgument, true, kParentIsObject},
    {"InvalidObjectState", Code::kUnsupported, true, "The object is in an archive: restore it first."},
    {"NotImplemented", Code::kUnsupported, true, "This store cannot do what Headrace needs; `headrace probe` shows what it can."},
    {"MethodNotAllowed", Code::kUnsupported, true, "Check that the endpoint is an S3 server and the bucket's name is right."},
    {"BadDigest", Code::kUnavailable, true, kDamaged},
    {"InvalidDigest", Code::kUnavailable, true, kDamaged},
    {"XAmzContentSHA256Mismatch", Code::kUnavailable, true, kDamaged},
    {"XAmzContentChecksumMismatch", Code::kUnavailable, true, kDamaged},
    {"IncompleteBody", Code::kUnavailable, true, kDamaged},
    {"RequestTimeout", Code::kUnavailable, false, ""},
    {"InternalError", Code::kUnavailable, false, ""},
    {"OperationAborted", Code::kUnavailable, false, ""},
    {"ConditionalRequestConflict", Code::kUnavailable, false, ""},
    {"SlowDown", Code::kThrottled, false, ""},
    {"SlowDownRead", Code::kThrottled, false, ""},
    {"SlowDownWrite", Code::kThrottled, false, ""},
    {"ServiceUnavailable", Code::kThrottled, false, ""},
    {"Throttling", Code::kThrottled, false, ""},
    {"ThrottlingException", Code::kThrottled, false, ""},
    {"TooManyRequests", Code::kThrottled, false, ""},
    {"RequestLimitExceeded", Code::kThrottled, false, ""},
    {"BandwidthLimitExceeded", Code::kThrottled, false, ""},
    {"QuotaExceeded", Code::kFull, true, kNoSpace},
    {"XMinioStorageFull", Code::kFull, true, kNoSpace},
    {"XMinioAdminBucketQuotaExceeded", Code::kFull, true, kNoSpace},
};
// clang-format on

const KnownWord* Find(std::string_view code) {
  auto found = std::ranges::find(kKnownWords, code, &KnownWord::code);
  return found == std::end(kKnownWords) ? nullptr : found;
}

// Where the answer has no word that we know.
Code CodeOfStatus(int status) {
  switch (status) {
    case 401:
    case 403: return Code::kDenied;
    case 404: return Code::kNotFound;
    case 405:
    case 501: return Code::kUnsupported;
    case 408:
    case 409:
    case 425: return Code::kUnavailable;
    case 412: return Code::kConflict;
    case 429: return Code::kThrottled;
    case 507: return Code::kFull;
    default: break;
  }
  if (status >= 300 && status < 500) return Code::kInvalidArgument;
  return Code::kUnavailable;
}

std::string_view HintOfStatus(int status) {
  switch (status) {
    case 401:
    case 403: return "Check the credentials and the policies of the bucket.";
    case 404: return "It did not say what is missing: check that the endpoint is an S3 server and the bucket's name is right.";
    case 405:
    case 501: return "Check that the endpoint is an S3 server.";
    case 507: return kNoSpace;
    default: break;
  }
  if (status >= 300 && status < 400) return "Check the endpoint and the region.";
  return "";
}

std::optional<Duration> ReadRetryAfter(const std::string& value) {
  uint64_t seconds = 0;
  if (!ParseNumber(value, seconds)) return std::nullopt;  // the form with a date would need the store's clock
  return std::chrono::seconds(std::min<uint64_t>(seconds, 3600));
}

}  // namespace

Refusal ReadRefusal(const HttpResponse& response) {
  Refusal refusal{.status = response.status,
                  .answer = ReadErrorAnswer(response.body.AsText()),
                  .location = response.Header("location"),
                  .store_date = response.Header("date"),
                  .retry_after = ReadRetryAfter(response.Header("retry-after"))};
  if (refusal.answer.region.empty()) refusal.answer.region = response.Header("x-amz-bucket-region");
  if (refusal.answer.request_id.empty()) refusal.answer.request_id = response.Header("x-amz-request-id");
  return refusal;
}

Code RefusalCode(const Refusal& refusal) {
  const KnownWord* known = Find(refusal.answer.code);
  return known != nullptr ? known->meaning : CodeOfStatus(refusal.status);
}

bool HadNoEffect(const Refusal& refusal) {
  if (const KnownWord* known = Find(refusal.answer.code)) return known->no_effect;
  switch (refusal.status) {
    case 404:
    case 408:
    case 409:
    case 412:
    case 425:
    case 429: return false;
    case 501:
    case 507: return true;
    default: return refusal.status >= 300 && refusal.status < 500;
  }
}

Status ToStatus(const Refusal& refusal, std::string_view what, std::string_view bucket, std::string_view region) {
  const ErrorAnswer& answer = refusal.answer;
  std::string message = Cat(what, ": the store answered ", refusal.status);
  if (!answer.code.empty()) message += Cat(' ', answer.code);
  std::string details = answer.message.substr(0, 500);
  while (details.ends_with('.')) details.pop_back();
  if (!answer.request_id.empty()) details += Cat(details.empty() ? "" : "; ", "request ", answer.request_id);
  if (!details.empty()) message += Cat(" (", details, ')');
  message += '.';

  const KnownWord* known = Find(answer.code);
  Code code = RefusalCode(refusal);
  bool elsewhere = !answer.region.empty() && answer.region != region && (code == Code::kInvalidArgument || code == Code::kDenied);
  if (elsewhere) {
    message += Cat(" The bucket ", bucket, " is in the region ", answer.region, ", not in ", region,
                   ": set ?region=", answer.region, " or AWS_REGION=", answer.region, '.');
    code = Code::kInvalidArgument;
  } else if (std::string_view hint = known != nullptr ? known->hint : HintOfStatus(refusal.status); !hint.empty()) {
    message += Cat(' ', hint);
    if (hint == kCheckClock && !refusal.store_date.empty()) message += Cat(" The store's clock says ", refusal.store_date, '.');
    if (answer.code == "NoSuchBucket") message += Cat(" The bucket is called ", bucket, '.');
    if (!answer.endpoint.empty()) message += Cat(" The store names this endpoint: ", answer.endpoint, '.');
  }
  if (!refusal.location.empty()) message += Cat(" It points to ", refusal.location.substr(0, refusal.location.find('?')), '.');
  Status status(code, std::move(message));
  return refusal.retry_after ? std::move(status).WithRetryAfter(*refusal.retry_after) : status;
}

}  // namespace headrace
