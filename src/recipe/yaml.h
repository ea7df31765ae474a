// A YAML document as plain data that remembers where each word stood.
//
// yaml-cpp reads it; its exceptions and its types end here. Maps keep the order of the text; a key that comes twice is an error. Anchors, aliases
// and merge keys (`<<`) are followed, up to a size that no recipe has.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headrace/result.h"

namespace headrace {

struct Mark {
  int line = 0, column = 0;  // from 1; 0: nowhere
};

struct Yaml {
  enum Kind : unsigned char { kNull, kScalar, kList, kMap };
  struct Entry;

  Kind kind = kNull;
  bool quoted = false;
  std::string scalar;
  std::vector<Yaml> list;
  std::vector<Entry> map;
  Mark mark;

  const Yaml* Find(std::string_view key) const;
};

struct Yaml::Entry {
  std::string key;
  Mark mark;
  Yaml value;
};

// "recipe.yaml:14:3".
std::string MarkText(std::string_view name, Mark mark);

// The one document of `text`; `name` is for messages. `path` of a key that comes twice is in the message.
Result<Yaml> ParseYaml(const std::string& text, std::string_view name);

}  // namespace headrace
