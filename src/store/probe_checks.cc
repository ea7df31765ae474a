#include "store/probe_checks.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/size.h"
#include "base/text.h"
#include "store/create.h"

namespace headrace {
namespace {

Bytes RandomBytes(Random& random, size_t size) {
  Buffer buffer(size);
  for (std::span<std::byte> left = buffer.span(); !left.empty();) {
    uint64_t word = random.Next();
    size_t count = std::min(sizeof(word), left.size());
    std::memcpy(left.data(), &word, count);
    left = left.subspan(count);
  }
  return std::move(buffer).Freeze();
}

// A new object. Its outcome is looked up; one that nobody can tell keeps the check from being tried.
Result<CreateResult> CreateSurely(ProbeRun& run, const std::string& key, const Body& body) {
  HR_ASSIGN_OR_RETURN(CreateResult result, Create(run.store, key, body, run.ForOneCreate(), run.clock(), run.random));
  if (result.kind == CreateResult::kUnknown) return std::move(result.reason);
  return result;
}

Status CreateNew(ProbeRun& run, const std::string& key, const Body& body) {
  HR_ASSIGN_OR_RETURN(CreateResult result, CreateSurely(run, key, body));
  if (result.kind == CreateResult::kCreated) return {};
  return Status(Code::kConflict, Cat("a new key was said to be taken, and reading it back brought ", result.winner.size(),
                                     " bytes that nobody wrote"));
}

std::string Count(size_t count, std::string_view noun) { return Cat(count, " ", noun, count == 1 ? "" : "s"); }

}  // namespace

std::string Unique(Random& random, std::string_view what) { return Cat(what, " ", random.Hex(16)); }

std::string Difference(const Bytes& written, const std::optional<Object>& got) {
  if (!got) return "it was not found";
  if (got->bytes.size() != written.size()) return Cat(got->bytes.size(), " bytes came back instead of ", written.size());
  if (!(written == got->bytes)) {
    auto [ours, theirs] = std::ranges::mismatch(written.span(), got->bytes.span());
    return Cat("byte ", ours - written.span().begin(), " came back wrong");
  }
  if (got->size != written.size()) return Cat("its size was said to be ", got->size, " instead of ", written.size());
  return "";
}

Result<std::string> ReadBack(ProbeRun& run, const std::string& key, const Bytes& written, const GetOptions& options) {
  HR_ASSIGN_OR_RETURN(std::optional<Object> got, run.store.Get(key, options, run.deadline));
  return Difference(written, got);
}

Result<ProbeFinding> CheckBytes(ProbeRun& run) {
  const std::vector<size_t> sizes = {0, 1, 256, 65'537, run.options.large_bytes};
  for (size_t size : sizes) {
    Bytes written = RandomBytes(run.random, size);
    if (size == 256) {
      Buffer every(256);
      for (size_t i = 0; i < 256; ++i) every.span()[i] = std::byte(i);
      written = std::move(every).Freeze();
    }
    std::string key = Cat("bytes/", size);
    HR_RETURN_IF_ERROR(CreateNew(run, key, Body(written)));
    std::vector<std::byte> memory(std::max<size_t>(1, size));
    HR_ASSIGN_OR_RETURN(std::string wrong, ReadBack(run, key, written));
    if (wrong.empty()) {
      HR_ASSIGN_OR_RETURN(wrong, ReadBack(run, key, written, {.into = memory}));
    }
    if (!wrong.empty())
      return ProbeFinding{false, Cat("the store did not keep an object of ", FormatSize(static_cast<double>(size)), ": ", wrong)};
  }
  return ProbeFinding{
      true, Cat(sizes.size(), " sizes from 0 B to ", FormatSize(static_cast<double>(sizes.back())), ", all byte values")};
}

Result<ProbeFinding> CheckRanges(ProbeRun& run) {
  constexpr uint64_t kSize = 100'000;
  const Bytes whole = RandomBytes(run.random, kSize);
  HR_RETURN_IF_ERROR(CreateNew(run, "ranges/object", Body(whole)));
  const std::vector<ByteRange> ranges = {
      ByteRange::At(0, 1),          ByteRange::At(12'345, 5'000), ByteRange::At(kSize - 1, 1), ByteRange::At(kSize - 100, 5'000),
      ByteRange::From(kSize - 777), ByteRange::Last(8),           ByteRange::Last(2 * kSize),  ByteRange::At(0, kSize),
      ByteRange::At(kSize, 10),     ByteRange::At(2 * kSize, 10)};
  std::vector<std::byte> memory(kSize);
  for (const ByteRange& range : ranges) {
    auto [offset, count] = range.Within(kSize);
    for (std::span<std::byte> into : {std::span<std::byte>(), std::span(memory)}) {
      HR_ASSIGN_OR_RETURN(std::optional<Object> got,
                          run.store.Get("ranges/object", {.range = range, .into = into}, run.deadline));
      // The size of the object is the whole one's, whatever the range.
      uint64_t size = got ? got->size : 0;
      if (got) got->size = got->bytes.size();
      std::string wrong = Difference(whole.Slice(offset, count), got);
      if (wrong.empty() && size != kSize) wrong = Cat("the object's size was said to be ", size);
      if (!wrong.empty()) {
        return ProbeFinding{false, Cat("the store did not answer a range exactly: of an object of ", kSize, " bytes, asked for ",
                                       range.ToString(), ", ", wrong)};
      }
    }
  }
  return ProbeFinding{true, Cat(ranges.size(), " ranges: inside, at both ends, from the end, past the end")};
}

Result<ProbeFinding> CheckCreateTwice(ProbeRun& run) {
  constexpr int kTimes = 5;
  for (int i = 0; i < kTimes; ++i) {
    run.Progress(i, kTimes);
    std::string key = Cat("create/", i);
    Bytes first = Bytes::FromString(Unique(run.random, "first"));
    Bytes second = Bytes::FromString(Unique(run.random, "second"));
    HR_RETURN_IF_ERROR(CreateNew(run, key, Body(first)));
    HR_ASSIGN_OR_RETURN(CreateResult again, CreateSurely(run, key, Body(second)));
    HR_ASSIGN_OR_RETURN(std::optional<Object> there, run.store.Get(key, run.deadline));
    if (there && there->bytes == second)
      return ProbeFinding{false, "the store replaced an object although it was asked to create it only if absent"};
    if (again.kind == CreateResult::kCreated)
      return ProbeFinding{false, "the store told a second creator of the same key that it had created it"};
    std::string wrong = Difference(first, there);
    if (!wrong.empty()) return ProbeFinding{false, Cat("the store did not keep the first creator's bytes: ", wrong)};
    if (!(again.winner == first))
      return ProbeFinding{false, "the store showed the second creator other bytes than the first one's"};
  }
  return ProbeFinding{true, Cat(kTimes, " keys, the second refused each time")};
}

Result<ProbeFinding> CheckLists(ProbeRun& run) {
  std::map<std::string, uint64_t> written;
  const auto count = static_cast<size_t>(run.options.listed);
  // Neighbours that a list must not show.
  for (const char* decoy : {"list-decoy", "lis", "lisu/0"})
    HR_RETURN_IF_ERROR(CreateNew(run, decoy, Body(Unique(run.random, decoy))));
  for (size_t i = 0; i < count; ++i) {
    run.Progress(static_cast<int>(i), static_cast<int>(count));
    std::string key = Cat("list/", i % 3 == 0 ? "deep/er/" : "", i);
    HR_RETURN_IF_ERROR(CreateNew(run, key, Body(std::string(i, 'x'))));
    written.emplace(key, i);
    // Now and then at once; a list that lags behind shows here.
    if (i + 1 != count && i % 10 != 0) continue;

    std::map<std::string, uint64_t> missing = written;
    ListOptions options{.prefix = "list/", .limit = static_cast<size_t>(run.options.page)};
    size_t pages = 0;
    do {
      HR_ASSIGN_OR_RETURN(ListPage page, run.store.List(options, run.deadline));
      if (page.entries.size() > options.limit) {
        return ProbeFinding{
            false, Cat("the store listed ", page.entries.size(), " entries on a page that was limited to ", options.limit)};
      }
      for (const ListEntry& entry : page.entries) {
        auto known = written.find(entry.key);
        if (known == written.end())
          return ProbeFinding{false, Cat("a list of \"list/\" shows \"", entry.key, "\", which does not belong there")};
        if (known->second != entry.size)
          return ProbeFinding{false, Cat("a list gives ", entry.key, " ", entry.size, " bytes instead of ", known->second)};
        if (missing.erase(entry.key) == 0) return ProbeFinding{false, Cat("a list shows ", entry.key, " twice")};
      }
      options.page = std::move(page.next);
      if (++pages > count + 10)
        return ProbeFinding{false, Cat("a list of ", Count(written.size(), "object"), " does not end after ", pages, " pages")};
    } while (!options.page.empty());
    if (!missing.empty()) {
      return ProbeFinding{false, Cat("a list right after the writes misses ", missing.size(), " of ",
                                     Count(written.size(), "object"), ", such as ", missing.begin()->first)};
    }
  }
  HR_ASSIGN_OR_RETURN(ListPage behind, run.store.List({.prefix = "list/", .start_after = "list/5"}, run.deadline));
  auto expected = static_cast<size_t>(std::ranges::count_if(written, [](const auto& entry) { return entry.first > "list/5"; }));
  if (behind.entries.size() != expected ||
      !std::ranges::all_of(behind.entries, [](const ListEntry& entry) { return entry.key > "list/5"; })) {
    return ProbeFinding{false, Cat("a list that begins after a key shows ", behind.entries.size(), " entries instead of the ",
                                   expected, " behind it")};
  }
  return ProbeFinding{true, Cat(Count(count, "object"), " in pages of ", run.options.page, ", right after they were written")};
}

Result<ProbeFinding> CheckKeys(ProbeRun& run) {
  // Pairs that a careless encoder or decoder takes for each other.
  static constexpr std::array<std::string_view, 15> kNames = {"a=b",  "a+b",  "a b",  "a%20b",    "a%2Bb",
                                                              "a%b",  "a&b",  "a;b",  "a:b@c",    "a,b",
                                                              "a~b'", "(a)!", "a*$b", "\xC3\xBC", "\xE6\xB0\xB4\xE8\xBB\x8A"};
  std::map<std::string, Bytes> written;
  for (std::string_view name : kNames) {
    std::string key = Cat("keys/", name, "/x");
    Bytes bytes = Bytes::FromString(Unique(run.random, key));
    Result<CreateResult> created = CreateSurely(run, key, Body(bytes));
    if (!created.ok()) return created.status().Annotate(Cat("creating the key \"", key, "\""));
    if (created->kind != CreateResult::kCreated)
      return ProbeFinding{false, Cat("the store takes the key \"", key, "\" for another one")};
    written.emplace(key, bytes);
  }
  for (const auto& [key, bytes] : written) {
    HR_ASSIGN_OR_RETURN(std::string wrong, ReadBack(run, key, bytes));
    if (!wrong.empty()) return ProbeFinding{false, Cat("the store mixes up the key \"", key, "\": ", wrong)};
  }
  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> listed, ListAll(run.store, "keys/", run.deadline));
  for (const ListEntry& entry : listed) {
    if (written.erase(entry.key) == 0)
      return ProbeFinding{false, Cat("a list shows the key \"", entry.key, "\", which nobody wrote")};
  }
  if (!written.empty())
    return ProbeFinding{false, Cat("a list does not show the key \"", written.begin()->first, "\" as it was written")};
  return ProbeFinding{true, Cat(kNames.size(), " keys with = + % & ; space, letters beyond ASCII and others")};
}

}  // namespace headrace
