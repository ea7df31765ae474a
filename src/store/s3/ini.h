// The dialect of INI in which the AWS tools keep their shared files.
//
//   [profile dev]
//   region = eu-central-1
//   s3 =
//     endpoint_url = https://minio.example
//
// A comment (# or ;) has a line of its own. A value goes on in the lines that are indented deeper than its name; if nothing
// stands behind the `=` itself, those lines are properties of their own. Names of values do not depend on capitals, names of
// sections do. Where `aws` refuses a file, so do we: a section or a name that comes twice, a line that is neither. No message
// quotes the file, for it may hold secrets.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "headrace/result.h"

namespace headrace {

struct IniValue {
  std::string text;  // lines joined by '\n'
  size_t line = 0;
  std::map<std::string, std::string> nested;
};

struct IniSection {
  size_t line = 0;
  std::map<std::string, IniValue> values;

  // Null if there is none of this name (in lower case).
  const IniValue* Find(const std::string& name) const;
};

struct IniFile {
  std::string path;
  std::map<std::string, IniSection> sections;

  // Null if there is none of this name.
  const IniSection* Find(const std::string& name) const;
};

// Fails with kInvalidArgument, naming `path` and the line.
Result<IniFile> ParseIni(std::string_view text, std::string path);

}  // namespace headrace
