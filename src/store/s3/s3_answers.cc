#include "store/s3/s3_answers.h"

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "store/s3/credentials_answer.h"
#include "store/s3/xml.h"

namespace headrace {
namespace {

// Walks a whole document whose root must be `root`; paths are given without it: "Contents/Key".
Status Walk(std::string_view document, std::string_view root, const std::function<Status(std::string_view path)>& on_open,
            const std::function<Status(std::string_view path, const std::string& text)>& on_close) {
  XmlScanner xml(document);
  while (true) {
    HR_ASSIGN_OR_RETURN(XmlScanner::Event event, xml.Next());
    if (event == XmlScanner::Event::kEnd) return {};
    std::string_view path = xml.path();
    if (path.substr(0, path.find('/')) != root) {
      return Status(Code::kUnsupported,
                    Cat("the answer is a <", path.substr(0, path.find('/')).substr(0, 40), ">, not a <", root,
                        ">; check that the endpoint is an S3 server, and whether it wants the bucket's name in the path or "
                        "in the host (addressing)"));
    }
    path.remove_prefix(std::min(path.size(), root.size() + 1));
    if (event == XmlScanner::Event::kOpen) {
      if (on_open) HR_RETURN_IF_ERROR(on_open(path));
    } else {
      HR_RETURN_IF_ERROR(on_close(path, xml.text()));
    }
  }
}

// As forms are encoded: %41 for A, '+' for a space.
bool UrlDecode(std::string text, std::string& out) {
  std::ranges::replace(text, '+', ' ');
  return PercentDecode(text, out);
}

Status Missing(std::string_view root, std::string_view what) {
  return Status(Code::kUnavailable, Cat("the answer <", root, "> has no ", what));
}

}  // namespace

ErrorAnswer ReadErrorAnswer(std::string_view xml) {
  ErrorAnswer answer;
  // What could be read before it broke is better than nothing: this is for messages, and a cut error is still an error.
  Walk(xml, "Error", nullptr, [&](std::string_view path, const std::string& text) {
    if (path == "Code") answer.code = text;
    if (path == "Message") answer.message = text;
    if (path == "RequestId") answer.request_id = text;
    if (path == "Region") answer.region = text;
    if (path == "Endpoint") answer.endpoint = text;
    uint64_t size = 0;
    if (path == "ActualObjectSize" && ParseNumber(text, size)) answer.object_size = size;
    return Status::Ok();
  }).ok();
  return answer;
}

bool IsErrorAnswer(std::string_view xml) {
  XmlScanner scanner(xml);
  Result<XmlScanner::Event> first = scanner.Next();
  return first.ok() && *first == XmlScanner::Event::kOpen && scanner.path() == "Error";
}

std::string PlainETag(std::string_view etag) {
  if (etag.starts_with('"')) etag.remove_prefix(1);
  if (etag.ends_with('"')) etag.remove_suffix(1);
  return std::string(etag);
}

Result<ListPage> ReadListAnswer(std::string_view xml) {
  constexpr std::string_view kRoot = "ListBucketResult";
  ListPage page;
  std::string encoding, truncated;
  size_t keys = 0, sizes = 0;
  HR_RETURN_IF_ERROR(Walk(
      xml, kRoot,
      [&](std::string_view path) {
        if (path == "Contents") page.entries.emplace_back();
        return Status::Ok();
      },
      [&](std::string_view path, const std::string& text) {
        if (path == "EncodingType") encoding = text;
        if (path == "IsTruncated") truncated = Lower(text);
        if (path == "NextContinuationToken") page.next = text;
        if (path == "Contents/Key") {
          page.entries.back().key = text;
          ++keys;
        }
        if (path == "Contents/ETag") page.entries.back().version = PlainETag(text);
        if (path == "Contents/Size") {
          if (!ParseNumber(text, page.entries.back().size)) return Missing(kRoot, "proper <Size>");
          ++sizes;
        }
        if (path == "Contents" && (keys != page.entries.size() || sizes != page.entries.size()))
          return Missing(kRoot, "<Key> or <Size>");
        return Status::Ok();
      }));
  if (truncated != "true" && truncated != "false") return Missing(kRoot, "<IsTruncated>: whether it is complete cannot be told");
  if (truncated == "true" && page.next.empty()) return Missing(kRoot, "<NextContinuationToken>, but is not complete");
  if (truncated == "false") page.next.clear();
  if (encoding == "url") {  // it was asked for, but some servers do not do it, and say so
    for (ListEntry& entry : page.entries) {
      std::string plain;
      if (!UrlDecode(entry.key, plain)) return Missing(kRoot, Cat("proper <Key>: ", entry.key.substr(0, 100)));
      entry.key = std::move(plain);
    }
  }
  return page;
}

Result<std::vector<DeleteRefusal>> ReadDeleteAnswer(std::string_view xml) {
  std::vector<DeleteRefusal> refusals;
  HR_RETURN_IF_ERROR(Walk(
      xml, "DeleteResult",
      [&](std::string_view path) {
        if (path == "Error") refusals.emplace_back();
        return Status::Ok();
      },
      [&](std::string_view path, const std::string& text) {
        if (path == "Error/Key") refusals.back().key = text;
        if (path == "Error/Code") refusals.back().code = text;
        if (path == "Error/Message") refusals.back().message = text;
        return Status::Ok();
      }));
  return refusals;
}

Result<std::string> ReadUploadAnswer(std::string_view xml) {
  std::string id;
  HR_RETURN_IF_ERROR(Walk(xml, "InitiateMultipartUploadResult", nullptr, [&](std::string_view path, const std::string& text) {
    if (path == "UploadId") id = text;
    return Status::Ok();
  }));
  if (id.empty()) return Missing("InitiateMultipartUploadResult", "<UploadId>");
  return id;
}

Status ReadCompleteAnswer(std::string_view xml) {
  return Walk(xml, "CompleteMultipartUploadResult", nullptr, [](std::string_view, const std::string&) { return Status::Ok(); });
}

Result<Credentials> ReadSessionAnswer(std::string_view xml) {
  constexpr std::string_view kRoot = "CreateSessionResult";
  Credentials session;
  std::string expires;
  HR_RETURN_IF_ERROR(Walk(xml, kRoot, nullptr, [&](std::string_view path, const std::string& text) {
    if (path == "Credentials/AccessKeyId") session.access_key_id = text;
    if (path == "Credentials/SecretAccessKey") session.secret_access_key = text;
    if (path == "Credentials/SessionToken") session.session_token = text;
    if (path == "Credentials/Expiration") expires = text;
    return Status::Ok();
  }));
  if (session.access_key_id.empty() || session.secret_access_key.empty() || session.session_token.empty()) {
    return Missing(kRoot, "complete <Credentials>");
  }
  HR_ASSIGN_OR_RETURN(session.expires, ParseTimestamp(expires));
  session.origin = "S3 Express session";
  return session;
}

}  // namespace headrace
