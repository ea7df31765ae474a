#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "source/lake.h"
#include "store/store_options.h"
#include "store/uri.h"

namespace headrace {
namespace {

constexpr size_t kMaxExpansions = 4'000'000;

bool IsNumber(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.size() < 18 && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

bool IsPadded(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text.starts_with('0');
}

std::string Padded(int64_t number, size_t width) {
  std::string digits = Cat(number < 0 ? -number : number);
  const size_t sign = number < 0 ? 1 : 0;
  if (digits.size() + sign < width) digits.insert(0, width - sign - digits.size(), '0');
  return number < 0 ? "-" + digits : digits;
}

// {first..last} or {first..last..step}, as bash has it.
std::vector<std::string> Range(std::string_view inside) {
  size_t dots = inside.find("..");
  if (dots == std::string_view::npos) return {};
  std::string_view first = inside.substr(0, dots), last = inside.substr(dots + 2), step = "1";
  if (size_t more = last.find(".."); more != std::string_view::npos) {
    step = last.substr(more + 2);
    last = last.substr(0, more);
  }
  if (!IsNumber(step)) return {};
  const int64_t by = std::max<int64_t>(1, std::abs(std::stoll(std::string(step))));
  const bool letters = first.size() == 1 && last.size() == 1 && std::isalpha(static_cast<unsigned char>(first[0])) &&
                       std::isalpha(static_cast<unsigned char>(last[0]));
  std::vector<std::string> texts;
  int64_t at, end;
  size_t width = 0;
  if (letters) {
    at = first[0];
    end = last[0];
  } else if (IsNumber(first) && IsNumber(last)) {
    at = std::stoll(std::string(first));
    end = std::stoll(std::string(last));
    if (IsPadded(first) || IsPadded(last)) width = std::max(first.size(), last.size());
  } else {
    return {};
  }
  const bool up = at <= end;
  for (; up ? at <= end : at >= end; at += up ? by : -by) {
    texts.push_back(letters ? std::string(1, static_cast<char>(at)) : Padded(at, width));
    if (texts.size() > kMaxExpansions) break;
  }
  return texts;
}

// The parts between the commas of the outermost level.
std::vector<std::string> Alternatives(std::string_view inside) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (char c : inside) {
    if (c == '{') ++depth;
    if (c == '}') --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts.size() == 1 ? std::vector<std::string>() : parts;
}

bool MatchSet(std::string_view& pattern, char c) {
  size_t end = pattern.find(']', pattern.size() > 1 && (pattern[1] == '!' || pattern[1] == '^') ? 3 : 2);
  if (end == std::string_view::npos) {
    const bool same = pattern[0] == c;
    pattern.remove_prefix(1);
    return same;
  }
  std::string_view set = pattern.substr(1, end - 1);
  pattern.remove_prefix(end + 1);
  const bool negated = set.starts_with('!') || set.starts_with('^');
  if (negated) set.remove_prefix(1);
  bool in = false;
  for (size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      in |= static_cast<unsigned char>(set[i]) <= static_cast<unsigned char>(c) &&
            static_cast<unsigned char>(c) <= static_cast<unsigned char>(set[i + 2]);
      i += 2;
    } else {
      in |= set[i] == c;
    }
  }
  return in != negated;
}

bool MatchName(std::string_view pattern, std::string_view name) {
  if (name.starts_with('.') && !pattern.starts_with('.')) return false;
  std::string_view after_star, retry;
  bool star = false;
  while (true) {
    if (!pattern.empty() && pattern.front() == '*') {
      while (!pattern.empty() && pattern.front() == '*') pattern.remove_prefix(1);
      star = true;
      after_star = pattern;
      retry = name;
      continue;
    }
    bool fits = false;
    if (pattern.empty() && name.empty()) return true;
    if (!pattern.empty() && !name.empty()) {
      const char c = name.front();
      if (pattern.front() == '[') {
        fits = MatchSet(pattern, c);
      } else {
        fits = pattern.front() == '?' || pattern.front() == c;
        pattern.remove_prefix(1);
      }
      name.remove_prefix(1);
    }
    if (fits) continue;
    if (!star || retry.empty()) return false;
    retry.remove_prefix(1);
    name = retry;
    pattern = after_star;
  }
}

bool MatchSegments(const std::vector<std::string>& pattern, size_t p, const std::vector<std::string>& key, size_t k) {
  while (p < pattern.size()) {
    if (pattern[p] == "**") {
      while (p + 1 < pattern.size() && pattern[p + 1] == "**") ++p;
      for (size_t at = k; at < key.size(); ++at) {
        if (p + 1 == pattern.size()
                ? std::all_of(key.begin() + k, key.end(), [](const auto& name) { return !name.starts_with('.'); })
                : MatchSegments(pattern, p + 1, key, at)) {
          return true;
        }
        if (key[at].starts_with('.')) return false;
      }
      return false;
    }
    if (k == key.size() || !MatchName(pattern[p], key[k])) return false;
    ++p;
    ++k;
  }
  return k == key.size();
}

Status Wrong(const std::string& written, std::string_view why) {
  return Status(Code::kInvalidArgument, Cat("cannot use the files \"", written, "\": ", why));
}

}  // namespace

Result<std::vector<std::string>> ExpandBraces(const std::string& text) {
  for (size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open + 1)) {
    int depth = 1;
    size_t close = open + 1;
    for (; close < text.size() && depth > 0; ++close) depth += text[close] == '{' ? 1 : text[close] == '}' ? -1 : 0;
    if (depth > 0) continue;
    const std::string_view inside = std::string_view(text).substr(open + 1, close - open - 2);
    std::vector<std::string> choices = Range(inside);
    if (choices.empty()) choices = Alternatives(inside);
    if (choices.empty()) continue;
    HR_ASSIGN_OR_RETURN(std::vector<std::string> tails, ExpandBraces(text.substr(close)));
    std::vector<std::string> all;
    for (const std::string& choice : choices) {
      HR_ASSIGN_OR_RETURN(std::vector<std::string> inner, ExpandBraces(choice));
      for (const std::string& middle : inner) {
        for (const std::string& tail : tails) {
          all.push_back(text.substr(0, open) + middle + tail);
          if (all.size() > kMaxExpansions) {
            return Wrong(text, Cat("its braces stand for more than ", kMaxExpansions, " names; use a glob instead"));
          }
        }
      }
    }
    return all;
  }
  return std::vector<std::string>{text};
}

bool HasGlob(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

bool MatchGlob(std::string_view pattern, std::string_view key) {
  return pattern == key || MatchSegments(Split(pattern, '/'), 0, Split(key, '/'), 0);
}

Result<LakePattern> ParsePattern(const std::string& written, const std::string& folder) {
  LakePattern pattern{.written = written, .root = {}, .query = {}, .globs = {}};
  std::string text = written;
  std::string rest;
  const size_t colon = text.find("://");
  if (colon != std::string::npos) {
    // A '?' is a glob, unless a word follows that is an option of stores.
    for (size_t mark = text.find('?'); mark != std::string::npos; mark = text.find('?', mark + 1)) {
      std::string_view word = std::string_view(text).substr(mark + 1);
      if (word.find('=') == std::string_view::npos || FindStoreOption(word.substr(0, word.find_first_of("=&"))) == nullptr)
        continue;
      HR_ASSIGN_OR_RETURN(StoreUri options,
                          ParseStoreUri(text.substr(0, colon + 3) + (text.starts_with("file") ? "/x" : "x") + text.substr(mark)));
      pattern.query = std::move(options.query);
      text.resize(mark);
      break;
    }
  }
  if (colon != std::string::npos && Lower(text.substr(0, colon)) != "file") {
    const size_t slash = text.find('/', colon + 3);
    if (slash == std::string::npos || slash + 1 == text.size()) {
      return Wrong(written, "name the files in it: s3://bucket/folder/*.parquet");
    }
    // Only the store's own part is read as a URI, so that a glob is left alone.
    HR_ASSIGN_OR_RETURN(StoreUri uri, ParseStoreUri(text.substr(0, slash)));
    pattern.root = uri.ToString();
    if (!PercentDecode(text.substr(slash + 1), rest))
      return Wrong(written, "a % without two hexadecimal digits; write %25 for a %");
  } else {
    std::string path = text;
    std::filesystem::path fixed = "/";
    if (colon != std::string::npos) {
      std::string_view encoded = std::string_view(text).substr(colon + 3);
      if (!encoded.starts_with('/')) return Wrong(written, "file:// takes three slashes and an absolute path");
      if (!PercentDecode(encoded, path)) return Wrong(written, "a % without two hexadecimal digits; write %25 for a %");
    }
    if (!path.starts_with('/')) {
      std::error_code failed;
      fixed = std::filesystem::absolute(folder.empty() ? "." : folder, failed);
    }
    // Folders without anything to expand belong to the root; the last name never does.
    size_t begin = 0;
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', begin)) {
      std::string name = path.substr(begin, slash - begin);
      if (HasGlob(name) || name.find('{') != std::string::npos || path.find_first_not_of('/', slash) == std::string::npos) break;
      if (!name.empty()) fixed /= name;
      begin = slash + 1;
    }
    rest = path.substr(begin);
    pattern.root = fixed.lexically_normal().string();
    while (pattern.root.size() > 1 && pattern.root.ends_with('/')) pattern.root.pop_back();
  }
  while (rest.ends_with('/')) rest.pop_back();
  while (rest.starts_with("./")) rest.erase(0, 2);
  if (rest.empty() || rest == "." || rest == "..") {
    return Wrong(written, "name the files: a path, a glob such as *.parquet, or a folder by its name");
  }
  HR_ASSIGN_OR_RETURN(pattern.globs, ExpandBraces(rest));
  return pattern;
}

}  // namespace headrace
