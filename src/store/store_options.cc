#include "store/store_options.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/nearest.h"
#include "base/size.h"
#include "base/text.h"

namespace headrace {
namespace {

using Kind = StoreOption::Kind;

// clang-format off
constexpr StoreOption kOptions[] = {
    // name                 kind               s3     folder secret
    {"endpoint",            Kind::kText,        true,  false, false, "the server, https://host:port; AWS's own for the region if left out"},
    {"region",              Kind::kText,        true,  false, false, "the bucket's region; us-east-1 if nobody says another"},
    {"profile",             Kind::kText,        true,  false, false, "which profile of ~/.aws/config and ~/.aws/credentials"},
    {"access_key_id",       Kind::kText,        true,  false, false, "the access key, with secret_access_key"},
    {"secret_access_key",   Kind::kText,        true,  false, true,  "its secret"},
    {"session_token",       Kind::kText,        true,  false, true,  "the token of temporary keys"},
    {"unsigned",            Kind::kFlag,        true,  false, false, "no credentials at all, for public buckets"},
    {"requester_pays",      Kind::kFlag,        true,  false, false, "we pay for requests and traffic"},
    {"addressing",          Kind::kAddressing,  true,  false, false, "where the bucket's name goes: auto, path (host/bucket/key) or virtual (bucket.host/key)"},
    {"express",             Kind::kFlag,        true,  false, false, "a directory bucket of S3 Express; known by its name if left out"},
    {"allow_http",          Kind::kFlag,        true,  false, false, "plain HTTP also to other machines; loopback always may"},
    {"ca_file",             Kind::kText,        true,  false, false, "certificates to trust, a PEM file"},
    {"connect_timeout",     Kind::kDuration,    true,  false, false, "for a connection to be made"},
    {"timeout",             Kind::kDuration,    true,  true,  false, "for one attempt at a small request; large ones get more"},
    {"retries",             Kind::kCount,       true,  true,  false, "how often a request that failed is tried again at the most"},
    {"concurrency",         Kind::kCount,       true,  true,  false, "requests at once at the most; fewer while the store asks for it"},
    {"hedge",               Kind::kFlag,        true,  false, false, "ask a second time when a read is among the slowest few percent"},
    {"multipart_threshold", Kind::kSize,        true,  false, false, "larger objects go up in parts"},
    {"part_size",           Kind::kSize,        true,  false, false, "the size of such a part, 5MiB to 5GiB"},
    {"sync",                Kind::kFlag,        false, true,  false, "false: do not wait for the disk; a power cut may then lose what was acknowledged"},
};
// clang-format on

// What the same thing is called elsewhere: the AWS files, s3fs, pyarrow, object_store, boto3.
const std::map<std::string_view, std::string_view>& OtherNames() {
  static const std::map<std::string_view, std::string_view> names = {
      {"endpoint_url", "endpoint"},
      {"endpoint_override", "endpoint"},
      {"anonymous", "unsigned"},
      {"anon", "unsigned"},
      {"skip_signature", "unsigned"},
      {"no_sign_request", "unsigned"},
      {"key", "access_key_id"},
      {"access_key", "access_key_id"},
      {"secret", "secret_access_key"},
      {"secret_key", "secret_access_key"},
      {"token", "session_token"},
      {"scheme", "endpoint"},
      {"use_ssl", "allow_http"},
      {"ca_bundle", "ca_file"},
      {"verify", "ca_file"},
      {"request_timeout", "timeout"},
      {"read_timeout", "timeout"},
      {"default_region", "region"},
      {"region_name", "region"},
      {"addressing_style", "addressing"},
      {"virtual_hosted_style_request", "addressing"},
      {"path_style", "addressing"},
      {"force_path_style", "addressing"},
      {"fsync", "sync"},
      {"max_retries", "retries"},
      {"max_concurrency", "concurrency"},
      {"multipart_chunksize", "part_size"},
  };
  return names;
}

std::string Suggestion(std::string_view name) {
  std::string wanted = Lower(name);
  if (wanted.starts_with("aws_")) wanted.erase(0, 4);
  std::ranges::replace(wanted, '-', '_');
  std::string_view near;
  if (auto other = OtherNames().find(wanted); other != OtherNames().end()) {
    near = other->second;
  } else {
    std::vector<std::string_view> names;
    for (const StoreOption& option : kOptions) names.push_back(option.name);
    near = Nearest(wanted, names);
  }
  if (!near.empty()) return Cat("; did you mean \"", near, "\"?");
  std::string all;
  for (const StoreOption& option : kOptions) all += Cat(all.empty() ? "" : ", ", option.name);
  return Cat("; there are ", all);
}

// One value in the making: where it goes, and how to complain about it.
struct Word {
  const StoreOption& option;
  std::string_view value;

  Status Wrong(std::string_view why) const {
    // A secret is not repeated, not even a wrong one.
    return Status(Code::kInvalidArgument, option.secret
                                              ? Cat("the store's option \"", option.name, "\" ", why)
                                              : Cat("the store's option \"", option.name, "\" is \"", value, "\": ", why));
  }

  Result<bool> Flag() const {
    std::string word = Lower(value);
    for (std::string_view yes : {"true", "1", "yes", "on"}) {
      if (word == yes) return true;
    }
    for (std::string_view no : {"false", "0", "no", "off"}) {
      if (word == no) return false;
    }
    return Wrong("write true or false");
  }

  Result<uint64_t> Count() const {
    uint64_t number = 0;
    if (!ParseNumber(value, number)) return Wrong("write a whole number");
    return number;
  }

  Result<uint64_t> Size() const {
    Result<uint64_t> size = ParseSize(value);
    return size.ok() ? size : Wrong("write a size like 64MiB");
  }

  Result<Duration> Time() const {
    Result<Duration> time = ParseDuration(value);
    if (!time.ok()) return Wrong("write a time like 20s or 500ms");
    if (*time <= Duration::zero()) return Wrong("it must be longer than nothing");
    return time;
  }

  Result<S3Config::Addressing> Where() const {
    if (value == "auto") return S3Config::Addressing::kAuto;
    if (value == "path") return S3Config::Addressing::kPath;
    if (value == "virtual") return S3Config::Addressing::kVirtual;
    return Wrong("write auto, path or virtual");
  }
};

Status Apply(const Word& word, StoreSettings& settings) {
  const std::string_view name = word.option.name;
  auto into = [](auto& target, auto result) -> Status {
    if (!result.ok()) return std::move(result).status();
    target = *std::move(result);
    return {};
  };
  const std::pair<std::string_view, std::optional<std::string>*> texts[] = {
      {"endpoint", &settings.endpoint},
      {"region", &settings.region},
      {"profile", &settings.profile},
      {"access_key_id", &settings.access_key_id},
      {"secret_access_key", &settings.secret_access_key},
      {"session_token", &settings.session_token},
      {"ca_file", &settings.ca_file},
  };
  for (auto [text_name, target] : texts) {
    if (name != text_name) continue;
    if (word.value.empty()) return word.Wrong("is empty; leave it out to take it from the environment");
    *target = std::string(word.value);
    return {};
  }
  const std::pair<std::string_view, std::optional<bool>*> flags[] = {
      {"unsigned", &settings.unsigned_requests},
      {"requester_pays", &settings.requester_pays},
      {"allow_http", &settings.allow_http},
      {"express", &settings.express},
      {"hedge", &settings.hedge},
      {"sync", &settings.sync},
  };
  for (auto [flag_name, target] : flags) {
    if (name == flag_name) return into(*target, word.Flag());
  }
  if (name == "addressing") return into(settings.addressing, word.Where());
  if (name == "timeout") return into(settings.timeout, word.Time());
  if (name == "connect_timeout") return into(settings.connect_timeout, word.Time());
  if (name == "multipart_threshold") return into(settings.multipart_threshold, word.Size());
  if (name == "retries") return into(settings.retries, word.Count());
  if (name == "concurrency") {
    HR_RETURN_IF_ERROR(into(settings.concurrency, word.Count()));
    if (*settings.concurrency == 0 || *settings.concurrency > 4096) return word.Wrong("write a number from 1 to 4096");
    return {};
  }
  if (name == "part_size") {
    HR_RETURN_IF_ERROR(into(settings.part_size, word.Size()));
    if (*settings.part_size < 5ull << 20 || *settings.part_size > 5ull << 30) return word.Wrong("S3 takes parts of 5MiB to 5GiB");
    return {};
  }
  return Status(Code::kInternal, Cat("the store's option \"", name, "\" is in the table and means nothing"));
}

Status ApplyAll(const StoreUri& uri, const StorageOptions& options, bool from_uri, StoreSettings& settings) {
  for (const auto& [name, value] : options) {
    const StoreOption* option = FindStoreOption(name);
    if (option == nullptr) {
      return Status(Code::kInvalidArgument, Cat(uri.ToString(), ": a store has no option \"", name, "\"", Suggestion(name)));
    }
    bool applies = uri.scheme == StoreUri::Scheme::kS3     ? option->s3
                   : uri.scheme == StoreUri::Scheme::kFile ? option->folder
                                                           : false;
    if (!applies) {
      std::string_view kind = uri.scheme == StoreUri::Scheme::kS3     ? "an S3 bucket"
                              : uri.scheme == StoreUri::Scheme::kFile ? "a folder"
                                                                      : "memory";
      return Status(Code::kInvalidArgument,
                    Cat(uri.ToString(), ": the option \"", name, "\" is not for ", kind, "; leave it out"));
    }
    if (option->secret && from_uri) {
      return Status(Code::kInvalidArgument,
                    Cat(uri.ToString(), ": \"", name, "\" does not belong into a URI, which ends up in logs; set AWS_",
                        name == "session_token" ? "SESSION_TOKEN" : "SECRET_ACCESS_KEY",
                        ", use a profile, or give it in the storage options"));
    }
    if (Status applied = Apply({*option, value}, settings); !applied.ok()) return applied.Annotate(uri.ToString());
  }
  return {};
}

}  // namespace

std::span<const StoreOption> AllStoreOptions() { return kOptions; }

const StoreOption* FindStoreOption(std::string_view name) {
  auto found = std::ranges::find(kOptions, name, &StoreOption::name);
  return found == std::end(kOptions) ? nullptr : found;
}

Result<StoreSettings> ReadStoreSettings(const StoreUri& uri, const StorageOptions& options) {
  StoreSettings settings;
  HR_RETURN_IF_ERROR(ApplyAll(uri, uri.query, true, settings));
  HR_RETURN_IF_ERROR(ApplyAll(uri, options, false, settings));
  auto wrong = [&](std::string_view why) { return Status(Code::kInvalidArgument, Cat(uri.ToString(), ": ", why)); };
  if (settings.access_key_id.has_value() != settings.secret_access_key.has_value()) {
    return wrong(settings.access_key_id ? "access_key_id comes without secret_access_key; give both or none"
                                        : "secret_access_key comes without access_key_id; give both or none");
  }
  if (settings.session_token && !settings.access_key_id)
    return wrong("session_token comes without access_key_id and secret_access_key");
  if (settings.unsigned_requests.value_or(false) && (settings.access_key_id || settings.profile)) {
    return wrong("unsigned and credentials contradict each other; give one of them");
  }
  return settings;
}

}  // namespace headrace
