// The forms in which others hand us credentials, taken apart with care: what is wrong is named, what it says is not quoted.
#pragma once

#include <string>
#include <string_view>

#include "headrace/clock.h"
#include "headrace/result.h"
#include "store/s3/credentials.h"

namespace headrace {

// The JSON object of metadata services and of `credential_process`: AccessKeyId, SecretAccessKey, `token_name`, Expiration.
// `origin` names the giver in messages and in what is returned. An object with a `Code` other than Success is the giver's own
// error: kDenied.
Result<Credentials> ParseCredentialsJson(std::string_view json, const std::string& token_name, const std::string& origin);

// ISO 8601 with a zone: 2026-01-02T03:04:05Z, 2026-01-02T03:04:05.678+01:00.
Result<WallTime> ParseTimestamp(std::string_view text);
// 2026-01-02T03:04:05Z
std::string FormatTimestamp(WallTime time);

// Ok if all parts can go into a header: no blanks, no control characters, nothing empty that must be there.
Status CheckCredentials(const Credentials& credentials);

// `text` with every `secret` in it blotted out.
std::string Redact(std::string text, std::string_view secret);

}  // namespace headrace
