#include "store/s3/ini.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

IniFile Parsed(std::string_view text) {
  Result<IniFile> file = ParseIni(text, "config");
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return file.ok() ? *file : IniFile{};
}

std::string Value(const IniFile& file, const std::string& section, const std::string& name) {
  const IniSection* found = file.Find(section);
  const IniValue* value = found == nullptr ? nullptr : found->Find(name);
  return value == nullptr ? "(none)" : value->text;
}

std::string Refusal(std::string_view text) {
  Result<IniFile> file = ParseIni(text, "config");
  EXPECT_EQ(file.code(), Code::kInvalidArgument);
  return file.status().message();
}

TEST(Ini, ValuesBelongToTheirSection) {
  IniFile file = Parsed("[default]\nregion = eu-west-1\n[profile dev]\nregion=us-east-2\n");
  EXPECT_EQ(Value(file, "default", "region"), "eu-west-1");
  EXPECT_EQ(Value(file, "profile dev", "region"), "us-east-2");
  EXPECT_EQ(Value(file, "dev", "region"), "(none)");
  EXPECT_EQ(file.Find("profile dev")->line, 3u);
  EXPECT_EQ(file.Find("profile dev")->Find("region")->line, 4u);
}

TEST(Ini, CommentsEmptyLinesWindowsEndsAndTheByteOrderMarkDoNotCount) {
  IniFile file = Parsed("\xEF\xBB\xBF# first\r\n\r\n[ default ]\r\n; second\r\nRegion : eu-west-1\r\n");
  EXPECT_EQ(Value(file, "default", "region"), "eu-west-1");
}

TEST(Ini, ACommentSignInsideAValueIsPartOfIt) {
  EXPECT_EQ(Value(Parsed("[a]\nx = one # two ; three\n"), "a", "x"), "one # two ; three");
}

TEST(Ini, TheFirstSignSeparatesNameAndValue) {
  IniFile file = Parsed("[a]\nsecret = a=b:c\nurl: https://x?y=z\n");
  EXPECT_EQ(Value(file, "a", "secret"), "a=b:c");
  EXPECT_EQ(Value(file, "a", "url"), "https://x?y=z");
}

TEST(Ini, DeeperLinesContinueAValue) {
  IniFile file = Parsed("[a]\ncommand = one\n    two\n\n    # not this\n    three\n\nnext = 4\n");
  EXPECT_EQ(Value(file, "a", "command"), "one\ntwo\n\nthree");
  EXPECT_EQ(Value(file, "a", "next"), "4");
}

TEST(Ini, LinesBelowAnEmptyValueAreProperties) {
  IniFile file =
      Parsed("[services local]\ns3 =\n  Endpoint_URL = http://127.0.0.1:9000\n  other=1\nsts =\n  endpoint_url = x\nempty =\n");
  const IniSection& services = *file.Find("services local");
  EXPECT_EQ(services.Find("s3")->nested,
            (std::map<std::string, std::string>{{"endpoint_url", "http://127.0.0.1:9000"}, {"other", "1"}}));
  EXPECT_EQ(services.Find("sts")->nested.at("endpoint_url"), "x");
  EXPECT_EQ(Value(file, "services local", "empty"), "");
}

TEST(Ini, TheLastLineNeedsNoEnd) { EXPECT_EQ(Value(Parsed("[a]\nx = 1"), "a", "x"), "1"); }

TEST(Ini, NothingIsAFileToo) { EXPECT_TRUE(Parsed("").sections.empty()); }

TEST(Ini, RefusalsNameTheFileAndTheLine) {
  EXPECT_EQ(Refusal("[a]\n\nnonsense\n"), "config:3: expected `name = value`, `[section]` or a comment");
  EXPECT_EQ(Refusal("[a]\n= 1\n"), "config:2: expected `name = value`, `[section]` or a comment");
  EXPECT_EQ(Refusal("x = 1\n"), "config:1: a value before the first [section]: which profile does it belong to?");
  EXPECT_EQ(Refusal("[a]\nx = 1\n[a\n"), "config:3: the name of a section ends with ']', and this one does not");
  EXPECT_EQ(Refusal("[ ]\n"), "config:1: this section has no name");
  EXPECT_EQ(Refusal("[a]\n[b]\n[a]\n"), "config:3: this section was already given in line 1; join the two");
  EXPECT_EQ(Refusal("[a]\nx = 1\nX = 2\n"), "config:3: this name was already given in line 2 of the same section");
  EXPECT_EQ(Refusal("[a]\ns3 =\n  fine = 1\n  not fine\n"), "config:4: expected `name = value` below the empty value of line 2");
  EXPECT_EQ(Refusal("[a]\nx = \xFF\n"), "config:2: this is not UTF-8 text");
  EXPECT_EQ(Refusal(std::string_view("[a]\nx = \0\n", 10)), "config:2: this is not UTF-8 text");
}

TEST(Ini, ARefusalDoesNotQuoteTheFile) {
  EXPECT_EQ(Refusal("[a]\nsecret wJalrXUtnFEMI\n").find("wJalr"), std::string::npos);
  EXPECT_EQ(Refusal("[a]\nwJalrXUtnFEMI=1\nwJalrXUtnFEMI=1\n").find("wJalr"), std::string::npos);
}

}  // namespace
}  // namespace headrace
