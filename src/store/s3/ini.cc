#include "store/s3/ini.h"

#include <utility>
#include <vector>

#include "base/text.h"

namespace headrace {
namespace {

struct Line {
  size_t number;
  std::string_view text;  // trimmed
};

class IniParser {
 public:
  explicit IniParser(std::string path) { file_.path = std::move(path); }

  Result<IniFile> Parse(std::string_view text) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    size_t number = 0;
    while (!text.empty()) {
      size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      HR_RETURN_IF_ERROR(Take(line, ++number));
    }
    HR_RETURN_IF_ERROR(FinishValue());
    return std::move(file_);
  }

 private:
  Status Malformed(size_t line, std::string_view why) const {
    return Status(Code::kInvalidArgument, Cat(file_.path, ":", line, ": ", why));
  }

  Status Take(std::string_view raw, size_t number) {
    if (raw.find('\0') != std::string_view::npos || !IsUtf8(raw)) return Malformed(number, "this is not UTF-8 text");
    std::string_view text = Trim(raw);
    if (!text.empty() && (text.front() == '#' || text.front() == ';')) return Status::Ok();
    if (text.empty()) {
      if (value_ != nullptr) lines_.push_back({number, {}});
      return Status::Ok();
    }
    size_t indent = static_cast<size_t>(text.data() - raw.data());
    if (value_ != nullptr && indent > indent_) {
      lines_.push_back({number, text});
      return Status::Ok();
    }
    HR_RETURN_IF_ERROR(FinishValue());
    indent_ = indent;
    return text.front() == '[' ? TakeHeader(text, number) : TakeValue(text, number);
  }

  Status TakeHeader(std::string_view text, size_t number) {
    size_t close = text.rfind(']');
    if (close == std::string_view::npos) return Malformed(number, "the name of a section ends with ']', and this one does not");
    std::string name(Trim(text.substr(1, close - 1)));
    if (name.empty()) return Malformed(number, "this section has no name");
    auto [place, fresh] = file_.sections.try_emplace(std::move(name));
    if (!fresh) {
      return Malformed(number, Cat("this section was already given in line ", place->second.line, "; join the two"));
    }
    section_ = &place->second;
    section_->line = number;
    return Status::Ok();
  }

  Status TakeValue(std::string_view text, size_t number) {
    size_t sign = text.find_first_of("=:");
    if (sign == std::string_view::npos || sign == 0)
      return Malformed(number, "expected `name = value`, `[section]` or a comment");
    if (section_ == nullptr) return Malformed(number, "a value before the first [section]: which profile does it belong to?");
    auto [place, fresh] = section_->values.try_emplace(Lower(Trim(text.substr(0, sign))));
    if (!fresh) return Malformed(number, Cat("this name was already given in line ", place->second.line, " of the same section"));
    value_ = &place->second;
    value_->line = number;
    lines_ = {{number, Trim(text.substr(sign + 1))}};
    return Status::Ok();
  }

  // All lines of the value are known.
  Status FinishValue() {
    if (value_ == nullptr) return Status::Ok();
    while (lines_.size() > 1 && lines_.back().text.empty()) lines_.pop_back();
    bool nested = lines_.size() > 1 && lines_.front().text.empty();
    for (const Line& line : lines_) {
      if (&line != &lines_.front()) value_->text += '\n';
      value_->text += line.text;
      if (!nested || line.text.empty()) continue;
      size_t sign = line.text.find('=');
      if (sign == std::string_view::npos || sign == 0) {
        return Malformed(line.number, Cat("expected `name = value` below the empty value of line ", value_->line));
      }
      value_->nested[Lower(Trim(line.text.substr(0, sign)))] = Trim(line.text.substr(sign + 1));
    }
    value_ = nullptr;
    return Status::Ok();
  }

  IniFile file_;
  IniSection* section_ = nullptr;
  IniValue* value_ = nullptr;
  size_t indent_ = 0;
  std::vector<Line> lines_;  // of the open value
};

}  // namespace

const IniValue* IniSection::Find(const std::string& name) const {
  auto found = values.find(name);
  return found == values.end() ? nullptr : &found->second;
}

const IniSection* IniFile::Find(const std::string& name) const {
  auto found = sections.find(name);
  return found == sections.end() ? nullptr : &found->second;
}

Result<IniFile> ParseIni(std::string_view text, std::string path) { return IniParser(std::move(path)).Parse(text); }

}  // namespace headrace
