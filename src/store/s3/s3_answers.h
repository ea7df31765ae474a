// What S3 says in XML, as values. Every reader fails with kUnavailable if the answer is damaged or incomplete, and with
// kUnsupported if it is a proper answer to something else: then this is no S3 server, and asking again does not help.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/result.h"
#include "headrace/store.h"
#include "store/s3/credentials.h"

namespace headrace {

// The body of a refusal. Fields that it did not have are empty; an answer that is no such body at all has none of them.
struct ErrorAnswer {
  std::string code = {};
  std::string message = {};
  std::string request_id = {};
  std::string region = {};                    // where the bucket really is
  std::string endpoint = {};                  // how to reach it there
  std::optional<uint64_t> object_size = {};  // beside InvalidRange
};
ErrorAnswer ReadErrorAnswer(std::string_view xml);

// True if a body is an error, whatever the status said: S3 begins some long answers with a 200 before it knows.
bool IsErrorAnswer(std::string_view xml);

// A page of ListObjectsV2, keys decoded. `next` is its continuation token.
Result<ListPage> ReadListAnswer(std::string_view xml);

// Without the quotes, which some servers leave out in lists.
std::string PlainETag(std::string_view etag);

struct DeleteRefusal {
  std::string key;
  std::string code;
  std::string message;
};
// The keys that DeleteObjects did not delete.
Result<std::vector<DeleteRefusal>> ReadDeleteAnswer(std::string_view xml);

// The upload id of CreateMultipartUpload.
Result<std::string> ReadUploadAnswer(std::string_view xml);

// Ok if CompleteMultipartUpload says that the object is there.
Status ReadCompleteAnswer(std::string_view xml);

// The credentials of CreateSession (S3 Express).
Result<Credentials> ReadSessionAnswer(std::string_view xml);

}  // namespace headrace
