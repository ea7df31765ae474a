// What a server says in XML, damaged in every way: read, or refused; and what was written comes back as it was.

#include <string>
#include <string_view>

#include "base/text.h"
#include "store/s3/s3_answers.h"
#include "store/s3/xml.h"
#include "tests/fuzz/expect.h"

using namespace headrace;

namespace {

// Every element that opens is closed again, innermost first, and the end comes once all are.
void Walk(std::string_view document) {
  XmlScanner xml(document);
  size_t open = 0, events = 0;
  while (true) {
    Result<XmlScanner::Event> event = xml.Next();
    if (!event.ok()) return;
    HR_EXPECT(++events <= 2 * document.size() + 1);
    if (*event == XmlScanner::Event::kEnd) break;
    if (*event == XmlScanner::Event::kOpen) ++open;
    HR_EXPECT(open > 0 && !xml.path().empty());
    HR_EXPECT(xml.text().size() <= document.size());
    if (*event == XmlScanner::Event::kClose) --open;
  }
  HR_EXPECT(open == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Walk(text);
  ErrorAnswer error = ReadErrorAnswer(text);
  if (!error.code.empty()) HR_EXPECT(IsErrorAnswer(text));
  Result<ListPage> page = ReadListAnswer(text);
  if (page.ok()) HR_EXPECT(page->entries.size() <= size);
  if (!page.ok()) HR_EXPECT(page.code() == Code::kUnavailable || page.code() == Code::kUnsupported);
  ReadDeleteAnswer(text).ok();
  ReadUploadAnswer(text).ok();
  ReadCompleteAnswer(text).ok();
  ReadSessionAnswer(text).ok();

  // Any text survives being written into a document. XML has no way to hold most control characters.
  std::string plain;
  for (char c : text) plain += static_cast<unsigned char>(c) < 0x20 ? '.' : c;
  std::string document = Cat("<k>", XmlEscape(plain), "</k>");
  XmlScanner written(document);
  HR_EXPECT(*written.Next() == XmlScanner::Event::kOpen);
  HR_EXPECT(*written.Next() == XmlScanner::Event::kClose);
  HR_EXPECT(written.text() == plain);
  return 0;
}
