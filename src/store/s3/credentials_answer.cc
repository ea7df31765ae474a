#include "store/s3/credentials_answer.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace headrace {
namespace {

using nlohmann::json;

// The text of a field; empty if it is absent or null. False if it is anything else.
bool TakeText(const json& object, const std::string& name, std::string& out) {
  auto found = object.find(name);
  if (found == object.end() || found->is_null()) return true;
  if (!found->is_string()) return false;
  out = found->get<std::string>();
  return true;
}

bool TakeDigits(std::string_view& text, size_t count, int& value) {
  if (text.size() < count) return false;
  uint64_t number = 0;
  if (!ParseNumber(text.substr(0, count), number)) return false;
  text.remove_prefix(count);
  value = static_cast<int>(number);
  return true;
}

bool TakeSign(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// Minutes east of Greenwich.
bool TakeZone(std::string_view text, int& minutes) {
  minutes = 0;
  if (text == "Z" || text == "z" || text == "UTC") return true;
  bool west = text.starts_with('-');
  int hour = 0, minute = 0;
  if (!TakeSign(text, "+-") || !TakeDigits(text, 2, hour)) return false;
  TakeSign(text, ":");
  if (!text.empty() && !TakeDigits(text, 2, minute)) return false;
  minutes = (hour * 60 + minute) * (west ? -1 : 1);
  return text.empty() && hour < 24 && minute < 60;
}

}  // namespace

Result<WallTime> ParseTimestamp(std::string_view text) {
  const Status refused(Code::kInvalidArgument, "not a time like 2026-01-02T03:04:05Z");
  int year, month, day, hour, minute, second, zone;
  if (!TakeDigits(text, 4, year) || !TakeSign(text, "-") || !TakeDigits(text, 2, month) || !TakeSign(text, "-") ||
      !TakeDigits(text, 2, day) || !TakeSign(text, "Tt ") || !TakeDigits(text, 2, hour) || !TakeSign(text, ":") ||
      !TakeDigits(text, 2, minute) || !TakeSign(text, ":") || !TakeDigits(text, 2, second)) {
    return refused;
  }
  // Fractions of a second do not matter to anybody here.
  if (TakeSign(text, ".,")) {
    size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0) return refused;
    text.remove_prefix(digits);
  }
  if (!TakeZone(text, zone)) return refused;
  // The year 9999 is a popular way to say "never", and does not fit into nanoseconds.
  year = std::min(year, 2200);
  auto date = std::chrono::year_month_day(std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                          std::chrono::day(static_cast<unsigned>(day)));
  if (year < 1970 || !date.ok() || hour > 23 || minute > 59 || second > 60) return refused;
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(hour) + std::chrono::minutes(minute - zone) +
         std::chrono::seconds(second);
}

std::string FormatTimestamp(WallTime time) {
  std::time_t seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return std::string(text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts));
}

Status CheckCredentials(const Credentials& credentials) {
  auto check = [&](const std::string& value, std::string_view what) {
    bool legal = std::all_of(value.begin(), value.end(), [](char c) { return c > 0x20 && c < 0x7F; });
    if (legal) return Status::Ok();
    return Status(Code::kInvalidArgument, Cat(what, " from ", credentials.origin,
                                              " holds a blank, a control character or one that is not ASCII: copy it again"));
  };
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty()) {
    return Status(Code::kInvalidArgument, Cat(credentials.access_key_id.empty() ? "the access key id" : "the secret access key",
                                              " from ", credentials.origin, " is missing"));
  }
  HR_RETURN_IF_ERROR(check(credentials.access_key_id, "the access key id"));
  HR_RETURN_IF_ERROR(check(credentials.secret_access_key, "the secret access key"));
  return check(credentials.session_token, "the session token");
}

Result<Credentials> ParseCredentialsJson(std::string_view text, const std::string& token_name, const std::string& origin) {
  // The parser's own complaint would quote the text.
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return Status(Code::kUnavailable, Cat("the answer of ", origin, " is not a JSON object"));
  std::string code, message, expiration;
  if (TakeText(object, "Code", code) && !code.empty() && code != "Success") {
    if (!TakeText(object, "Message", message)) message.clear();
    return Status(Code::kDenied, Cat(origin, " answered ", code, message.empty() ? "" : ": ", message));
  }
  Credentials credentials;
  credentials.origin = origin;
  const std::pair<const std::string, std::string*> fields[] = {{"AccessKeyId", &credentials.access_key_id},
                                                               {"SecretAccessKey", &credentials.secret_access_key},
                                                               {token_name, &credentials.session_token},
                                                               {"Expiration", &expiration}};
  for (const auto& [name, value] : fields) {
    if (!TakeText(object, name, *value))
      return Status(Code::kUnavailable, Cat("`", name, "` in the answer of ", origin, " is not text"));
    bool needed = value == &credentials.access_key_id || value == &credentials.secret_access_key;
    if (needed && value->empty()) return Status(Code::kUnavailable, Cat("the answer of ", origin, " has no `", name, "`"));
  }
  HR_RETURN_IF_ERROR(CheckCredentials(credentials));
  if (!expiration.empty()) {
    Result<WallTime> time = ParseTimestamp(expiration);
    if (!time.ok()) return time.status().Annotate(Cat("`Expiration` in the answer of ", origin));
    credentials.expires = *time;
  }
  return credentials;
}

std::string Redact(std::string text, std::string_view secret) {
  if (secret.empty()) return text;
  for (size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at + 3))
    text.replace(at, secret.size(), "***");
  return text;
}

}  // namespace headrace
