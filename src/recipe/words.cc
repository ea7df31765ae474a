#include "recipe/words.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/nearest.h"
#include "base/size.h"
#include "base/text.h"

namespace headrace {
namespace {

constexpr size_t kMostShown = 20;

// For messages: long and odd texts must not spoil a terminal.
std::string Shown(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string out = "\"";
  for (char c : text.substr(0, kMost))
    out += c == '\n' ? std::string("\\n") : static_cast<unsigned char>(c) < 32 ? std::string("?") : std::string(1, c);
  return out + (text.size() > kMost ? "…\"" : "\"");
}

}  // namespace

std::string Listed(std::span<const std::string_view> words) {
  std::string out;
  for (std::string_view word : words) out += Cat(out.empty() ? "" : ", ", word);
  return out;
}

std::string DidYouMean(std::string_view word, std::span<const std::string_view> known) {
  std::string_view near = Nearest(word, known);
  if (!near.empty()) return Cat("; did you mean ", near, "?");
  return known.empty() ? "" : Cat("; there ", known.size() == 1 ? "is " : "are ", Listed(known));
}

std::optional<uint64_t> ParseCount(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] >= '0' && text[i - 1] <= '9';
    if (text[i] == '_' && between) continue;
    digits += text[i];
  }
  uint64_t whole = 0;
  if (ParseNumber(digits, whole)) return whole;
  double scale = 1;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'k':
      case 'K': scale = 1e3; break;
      case 'M': scale = 1e6; break;
      case 'G':
      case 'B': scale = 1e9; break;
      case 'T': scale = 1e12; break;
      default: break;
    }
    if (scale != 1) digits.pop_back();
  }
  if (digits.empty() || !(digits.front() >= '0' && digits.front() <= '9')) return std::nullopt;
  double value = 0;
  auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failure != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  value *= scale;
  // Beyond 2^53 a fraction could not be told from none.
  if (!(value <= 9e15)) return std::nullopt;
  const double rounded = std::round(value);
  if (std::abs(value - rounded) > 1e-6 * scale) return std::nullopt;
  return static_cast<uint64_t>(rounded);
}

void Problems::Add(Mark mark, std::string_view path, std::string_view what, Code code) {
  found_.push_back({mark, Cat(MarkText(name_, mark), ": ", path, path.empty() ? "" : ": ", what), code});
}

Status Problems::ToStatus() const {
  if (found_.empty()) return Status::Ok();
  std::vector<const Problem*> order;
  for (const Problem& problem : found_) order.push_back(&problem);
  std::ranges::stable_sort(order, {}, [](const Problem* p) { return std::pair(p->mark.line, p->mark.column); });
  std::string text;
  Code code = Code::kUnsupported;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i]->code != Code::kUnsupported) code = order[i]->code;
    if (i < kMostShown) text += Cat(i == 0 ? "" : "\n", order[i]->text);
  }
  if (order.size() > kMostShown) text += Cat("\n… and ", order.size() - kMostShown, " more");
  return Status(code, std::move(text));
}

void Word::Fail(std::string_view what) const { problems->Add(yaml->mark, path, what); }

void Word::Unsupported(std::string_view what) const { problems->Add(yaml->mark, path, what, Code::kUnsupported); }

std::string Word::Found() const {
  switch (yaml->kind) {
    case Yaml::kNull: return "nothing";
    case Yaml::kScalar:
      return yaml->quoted || yaml->scalar.empty() ? Shown(yaml->scalar)
             : yaml->scalar.size() > 60           ? Shown(yaml->scalar)
                                                  : yaml->scalar;
    case Yaml::kList: return yaml->list.empty() ? "an empty list" : "a list";
    case Yaml::kMap: return yaml->map.empty() ? "an empty map" : "a map";
  }
  return "";
}

void Word::Wanted(std::string_view meaning) const { Fail(Cat(Found(), " is not ", meaning)); }

Word Word::Below(std::string_view key, const Yaml& value) const {
  return {&value, path.empty() ? std::string(key) : Cat(path, ".", key), problems};
}

std::vector<Word> Word::Items() const {
  std::vector<Word> items;
  for (const Yaml& item : yaml->list) items.push_back({&item, Cat(path, "[", items.size(), "]"), problems});
  return items;
}

std::optional<std::string> Word::Text(std::string_view meaning) const {
  if (IsScalar() && !yaml->scalar.empty()) return yaml->scalar;
  Wanted(meaning);
  return std::nullopt;
}

std::optional<bool> Word::Flag() const {
  if (IsScalar()) {
    const std::string lower = Lower(yaml->scalar);
    if (lower == "true" || lower == "yes" || lower == "on") return true;
    if (lower == "false" || lower == "no" || lower == "off") return false;
  }
  Wanted("true or false");
  return std::nullopt;
}

std::optional<uint64_t> Word::Count(uint64_t least, uint64_t most, std::string_view meaning) const {
  std::optional<uint64_t> count = IsScalar() ? ParseCount(yaml->scalar) : std::nullopt;
  if (count && *count >= least && *count <= most) return count;
  std::string range =
      most == UINT64_MAX ? Cat("a whole number of ", least, " or more") : Cat("a whole number from ", least, " to ", most);
  Wanted(Cat(range, meaning.empty() ? "" : " (", meaning, meaning.empty() ? "" : ")"));
  return std::nullopt;
}

std::optional<double> Word::Number(std::string_view meaning) const {
  if (IsScalar()) {
    const std::string& text = yaml->scalar;
    double value = 0;
    auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value >= 0) return value;
  }
  Wanted(meaning);
  return std::nullopt;
}

std::optional<uint64_t> Word::Bytes() const {
  if (IsScalar()) {
    Result<uint64_t> bytes = ParseSize(yaml->scalar);
    if (bytes.ok() && *bytes > 0) return *bytes;
  }
  Wanted("a size like 512KB, 1MB or 50GB");
  return std::nullopt;
}

std::optional<std::vector<std::string>> Word::Texts(std::string_view meaning) const {
  if (IsScalar()) {
    std::optional<std::string> one = Text(meaning);
    if (!one) return std::nullopt;
    return std::vector<std::string>{*std::move(one)};
  }
  if (!IsList() || yaml->list.empty()) {
    Wanted(meaning);
    return std::nullopt;
  }
  std::vector<std::string> texts;
  std::set<std::string> seen;
  bool good = true;
  for (const Word& item : Items()) {
    std::optional<std::string> text = item.Text(meaning);
    if (!text) {
      good = false;
    } else if (!seen.insert(*text).second) {
      item.Fail(Cat(*text, " is there twice"));
      good = false;
    } else {
      texts.push_back(*std::move(text));
    }
  }
  if (!good) return std::nullopt;
  return texts;
}

std::optional<size_t> Word::Choice(std::span<const std::string_view> words, std::string_view meaning) const {
  if (IsScalar()) {
    auto found = std::ranges::find(words, yaml->scalar);
    if (found != words.end()) return found - words.begin();
    Fail(Cat(Found(), " is not ", meaning, DidYouMean(yaml->scalar, words)));
  } else {
    Fail(Cat(Found(), " is not ", meaning, DidYouMean("", words)));
  }
  return std::nullopt;
}

Keys::Keys(const Word& word, std::span<const std::string_view> known, std::string_view meaning) : word_(word) {
  if (!word.IsMap()) {
    word.Fail(Cat(word.Found(), " is not ", meaning));
    return;
  }
  for (const Yaml::Entry& entry : word.yaml->map) {
    if (std::ranges::find(known, entry.key) != known.end()) continue;
    Word below = word.Below(entry.key, entry.value);
    word.problems->Add(entry.mark, below.path, Cat("no such key", DidYouMean(entry.key, known)));
    misspelt_.emplace(known.size() == 1 ? known.front() : Nearest(entry.key, known));
  }
}

std::optional<Word> Keys::Get(std::string_view key) const {
  if (!word_.IsMap()) return std::nullopt;
  const Yaml* value = word_.yaml->Find(key);
  if (value == nullptr) return std::nullopt;
  Word below = word_.Below(key, *value);
  if (value->kind == Yaml::kNull) {
    below.Fail("nothing stands behind this key; leave it out for its default");
    return std::nullopt;
  }
  return below;
}

std::optional<Word> Keys::Need(std::string_view key, std::string_view meaning) const {
  if (!word_.IsMap()) return std::nullopt;
  if (word_.yaml->Find(key) == nullptr && misspelt_.contains(key)) return std::nullopt;
  if (word_.yaml->Find(key) == nullptr) {
    word_.problems->Add(word_.yaml->mark, word_.path.empty() ? std::string(key) : Cat(word_.path, ".", key),
                        Cat("is missing: ", meaning));
    return std::nullopt;
  }
  return Get(key);
}

}  // namespace headrace
