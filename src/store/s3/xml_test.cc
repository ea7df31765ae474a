#include "store/s3/xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every event as a line: "<a/b" opens, ">a/b=text" closes; the last is "end" or what is wrong.
std::vector<std::string> Scan(std::string_view document) {
  std::vector<std::string> lines;
  XmlScanner xml(document);
  while (true) {
    auto event = xml.Next();
    if (!event.ok()) {
      lines.push_back(event.status().message());
      return lines;
    }
    if (*event == XmlScanner::Event::kEnd) {
      lines.push_back("end");
      return lines;
    }
    lines.push_back(*event == XmlScanner::Event::kOpen ? "<" + xml.path() : Cat('>', xml.path(), '=', xml.text()));
  }
}

TEST(XmlScanner, WalksElementsAndTheirText) {
  EXPECT_THAT(Scan("<?xml version=\"1.0\"?>\n<a xmlns=\"http://x/\"><b>one</b><b>two</b><c/></a>\n"),
              ElementsAre("<a", "<a/b", ">a/b=one", "<a/b", ">a/b=two", "<a/c", ">a/c=", ">a=", "end"));
}

TEST(XmlScanner, KeepsSpaceInsideText) { EXPECT_THAT(Scan("<a>  x \n</a>"), ElementsAre("<a", ">a=  x \n", "end")); }

TEST(XmlScanner, DecodesEntitiesAndCdata) {
  EXPECT_THAT(Scan("<a>&lt;&amp;&gt;&quot;&apos;&#65;&#x42;&#xFC;&#x1F701;<![CDATA[<&>]]></a>"),
              ElementsAre("<a", ">a=<&>\"'ABü🜁<&>", "end"));
}

TEST(XmlScanner, SkipsCommentsPrefixesAndAttributes) {
  EXPECT_THAT(Scan("<!-- <no> --><s3:a b='x > y' c=\"/\"><!--x--><s3:b />t</s3:a >"),
              ElementsAre("<a", "<a/b", ">a/b=", ">a=", "end"));
}

TEST(XmlScanner, RefusesWhatIsNotWellFormed) {
  for (auto [document, why] : {std::pair<std::string_view, std::string_view>{"", "no element"},
                               {"  \n ", "no element"},
                               {"hello", "text outside"},
                               {"<a>", "the end came before <a>"},
                               {"<a><b></a></b>", "</a> closes <a/b>"},
                               {"</a>", "a closing tag without an element"},
                               {"<a></a><b></b>", "a second root"},
                               {"<a></a>x", "text outside"},
                               {"<a", "a tag without an end"},
                               {"<a b=\"></a>", "a tag without an end"},
                               {"<a <b></a>", "a tag inside a tag"},
                               {"<></>", "a tag without a name"},
                               {"<a>&nope;</a>", "an unknown entity"},
                               {"<a>& b</a>", "a stray '&'"},
                               {"<a>&#0;</a>", "a bad character reference"},
                               {"<a>&#xD800;</a>", "a bad character reference"},
                               {"<a>&#x110000;</a>", "a bad character reference"},
                               {"<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>", "a document type"},
                               {"<a><!-- </a>", "no -->"},
                               {"<a><![CDATA[ </a>", "no ]]>"}}) {
    EXPECT_THAT(Scan(document).back(), HasSubstr(why)) << document;
  }
}

TEST(XmlScanner, DepthIsBounded) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<a>";
  EXPECT_THAT(Scan(deep).back(), HasSubstr("too many elements inside each other"));
}

TEST(XmlScanner, EveryCutOfADocumentIsAnError) {
  std::string document = "<a><b>x&amp;y</b><![CDATA[z]]><c d='e'/></a>";
  for (size_t size = 0; size < document.size(); ++size) {
    EXPECT_NE(Scan(std::string_view(document).substr(0, size)).back(), "end") << size;
  }
}

TEST(XmlEscape, ComesBackAsItWas) {
  std::string odd = "a&b<c>d\"e'fü =+%";
  EXPECT_THAT(Scan(Cat("<k>", XmlEscape(odd), "</k>")), ElementsAre("<k", Cat(">k=", odd), "end"));
}

}  // namespace
}  // namespace headrace
