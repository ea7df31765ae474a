#include <algorithm>
#include <iterator>

#include "recipe/recipe_reader.h"
#include "store/store_options.h"

namespace headrace {
namespace {

constexpr uint32_t kMostSources = 32767;  // a document's source is an int16 in the batch

constexpr std::string_view kSourceKeys[] = {"format",          "files",       "weight", "at_end", "epochs",
                                            "limit",           "bad_samples", "dtype",  "eos",    "document_length",
                                            "storage_options", "table",       "version"};
constexpr std::string_view kFormats[] = {"parquet",  "jsonl",  "webdataset", "mds",    "arrow",
                                         "megatron", "tokens", "delta",      "iceberg"};

}  // namespace

void RecipeReader::ReadSources(const Keys& top) {
  auto word =
      top.Need("sources", "where samples come from; write sources: {web: {format: parquet, files: \"/lake/web/*.parquet\"}}");
  if (!word) return;
  if (!word->IsMap() || word->yaml->map.empty()) {
    word->Fail(
        Cat(word->Found(), " is not a map of sources; write sources: {web: {format: parquet, files: \"/lake/web/*.parquet\"}}"));
    return;
  }
  if (word->yaml->map.size() > kMostSources) {
    word->Fail(Cat(word->yaml->map.size(), " sources; there can be ", kMostSources, " at the most"));
    return;
  }
  size_t weighted = 0;
  for (const Yaml::Entry& entry : word->yaml->map) {
    const Word below = word->Below(entry.key, entry.value);
    const bool good_name = !entry.key.empty() && entry.key.size() <= 64 && std::ranges::all_of(entry.key, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    });
    if (!good_name) {
      problems_.Add(entry.mark, below.path, "a source's name has 1 to 64 letters, digits and _ - .");
    }
    SourceSpec source;
    source.name = entry.key;
    source.line = entry.mark.line;
    ReadSource(below, source);
    if (below.IsMap() && below.yaml->Find("weight") != nullptr) ++weighted;
    recipe_.sources.push_back(std::move(source));
  }
  weighted_ = weighted;
}

void RecipeReader::ReadSource(const Word& word, SourceSpec& source) {
  if (!word.IsMap()) {
    word.Fail(Cat(word.Found(), " is not a source; write {format: parquet, files: \"/lake/web/*.parquet\"}"));
    return;
  }
  Keys keys(word, kSourceKeys, "a source");
  bool table = false;
  if (auto format = keys.Get("format")) {
    if (auto choice = format->Choice(kFormats, "a format")) {
      source.format = kFormats[*choice];
      table = source.format == "delta" || source.format == "iceberg";
      if (table)
        format->Unsupported(
            Cat("tables of the format ", source.format,
                " will come with a later version; until then name their Parquet files: {format: parquet, files: …}"));
    }
  }
  if (!table) {
    for (std::string_view key : {"table", "version"}) {
      if (auto other = keys.Get(key)) other->Fail(Cat("only the formats delta and iceberg have a ", key, "; others have files"));
    }
    constexpr std::string_view kFiles = "a path or URI, which may have globs and brace ranges, or a list of them";
    if (auto files = keys.Need("files", kFiles)) {
      if (auto texts = files->Texts(kFiles)) source.files = *std::move(texts);
    }
    if (word.yaml->Find("format") == nullptr && !source.files.empty()) GuessFormat(word, source);
  }
  if (auto weight = keys.Get("weight")) source.weight = weight->Number("a weight: a number of 0 or more").value_or(1);
  if (auto at_end = keys.Get("at_end")) {
    if (auto choice = at_end->Choice({"drop", "repeat", "stop"}, "what happens at the end of a source"))
      source.at_end = static_cast<AtEnd>(*choice);
    says_at_end_.insert(source.name);
  }
  if (auto epochs = keys.Get("epochs")) {
    source.epochs = ReadPositive(*epochs, "a number of epochs above 0").value_or(0);
    if (source.at_end == AtEnd::kRepeat) epochs->Fail("a source with at_end: repeat has no last epoch; leave one of the two out");
  }
  if (auto limit = keys.Get("limit")) source.limit = limit->Count(1, UINT64_MAX, "of samples").value_or(0);
  if (auto bad = keys.Get("bad_samples")) ReadBadSamples(bad, source.bad_samples.emplace());
  ReadTokenFormat(keys, source);
  if (auto options = keys.Get("storage_options")) ReadStorageOptions(*options, source);
}

// From the names of the files, where they leave no doubt.
void RecipeReader::GuessFormat(const Word& word, SourceSpec& source) {
  struct Ending {
    std::string_view ending, format;
  };
  constexpr Ending kEndings[] = {{".parquet", "parquet"}, {".jsonl", "jsonl"}, {".ndjson", "jsonl"}, {".tar", "webdataset"},
                                 {".mds", "mds"},         {".arrow", "arrow"}, {".feather", "arrow"}};
  std::set<std::string_view> guesses;
  for (const std::string& file : source.files) {
    std::string_view name = file;
    for (std::string_view packed : {".gz", ".zst"}) {
      if (name.ends_with(packed)) name.remove_suffix(packed.size());
    }
    std::string_view guess;
    for (const Ending& ending : kEndings) {
      if (name.ends_with(ending.ending)) guess = ending.format;
    }
    guesses.insert(guess);
  }
  if (guesses.size() == 1 && !guesses.begin()->empty()) {
    source.format = *guesses.begin();
  } else {
    problems_.Add(word.yaml->mark, Cat(word.path, ".format"),
                  Cat("is missing, and the names of the files do not tell; there are ", Listed(kFormats)));
  }
}

void RecipeReader::ReadTokenFormat(const Keys& keys, SourceSpec& source) {
  auto dtype = keys.Get("dtype"), eos = keys.Get("eos"), length = keys.Get("document_length");
  if (source.format != "tokens") {
    for (const std::optional<Word>& word : {dtype, eos, length}) {
      if (word && !source.format.empty())
        word->Fail(Cat("only the format tokens has this; ", source.format, " files know it themselves"));
    }
    return;
  }
  if (dtype) {
    constexpr std::string_view kTypes[] = {"uint8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
                                           "u8",    "u16",    "i16",   "u32",    "i32",   "u64",    "i64"};
    constexpr Dtype kMeant[] = {Dtype::kU8, Dtype::kU16, Dtype::kI16, Dtype::kU32, Dtype::kI32, Dtype::kU64, Dtype::kI64};
    if (auto choice = dtype->Choice(kTypes, "a type of tokens")) source.dtype = kMeant[*choice % std::size(kMeant)];
  }
  if (eos) {
    if (auto token = eos->Count(0, INT64_MAX, "a token's number")) source.eos = static_cast<int64_t>(*token);
  }
  if (length) source.document_length = length->Count(1, UINT32_MAX, "tokens").value_or(0);
  if (eos && length) length->Fail("documents end at the token eos or after document_length tokens; leave one of the two out");
}

void RecipeReader::ReadStorageOptions(const Word& word, SourceSpec& source) {
  if (!word.IsMap()) {
    word.Wanted("a map of options like {endpoint: \"https://host:9000\", region: us-east-1}");
    return;
  }
  std::vector<std::string_view> names;
  for (const StoreOption& option : AllStoreOptions()) names.push_back(option.name);
  for (const Yaml::Entry& entry : word.yaml->map) {
    const Word below = word.Below(entry.key, entry.value);
    if (FindStoreOption(entry.key) == nullptr) {
      problems_.Add(entry.mark, below.path, Cat("no such option of a store", DidYouMean(entry.key, names)));
    } else if (!below.IsScalar()) {
      below.Fail("a text or a number is expected here");  // the value may be a secret: it is not shown
    } else {
      source.storage_options[entry.key] = entry.value.scalar;
    }
  }
}

}  // namespace headrace
