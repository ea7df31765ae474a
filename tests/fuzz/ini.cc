// The shared files of the AWS tools, damaged in every way: understood, or refused with the line.

#include "store/s3/ini.h"

#include <string_view>

#include "tests/fuzz/expect.h"

using namespace headrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Result<IniFile> file = ParseIni(text, "the-path");
  if (!file.ok()) {
    HR_EXPECT(file.status().message().find("the-path") != std::string::npos);
    return 0;
  }
  size_t lines = 1;
  for (char c : text) lines += c == '\n';
  for (const auto& [name, section] : file->sections) {
    HR_EXPECT(file->Find(name) == &section);
    HR_EXPECT(section.line >= 1 && section.line <= lines);
    for (const auto& [key, value] : section.values) {
      HR_EXPECT(!key.empty());
      HR_EXPECT(section.Find(key) == &value);
      HR_EXPECT(value.line > section.line && value.line <= lines);
    }
  }
  return 0;
}
