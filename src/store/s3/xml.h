// The little XML that S3 speaks, read front to back: elements, text, entities, comments, CDATA.
//
//   XmlScanner xml(body);
//   while (true) {
//     HR_ASSIGN_OR_RETURN(XmlScanner::Event event, xml.Next());
//     if (event == XmlScanner::Event::kEnd) break;
//     if (event == XmlScanner::Event::kClose && xml.path() == "Error/Code") code = xml.text();
//   }
//
// Answers come from the network, so nothing is taken for granted: whatever is not well-formed is an error, document types are
// refused, depth is bounded, memory is that of the open elements and one text. Prefixes of names ("s3:Key") and attributes are skipped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/result.h"

namespace headrace {

class XmlScanner {
 public:
  enum class Event {
    kOpen,  // an element begins; `path` ends with it
    kClose,  // it ends; `text` is what stood in it, if it had no elements inside
    kEnd,  // the document is over, and was whole
  };

  // `document` must outlive the scanner.
  explicit XmlScanner(std::string_view document) : document_(document) {}

  Result<Event> Next();

  // The names of the open elements, from the root on: "ListBucketResult/Contents/Key".
  const std::string& path() const { return path_; }
  const std::string& text() const { return text_; }

 private:
  Status Broken(std::string_view why) const;
  Status TakeText();
  Status TakeEntity();
  Status SkipTo(std::string_view end);
  Result<Event> TakeTag();
  Result<Event> TakeOpenTag();
  Result<Event> TakeCloseTag();
  Result<std::string_view> TakeName();
  bool At(std::string_view what) const { return document_.substr(place_).starts_with(what); }

  std::string_view document_;
  size_t place_ = 0;
  std::string path_;
  std::vector<size_t> open_;  // lengths of `path_` before each open element
  std::string text_;
  bool had_root_ = false;
  bool leaf_ = false;  // nothing but text since the last tag that opened
  bool close_next_ = false;  // the tag was <Empty/>
  bool drop_last_ = false;  // `path_` still has the element that was closed
};

// `text` as it must stand inside an element.
std::string XmlEscape(std::string_view text);

}  // namespace headrace
