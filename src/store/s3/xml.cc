#include "store/s3/xml.h"

#include <charconv>

#include "base/text.h"

namespace headrace {
namespace {

constexpr size_t kMaxDepth = 32;
constexpr std::string_view kSpace = " \t\r\n";

bool IsNameEnd(char c) {
  return kSpace.find(c) != std::string_view::npos || c == '/' || c == '>' || c == '<' || c == '=' || c == '&';
}

bool AppendUtf8(std::string& out, uint32_t point) {
  bool is_character = point == '\t' || point == '\n' || point == '\r' || (point >= 0x20 && point < 0xD800) ||
                      (point >= 0xE000 && point < 0xFFFE) || (point >= 0x10000 && point <= 0x10FFFF);
  if (!is_character) return false;
  auto tail = [&](int shift) { out += static_cast<char>(0x80 | (point >> shift & 0x3F)); };
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xC0 | point >> 6);
    tail(0);
  } else if (point < 0x10000) {
    out += static_cast<char>(0xE0 | point >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | point >> 18);
    tail(12), tail(6), tail(0);
  }
  return true;
}

}  // namespace

Status XmlScanner::Broken(std::string_view why) const {
  return Status(Code::kUnavailable, Cat("the answer is not proper XML: ", why, " at byte ", place_, " of ", document_.size()));
}

Result<XmlScanner::Event> XmlScanner::Next() {
  if (drop_last_) {
    path_.resize(open_.back());
    open_.pop_back();
    drop_last_ = false;
  }
  if (close_next_) {
    close_next_ = false;
    leaf_ = false;
    drop_last_ = true;
    text_.clear();
    return Event::kClose;
  }
  while (place_ < document_.size()) {
    if (document_[place_] != '<') {
      HR_RETURN_IF_ERROR(TakeText());
    } else if (At("<!--")) {
      HR_RETURN_IF_ERROR(SkipTo("-->"));
    } else if (At("<?")) {
      HR_RETURN_IF_ERROR(SkipTo("?>"));
    } else if (At("<![CDATA[")) {
      size_t begin = place_ + 9;
      HR_RETURN_IF_ERROR(SkipTo("]]>"));
      if (open_.empty()) return Broken("text outside of the root element");
      text_.append(document_.substr(begin, place_ - 3 - begin));
    } else if (At("<!")) {
      return Broken("a document type");
    } else {
      return TakeTag();
    }
  }
  if (!open_.empty()) return Broken(Cat("the end came before <", path_, "> was closed"));
  if (!had_root_) return Broken("no element at all");
  return Event::kEnd;
}

Status XmlScanner::TakeText() {
  size_t end = std::min(document_.find_first_of("<&", place_), document_.size());
  std::string_view piece = document_.substr(place_, end - place_);
  if (open_.empty() && piece.find_first_not_of(" \t\r\n\xEF\xBB\xBF") != std::string_view::npos) {
    return Broken("text outside of the root element");
  }
  text_.append(piece);
  place_ = end;
  if (place_ < document_.size() && document_[place_] == '&') return TakeEntity();
  return {};
}

Status XmlScanner::TakeEntity() {
  size_t end = document_.find(';', place_);
  if (open_.empty() || end == std::string_view::npos || end - place_ > 12) return Broken("a stray '&'");
  std::string_view name = document_.substr(place_ + 1, end - place_ - 1);
  constexpr std::pair<std::string_view, char> kNamed[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [known, c] : kNamed) {
    if (name != known) continue;
    text_ += c;
    place_ = end + 1;
    return {};
  }
  if (!name.starts_with('#')) return Broken("an unknown entity");
  bool hex = name.starts_with("#x");
  std::string_view digits = name.substr(hex ? 2 : 1);
  uint32_t point = 0;
  auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), point, hex ? 16 : 10);
  if (error != std::errc() || stop != digits.data() + digits.size() || !AppendUtf8(text_, point))
    return Broken("a bad character reference");
  place_ = end + 1;
  return {};
}

Status XmlScanner::SkipTo(std::string_view end) {
  size_t at = document_.find(end, place_ + 2);
  if (at == std::string_view::npos) return Broken(Cat("no ", end));
  place_ = at + end.size();
  return {};
}

Result<std::string_view> XmlScanner::TakeName() {
  size_t begin = place_;
  while (place_ < document_.size() && !IsNameEnd(document_[place_])) ++place_;
  std::string_view name = document_.substr(begin, place_ - begin);
  name.remove_prefix(std::min(name.size(), name.rfind(':') + 1));
  if (name.empty()) return Broken("a tag without a name");
  return name;
}

Result<XmlScanner::Event> XmlScanner::TakeTag() { return At("</") ? TakeCloseTag() : TakeOpenTag(); }

Result<XmlScanner::Event> XmlScanner::TakeOpenTag() {
  if (open_.empty() && had_root_) return Broken("a second root element");
  if (open_.size() >= kMaxDepth) return Broken("too many elements inside each other");
  ++place_;
  HR_ASSIGN_OR_RETURN(std::string_view name, TakeName());
  char quote = 0;
  for (; place_ < document_.size(); ++place_) {
    char c = document_[place_];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '>') {
      break;
    } else if (c == '<') {
      return Broken("a tag inside a tag");
    }
  }
  if (place_ >= document_.size()) return Broken("a tag without an end");
  close_next_ = document_[place_ - 1] == '/';
  ++place_;
  had_root_ = true;
  open_.push_back(path_.size());
  if (!path_.empty()) path_ += '/';
  path_ += name;
  text_.clear();
  leaf_ = true;
  return Event::kOpen;
}

Result<XmlScanner::Event> XmlScanner::TakeCloseTag() {
  place_ += 2;
  HR_ASSIGN_OR_RETURN(std::string_view name, TakeName());
  place_ = std::min(document_.find_first_not_of(kSpace, place_), document_.size());
  if (place_ >= document_.size() || document_[place_] != '>') return Broken("a closing tag without an end");
  if (open_.empty()) return Broken("a closing tag without an element");
  size_t begin = open_.back() == 0 ? 0 : open_.back() + 1;
  if (std::string_view(path_).substr(begin) != name) return Broken(Cat("</", name.substr(0, 40), "> closes <", path_, ">"));
  ++place_;
  if (!leaf_) text_.clear();
  leaf_ = false;
  drop_last_ = true;
  return Event::kClose;
}

std::string XmlEscape(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&apos;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace headrace
