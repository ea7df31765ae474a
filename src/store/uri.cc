#include "store/uri.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/nearest.h"
#include "base/text.h"
#include "store/store_options.h"

namespace headrace {
namespace {

constexpr std::string_view kSupported = "s3://bucket/prefix, file:///path, a plain path, or mem://name";

Status Refuse(Code code, std::string_view uri, std::string_view why) {
  // The query may hold secrets that somebody put there by mistake.
  std::string shown(uri.substr(0, uri.find('?')));
  if (size_t user = shown.find('@'); user != std::string::npos && shown.find("://") < user) shown.replace(0, user, "…");
  return Status(code, Cat("\"", shown, "\": ", why));
}

Status Wrong(std::string_view uri, std::string_view why) { return Refuse(Code::kInvalidArgument, uri, why); }

// What stands before "://", in small letters; nothing if this is a plain path.
std::optional<std::string> SchemeOf(std::string_view text) {
  size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  std::string scheme = Lower(text.substr(0, colon));
  bool letters = std::ranges::all_of(
      scheme, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.'; });
  return letters ? std::optional(scheme) : std::nullopt;
}

Status UnknownScheme(std::string_view uri, const std::string& scheme) {
  auto unsupported = [&](std::string_view hint) {
    return Refuse(Code::kUnsupported, uri, Cat(scheme, ":// is not spoken here: ", hint));
  };
  if (scheme == "gs" || scheme == "gcs") {
    return unsupported(
        "reach Google Cloud Storage through its S3-compatible endpoint, s3://bucket?endpoint=https://storage.googleapis.com, with HMAC keys");
  }
  if (scheme == "az" || scheme == "abfs" || scheme == "abfss" || scheme == "adl" || scheme == "wasb" || scheme == "wasbs") {
    return unsupported(
        "Azure has no S3-compatible endpoint of its own; put a gateway that has one before it, s3://bucket?endpoint=https://gateway");
  }
  if (scheme == "http" || scheme == "https") {
    return unsupported(Cat("name the bucket and give the server as its endpoint, s3://bucket?endpoint=", scheme, "://host:port"));
  }
  if (scheme == "s3a" || scheme == "s3n") return unsupported("write s3://");
  if (scheme == "hdfs" || scheme == "nfs" || scheme == "smb") return unsupported("mount it and give the path");
  constexpr std::string_view kSchemes[] = {"s3", "file", "mem"};
  std::string_view near = Nearest(scheme, kSchemes);
  return Wrong(uri, Cat("there is no scheme ", scheme, "://", near.empty() ? "" : Cat("; did you mean ", near, "://?"),
                        " A store is ", kSupported));
}

Result<std::string> Decoded(std::string_view uri, std::string_view part) {
  std::string text;
  if (!PercentDecode(part, text))
    return Wrong(uri, "a % stands there that begins no escape like %20; write %25 for the sign itself");
  if (text.find('\0') != std::string::npos) return Wrong(uri, "it has a zero byte (%00)");
  return text;
}

Result<StorageOptions> ParseQuery(std::string_view uri, std::string_view query) {
  StorageOptions options;
  for (const std::string& word : Split(query, '&')) {
    if (word.empty()) continue;
    size_t equals = word.find('=');
    HR_ASSIGN_OR_RETURN(std::string name, Decoded(uri, word.substr(0, equals)));
    // "?unsigned" alone says yes.
    std::string value = "true";
    if (equals != std::string::npos) {
      HR_ASSIGN_OR_RETURN(value, Decoded(uri, std::string_view(word).substr(equals + 1)));
    }
    if (!options.emplace(name, value).second) return Wrong(uri, Cat("its option \"", name, "\" is there twice"));
  }
  return options;
}

Result<StoreUri> PlainPath(const std::string& text) {
  // s3:/bucket and s3:bucket are slips, and would otherwise become folders of that name.
  for (std::string_view scheme : {"s3:", "mem:", "gs:", "az:", "http:", "https:"}) {
    if (Lower(text).starts_with(scheme))
      return Wrong(text, Cat("write ", scheme, "//…, or ./", text.substr(0, text.find('?')), " for a folder of that name"));
  }
  if (text.starts_with('~')) {
    return Wrong(text, Cat("~ is the shell's word for your home, and no shell has replaced it here; write the whole path, or ./",
                           text, " for a folder of that name"));
  }
  if (size_t mark = text.find('?'); mark != std::string::npos) {
    std::string_view word = std::string_view(text).substr(mark + 1);
    word = word.substr(0, word.find_first_of("=&"));
    if (FindStoreOption(word) != nullptr)
      return Wrong(text, Cat("a plain path has no options; write it as file:///path?", word, "=…"));
  }
  if (text.find('\0') != std::string::npos) return Wrong(text, "it has a zero byte");
  return StoreUri{.scheme = StoreUri::Scheme::kFile, .name = "", .path = text, .query = {}};
}

Result<StoreUri> FilePath(std::string_view text, StoreUri uri, std::string_view rest) {
  if (!rest.starts_with('/')) {
    std::string_view host = rest.substr(0, rest.find('/'));
    if (Lower(host) != "localhost") {
      return Wrong(text, Cat("file:// takes three slashes and a path of this machine, file:///path; \"", host,
                             "\" would be another machine. A relative path is written without file://"));
    }
    rest.remove_prefix(host.size());
    if (rest.empty()) return Wrong(text, "the path is missing, file:///path");
  }
  HR_ASSIGN_OR_RETURN(uri.path, Decoded(text, rest));
  return uri;
}

Result<StoreUri> NamePath(std::string_view text, StoreUri uri, std::string_view rest) {
  bool s3 = uri.scheme == StoreUri::Scheme::kS3;
  std::string_view what = s3 ? "bucket" : "name";
  size_t slash = rest.find('/');
  uri.name = rest.substr(0, slash);
  if (uri.name.find('@') != std::string::npos) {
    return Wrong(
        text,
        "names and secrets do not belong into a URI, which ends up in logs; give them in the environment, a profile, or the storage options");
  }
  if (uri.name.empty()) return Wrong(text, Cat("the ", what, " is missing, ", s3 ? "s3://bucket/prefix" : "mem://name"));
  if (size_t colon = uri.name.find(':'); s3 && colon != std::string::npos) {
    if (uri.name.starts_with("arn:"))
      return Refuse(Code::kUnsupported, text, "ARNs are not spoken here; use the bucket's name or the access point's alias");
    return Wrong(text, Cat("a bucket has no port; give the server as the endpoint, s3://bucket?endpoint=http://", uri.name));
  }
  HR_ASSIGN_OR_RETURN(uri.name, Decoded(text, uri.name));
  if (slash == std::string_view::npos) return uri;
  HR_ASSIGN_OR_RETURN(uri.path, Decoded(text, rest.substr(slash + 1)));
  if (uri.path.ends_with('/')) uri.path.pop_back();
  if (!uri.path.empty()) {
    if (Status key = CheckKey(uri.path); !key.ok()) return Wrong(text, key.message());
  }
  return uri;
}

}  // namespace

std::string StoreUri::ToString() const {
  switch (scheme) {
    case Scheme::kS3: return Cat("s3://", name, path.empty() ? "" : "/", path);
    case Scheme::kMemory: return Cat("mem://", name, path.empty() ? "" : "/", path);
    case Scheme::kFile: break;
  }
  return path;
}

Result<StoreUri> ParseStoreUri(const std::string& text) {
  if (text.empty()) return Status(Code::kInvalidArgument, Cat("the URI of the store is empty; it is ", kSupported));
  std::optional<std::string> scheme = SchemeOf(text);
  // RFC 8089 has file:/path too.
  if (!scheme && Lower(text).starts_with("file:/")) scheme = "file";
  if (!scheme) return PlainPath(text);

  StoreUri uri;
  if (scheme == "s3") {
    uri.scheme = StoreUri::Scheme::kS3;
  } else if (scheme == "file") {
    uri.scheme = StoreUri::Scheme::kFile;
  } else if (scheme == "mem") {
    uri.scheme = StoreUri::Scheme::kMemory;
  } else {
    return UnknownScheme(text, *scheme);
  }
  std::string_view rest = std::string_view(text).substr(text.find(':') + 1);
  if (rest.starts_with("//")) rest.remove_prefix(2);
  if (rest.find('#') != std::string_view::npos) return Wrong(text, "write # as %23");
  if (size_t mark = rest.find('?'); mark != std::string_view::npos) {
    HR_ASSIGN_OR_RETURN(uri.query, ParseQuery(text, rest.substr(mark + 1)));
    rest = rest.substr(0, mark);
  }
  return uri.scheme == StoreUri::Scheme::kFile ? FilePath(text, std::move(uri), rest) : NamePath(text, std::move(uri), rest);
}

}  // namespace headrace
