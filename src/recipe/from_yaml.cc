#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "base/size.h"
#include "base/text.h"
#include "recipe/expression.h"
#include "recipe/recipe.h"
#include "recipe/words.h"
#include "store/store_options.h"

namespace headrace {
namespace {

constexpr uint64_t kMostSteps = UINT64_C(1) << 53;
constexpr uint32_t kAutoLanes = 64;
constexpr uint32_t kMostSources = 32767;  // a document's source is an int16 in the batch

constexpr std::string_view kTopKeys[] = {"stream",  "seed",    "lanes",       "strands", "order",      "step",
                                         "chunk",   "lead",    "retain",      "until",   "drop_last",  "sources",
                                         "holdout", "shuffle", "transform",   "pack",    "cost",       "balance",
                                         "mix",     "keep",    "bad_samples", "group",   "distribute", "broadcast_at"};
constexpr std::string_view kSourceKeys[] = {"format",          "files",       "weight", "at_end", "epochs",
                                            "limit",           "bad_samples", "dtype",  "eos",    "document_length",
                                            "storage_options", "table",       "version"};
constexpr std::string_view kFormats[] = {"parquet",  "jsonl",  "webdataset", "mds",    "arrow",
                                         "megatron", "tokens", "delta",      "iceberg"};
// What a packed batch consists of: nobody's kept column may have these names.
constexpr std::string_view kOwnColumns[] = {"tokens", "labels", "position_ids", "cu_seqlens", "max_seqlen", "source"};

// A text that names a column.
std::optional<std::string> ColumnName(const Word& word) {
  std::optional<std::string> name = word.Text("a column's name");
  if (name && name->starts_with("__")) {
    word.Fail(Cat(*name, ": names that begin with __ are Headrace's own"));
    return std::nullopt;
  }
  return name;
}

// {0: 256, 5000: 512}: what holds from a step on.
template <typename Read>
bool ReadByStep(const Word& word, std::string_view example, Read read) {
  if (word.yaml->map.empty()) {
    word.Fail(Cat("an empty map; write ", example));
    return false;
  }
  std::set<uint64_t> seen;
  bool good = true;
  for (const Yaml::Entry& entry : word.yaml->map) {
    const Word below = word.Below(entry.key, entry.value);
    const std::optional<uint64_t> step = ParseCount(entry.key);
    if (!step || *step > kMostSteps) {
      word.problems->Add(entry.mark, below.path, Cat(entry.key, " is not the number of a step; write ", example));
      good = false;
    } else if (!seen.insert(*step).second) {
      word.problems->Add(entry.mark, below.path, Cat("step ", *step, " is there twice"));
      good = false;
    } else {
      read(*step, below);
    }
  }
  if (good && !seen.contains(0)) {
    word.Fail(Cat("nothing is said about step 0: the first entry must be for it; write ", example));
    good = false;
  }
  return good;
}

// "package.module:function".
std::optional<std::string> ReadCall(const Word& word) {
  std::optional<std::string> call = word.Text("a Python function as \"package.module:function\"");
  if (!call) return std::nullopt;
  auto is_name = [](std::string_view name) {
    if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
    return std::ranges::all_of(name, [](char c) {
      return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             static_cast<unsigned char>(c) >= 128;
    });
  };
  auto is_path = [&](std::string_view path) { return std::ranges::all_of(Split(path, '.'), is_name); };
  const size_t colon = call->find(':');
  if (colon == std::string::npos) {
    const size_t dot = call->rfind('.');
    std::string meant =
        dot == std::string::npos ? "\"package.module:function\"" : Cat(call->substr(0, dot), ":", call->substr(dot + 1));
    word.Fail(Cat(*call, " has no colon between module and function; did you mean ", meant, "?"));
    return std::nullopt;
  }
  if (!is_path(call->substr(0, colon)) || !is_path(call->substr(colon + 1))) {
    word.Fail(Cat(*call, " is not a Python function; write \"package.module:function\""));
    return std::nullopt;
  }
  return call;
}

std::optional<Expression> ReadExpression(const Word& word, std::string_view what) {
  std::optional<std::string> text = word.Text("an expression");
  if (!text) return std::nullopt;
  Result<Expression> expression = Expression::Parse(*text);
  if (!expression.ok()) {
    word.Fail(Cat("this ", what, " cannot be read: ", expression.status().message()));
    return std::nullopt;
  }
  return *std::move(expression);
}

class Reader {
 public:
  Reader(Recipe& recipe, Problems& problems) : recipe_(recipe), problems_(problems) {}

  void Read(const Yaml& yaml) {
    Keys top(Word{&yaml, "", &problems_}, kTopKeys, "a recipe, which is a map of keys like sources and step");
    if (yaml.kind != Yaml::kMap) return;
    ReadBasics(top);
    ReadLead(top);
    ReadRetain(top);
    ReadUntil(top);
    ReadBadSamples(top.Get("bad_samples"), recipe_.bad_samples);
    ReadSources(top);
    ReadHoldoutAndShuffle(top);
    if (auto transform = top.Get("transform")) ReadTransforms(*transform);
    if (auto pack = top.Get("pack")) ReadPack(*pack);
    ReadKeep(top);
    if (auto cost = top.Get("cost")) ReadCost(*cost);
    if (auto balance = top.Get("balance")) ReadBalance(*balance);
    ReadGroup(top);
    ReadMix(top);
    ReadStep(top);
    if (!problems_.empty()) return;
    ResolveLanes(top);
    CheckEnds(top);
    CheckTokens(top);
    CheckKept(top);
  }

 private:
  void Note(std::string text) { recipe_.notes.push_back(std::move(text)); }

  void ReadBasics(const Keys& top) {
    if (auto word = top.Get("stream")) {
      if (auto stream = word->Text("a URI or a folder")) recipe_.stream = *stream;
    }
    if (auto word = top.Get("seed")) recipe_.seed = word->Count(0, UINT64_MAX, "").value_or(0);
    if (auto word = top.Get("lanes"); word && !word->Is("auto")) {
      recipe_.lanes = static_cast<uint32_t>(word->Count(1, StreamInfo::kMaxLanes, "or auto").value_or(0));
    }
    if (auto word = top.Get("strands"); word && !word->Is("auto")) {
      recipe_.strands = static_cast<uint32_t>(word->Count(1, StreamInfo::kMaxStrands, "or auto").value_or(16));
    }
    if (auto word = top.Get("order")) {
      if (auto order = word->Choice({"planned", "arrival"}, "an order"))
        recipe_.order = *order == 0 ? Order::kPlanned : Order::kArrival;
    }
    if (auto word = top.Get("drop_last")) recipe_.drop_last = word->Flag().value_or(true);
    if (auto word = top.Get("chunk")) {
      Keys chunk(*word, {"lane_bytes"}, "a map; write chunk: {lane_bytes: 1MB}");
      if (auto bytes = chunk.Get("lane_bytes")) recipe_.lane_bytes = bytes->Bytes().value_or(recipe_.lane_bytes);
    }
  }

  void ReadLead(const Keys& top) {
    auto word = top.Get("lead");
    if (!word || word->Is("auto")) return;
    if (word->Is("unlimited")) {
      recipe_.lead.kind = Lead::kUnlimited;
      return;
    }
    Keys lead(*word, {"steps", "bytes"}, "a lead: auto, unlimited, {steps: 200} or {bytes: 50GB}");
    if (!word->IsMap()) return;
    auto steps = lead.Get("steps"), bytes = lead.Get("bytes");
    if (word->yaml->map.size() != 1) {
      word->Fail("a lead is counted in steps or in bytes: write {steps: 200} or {bytes: 50GB}");
    } else if (steps) {
      recipe_.lead = {Lead::kSteps, steps->Count(1, kMostSteps, "").value_or(1)};
    } else if (bytes) {
      recipe_.lead = {Lead::kBytes, bytes->Bytes().value_or(1)};
    }
  }

  void ReadRetain(const Keys& top) {
    auto word = top.Get("retain");
    if (!word) return;
    if (word->IsScalar()) {
      if (word->Choice({"pins", "all"}, "pins, all or {steps: 5000}")) recipe_.retain = word->yaml->scalar;
      return;
    }
    Keys retain(*word, {"steps"}, "pins, all or {steps: 5000}");
    if (auto steps = retain.Need("steps", "write retain: {steps: 5000}")) {
      recipe_.retain = "steps";
      recipe_.retain_steps = steps->Count(1, kMostSteps, "").value_or(1);
    }
  }

  void ReadUntil(const Keys& top) {
    auto word = top.Get("until");
    if (!word) return;
    if (word->IsScalar()) {
      if (word->Is("forever")) {
        recipe_.until.kind = Until::kForever;
      } else {
        word->Wanted("forever, {epochs: 1}, {steps: 100000} or {tokens: 10B}");
      }
      return;
    }
    Keys until(*word, {"epochs", "steps", "tokens"}, "forever, {epochs: 1}, {steps: 100000} or {tokens: 10B}");
    if (!word->IsMap()) return;
    auto epochs = until.Get("epochs"), steps = until.Get("steps"), tokens = until.Get("tokens");
    if (word->yaml->map.size() != 1) {
      word->Fail("one end is needed, and only one: {epochs: 1}, {steps: 100000} or {tokens: 10B}");
    } else if (epochs) {
      recipe_.until.epochs = ReadPositive(*epochs, "a number of epochs above 0").value_or(1);
    } else if (steps) {
      recipe_.until = {Until::kSteps, 0, steps->Count(1, kMostSteps, "").value_or(1)};
    } else if (tokens) {
      recipe_.until = {Until::kTokens, 0, tokens->Count(1, UINT64_MAX, "").value_or(1)};
    }
  }

  std::optional<double> ReadPositive(const Word& word, std::string_view meaning) {
    std::optional<double> number = word.Number(meaning);
    if (number && *number <= 0) {
      word.Wanted(meaning);
      return std::nullopt;
    }
    return number;
  }

  void ReadBadSamples(const std::optional<Word>& word, BadSamples& bad) {
    if (!word) return;
    if (word->IsScalar()) {
      if (auto choice = word->Choice({"raise", "skip"}, "raise, skip or {skip: 1000}")) bad.skip = *choice == 1;
      return;
    }
    Keys keys(*word, {"skip"}, "raise, skip or {skip: 1000}");
    if (auto skip = keys.Need("skip", "how many bad samples a source may have; write {skip: 1000}")) {
      bad = {true, skip->Count(0, UINT64_MAX, "").value_or(0)};
    }
  }

  // Sources.

  void ReadSources(const Keys& top) {
    auto word =
        top.Need("sources", "where samples come from; write sources: {web: {format: parquet, files: \"/lake/web/*.parquet\"}}");
    if (!word) return;
    if (!word->IsMap() || word->yaml->map.empty()) {
      word->Fail(Cat(word->Found(),
                     " is not a map of sources; write sources: {web: {format: parquet, files: \"/lake/web/*.parquet\"}}"));
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

  void ReadSource(const Word& word, SourceSpec& source) {
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
        if (auto other = keys.Get(key))
          other->Fail(Cat("only the formats delta and iceberg have a ", key, "; others have files"));
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
      if (source.at_end == AtEnd::kRepeat)
        epochs->Fail("a source with at_end: repeat has no last epoch; leave one of the two out");
    }
    if (auto limit = keys.Get("limit")) source.limit = limit->Count(1, UINT64_MAX, "of samples").value_or(0);
    if (auto bad = keys.Get("bad_samples")) ReadBadSamples(bad, source.bad_samples.emplace());
    ReadTokenFormat(keys, source);
    if (auto options = keys.Get("storage_options")) ReadStorageOptions(*options, source);
  }

  // From the names of the files, where they leave no doubt.
  void GuessFormat(const Word& word, SourceSpec& source) {
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

  void ReadTokenFormat(const Keys& keys, SourceSpec& source) {
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

  void ReadStorageOptions(const Word& word, SourceSpec& source) {
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

  void ReadHoldoutAndShuffle(const Keys& top) {
    if (auto word = top.Get("holdout")) {
      Keys holdout(*word, {"fraction", "by"}, "a map; write holdout: {fraction: 0.001, by: id}");
      if (auto fraction = holdout.Need("fraction", "which part is never trained on; write holdout: {fraction: 0.001}")) {
        constexpr std::string_view kMeaning = "a fraction above 0 and below 1";
        recipe_.holdout_fraction = ReadPositive(*fraction, kMeaning).value_or(0);
        if (recipe_.holdout_fraction >= 1) fraction->Wanted(kMeaning);
      }
      if (auto by = holdout.Get("by")) recipe_.holdout_by = ColumnName(*by).value_or("");
    }
    if (auto word = top.Get("shuffle")) {
      if (word->IsScalar()) {
        if (word->Is("false") || word->Is("none") || word->Is("no") || word->Is("off")) {
          recipe_.shuffle_window = 0;
        } else {
          word->Wanted("false or {window: 100000}");
        }
        return;
      }
      Keys shuffle(*word, {"window"}, "false or {window: 100000}");
      if (auto window = shuffle.Need("window", "how many samples are shuffled together; write shuffle: {window: 100000}")) {
        recipe_.shuffle_window = window->Count(0, UINT64_C(1) << 40, "of samples").value_or(0);
      }
    }
  }

  // Transforms.

  void ReadTransforms(const Word& word) {
    if (!word.IsList()) {
      word.Wanted("a list; begin each transform with a dash: - tokenize: {tokenizer: tokenizer.json}");
      return;
    }
    constexpr std::string_view kKinds[] = {"tokenize", "chat", "filter", "select", "rename", "cast", "python"};
    int tokens_from_line = 0;
    for (const Word& item : word.Items()) {
      if (!item.IsMap() || item.yaml->map.size() != 1) {
        item.Fail(Cat(item.Found(), item.IsMap() && item.yaml->map.size() > 1 ? " of several keys" : "",
                      " is not one transform; write one of ", Listed(kKinds),
                      " and what it needs, each behind a dash of its own"));
        continue;
      }
      const Yaml::Entry& entry = item.yaml->map.front();
      const Word what = item.Below(entry.key, entry.value);
      auto found = std::ranges::find(kKinds, entry.key);
      if (found == std::end(kKinds)) {
        problems_.Add(entry.mark, what.path, Cat("no such transform", DidYouMean(entry.key, kKinds)));
        continue;
      }
      TransformSpec transform;
      transform.kind = static_cast<TransformSpec::Kind>(found - kKinds);
      transform.line = entry.mark.line;
      ReadTransform(what, transform);
      if (transform.kind == TransformSpec::kTokenize || transform.kind == TransformSpec::kChat) {
        if (tokens_from_line != 0)
          what.Fail(Cat("tokens are made already, on line ", tokens_from_line, "; a recipe has one tokenize or one chat"));
        tokens_from_line = transform.line;
      }
      recipe_.transforms.push_back(std::move(transform));
    }
  }

  void ReadTransform(const Word& word, TransformSpec& transform) {
    switch (transform.kind) {
      case TransformSpec::kTokenize: return ReadTokenize(word, transform);
      case TransformSpec::kChat: return ReadChat(word, transform);
      case TransformSpec::kFilter: return ReadFilter(word, transform);
      case TransformSpec::kSelect:
        if (auto columns = word.Texts("a list of columns; write select: [text, id]")) transform.columns = *std::move(columns);
        return;
      case TransformSpec::kRename: return ReadRename(word, transform);
      case TransformSpec::kCast: return ReadCast(word, transform);
      case TransformSpec::kPython: return ReadPython(word, transform);
    }
  }

  void ReadTokenize(const Word& word, TransformSpec& transform) {
    transform.from = "text";
    if (word.IsScalar()) {
      transform.tokenizer = word.Text("a tokenizer.json").value_or("");
      return;
    }
    Keys keys(word, {"tokenizer", "from", "add_bos", "add_eos"},
              "a map; write tokenize: {tokenizer: tokenizer.json, from: text}");
    if (auto tokenizer = keys.Need("tokenizer", "the path of a tokenizer.json"))
      transform.tokenizer = tokenizer->Text("the path of a tokenizer.json").value_or("");
    if (auto from = keys.Get("from")) transform.from = ColumnName(*from).value_or("");
    if (auto flag = keys.Get("add_bos")) transform.add_bos = flag->Flag().value_or(false);
    if (auto flag = keys.Get("add_eos")) transform.add_eos = flag->Flag().value_or(false);
  }

  void ReadChat(const Word& word, TransformSpec& transform) {
    transform.from = "messages";
    if (word.IsScalar()) {
      transform.tokenizer = word.Text("the tokenizer's folder").value_or("");
      return;
    }
    Keys keys(word, {"tokenizer", "from", "train_on"},
              "a map; write chat: {tokenizer: DIR, from: messages, train_on: assistant}");
    if (auto tokenizer = keys.Need("tokenizer", "a folder with tokenizer.json, tokenizer_config.json and the chat template"))
      transform.tokenizer = tokenizer->Text("the tokenizer's folder").value_or("");
    if (auto from = keys.Get("from")) transform.from = ColumnName(*from).value_or("");
    if (auto train_on = keys.Get("train_on")) {
      if (train_on->Choice({"assistant", "all"}, "what is trained on")) transform.train_on = train_on->yaml->scalar;
    }
  }

  void ReadFilter(const Word& word, TransformSpec& transform) {
    std::optional<Expression> expression = ReadExpression(word, "filter");
    if (!expression) return;
    transform.expression = word.yaml->scalar;
    if (expression->kind() == Expression::Kind::kNumber || expression->kind() == Expression::Kind::kText) {
      word.Fail(Cat(
          "a filter must say yes or no; \"", transform.expression, "\" is ",
          expression->kind() == Expression::Kind::kNumber ? "a number. Compare it with one: length(tokens) >= 32" : "a text"));
    }
  }

  void ReadRename(const Word& word, TransformSpec& transform) {
    if (!word.IsMap() || word.yaml->map.empty()) {
      word.Wanted("a map from old to new names; write rename: {content: text}");
      return;
    }
    std::set<std::string> taken;
    for (const Yaml::Entry& entry : word.yaml->map) {
      const Word below = word.Below(entry.key, entry.value);
      std::optional<std::string> name = ColumnName(below);
      if (!name) continue;
      if (!taken.insert(*name).second) below.Fail(Cat("two columns would be called ", *name));
      transform.names[entry.key] = *name;
    }
  }

  void ReadCast(const Word& word, TransformSpec& transform) {
    if (!word.IsMap() || word.yaml->map.empty()) {
      word.Wanted("a map from columns to types; write cast: {score: float32}");
      return;
    }
    for (const Yaml::Entry& entry : word.yaml->map) {
      const Word below = word.Below(entry.key, entry.value);
      std::optional<std::string> type = below.Text("a type like float32");
      if (!type) continue;
      std::string_view inner = *type;
      if (inner.starts_with("list<") && inner.ends_with(">")) inner = inner.substr(5, inner.size() - 6);
      if (std::ranges::find(kCastTypes, inner) == std::end(kCastTypes)) {
        below.Fail(Cat(*type, " is not a type", DidYouMean(inner, kCastTypes)));
      }
      transform.names[entry.key] = *type;
    }
  }

  void ReadPython(const Word& word, TransformSpec& transform) {
    if (word.IsScalar()) {
      transform.call = ReadCall(word).value_or("");
      return;
    }
    Keys keys(word, {"call", "workers", "timeout", "on_error"},
              "a map; write python: {call: \"package.module:function\", workers: 2}");
    if (auto call = keys.Need("call", "the function; write call: \"package.module:function\""))
      transform.call = ReadCall(*call).value_or("");
    if (auto workers = keys.Get("workers"))
      transform.workers = static_cast<uint32_t>(workers->Count(1, 1024, "of processes").value_or(1));
    if (auto timeout = keys.Get("timeout")) {
      Result<Duration> time = timeout->IsScalar() ? ParseDuration(timeout->yaml->scalar) : Status(Code::kInvalidArgument, "");
      if (time.ok() && *time > Duration::zero()) {
        transform.timeout_seconds = std::chrono::duration<double>(*time).count();
      } else {
        timeout->Wanted("a time like 60s or 5m");
      }
    }
    if (auto on_error = keys.Get("on_error")) {
      if (on_error->Choice({"raise", "skip", "retry"}, "what to do about an error")) transform.on_error = on_error->yaml->scalar;
    }
  }

  // The plan.

  void ReadPack(const Word& word) {
    PackSpec& pack = recipe_.pack.emplace();
    if (word.IsList()) return ReadLengths(word, pack);
    Keys keys(word, {"length", "method", "overflow", "align", "pad"}, "a map; write pack: {length: 8192}");
    if (auto length = keys.Need("length", "tokens of a sequence; write pack: {length: 8192}")) {
      if (length->IsList()) {
        ReadLengths(*length, pack);
      } else if (auto tokens = ReadLength(*length)) {
        pack.lengths.push_back({*tokens, 1});
      }
    }
    if (auto method = keys.Get("method")) {
      if (auto choice = method->Choice({"best_fit", "first_fit", "concat"}, "a method of packing"))
        pack.method = static_cast<PackMethod>(*choice);
    }
    if (auto overflow = keys.Get("overflow")) {
      if (auto choice = overflow->Choice({"split", "truncate", "drop"}, "what happens to documents longer than a sequence"))
        pack.overflow = static_cast<Overflow>(*choice);
    }
    if (auto align = keys.Get("align")) {
      pack.align = static_cast<uint32_t>(align->Count(1, 1 << 20, "documents begin at multiples of it").value_or(1));
      for (const PackLength& length : pack.lengths) {
        if (length.length % pack.align != 0)
          align->Fail(Cat("a length of ", length.length, " is not a multiple of ", pack.align));
      }
    }
    if (auto pad = keys.Get("pad")) pack.pad = static_cast<int64_t>(pad->Count(0, INT32_MAX, "a token's number").value_or(0));
  }

  std::optional<uint32_t> ReadLength(const Word& word) {
    constexpr uint64_t kMost = UINT64_C(1) << 30;
    if (word.IsScalar() && !word.yaml->scalar.empty()) {
      const std::string& text = word.yaml->scalar;
      if (text.back() == 'k' || text.back() == 'K') {
        word.Fail(
            Cat(text, " may mean thousands or 1024s; write ", text.substr(0, text.size() - 1), "Ki for 1024s, or the number"));
        return std::nullopt;
      }
      if (text.ends_with("Ki") || text.ends_with("Mi")) {
        Result<uint64_t> tokens = ParseSize(text);
        if (tokens.ok() && *tokens >= 1 && *tokens <= kMost) return static_cast<uint32_t>(*tokens);
      }
    }
    std::optional<uint64_t> tokens = word.Count(1, kMost, "tokens");
    if (!tokens) return std::nullopt;
    return static_cast<uint32_t>(*tokens);
  }

  void ReadLengths(const Word& word, PackSpec& pack) {
    if (word.yaml->list.empty()) {
      word.Fail("an empty list; write [{length: 8192, share: 0.9}, {length: 131072, share: 0.1}]");
      return;
    }
    std::set<uint32_t> seen;
    size_t shared = 0;
    double sum = 0;
    for (const Word& item : word.Items()) {
      Keys keys(item, {"length", "share"}, "a map; write {length: 8192, share: 0.9}");
      PackLength length;
      if (auto tokens = keys.Need("length", "tokens of a sequence")) length.length = ReadLength(*tokens).value_or(0);
      if (auto share = keys.Get("share")) {
        length.share = ReadPositive(*share, "a share above 0").value_or(1);
        ++shared;
      }
      if (length.length != 0 && !seen.insert(length.length).second)
        item.Fail(Cat("the length ", length.length, " is there twice"));
      sum += length.share;
      pack.lengths.push_back(length);
    }
    if (shared != 0 && shared != pack.lengths.size()) word.Fail("some lengths have a share and some have none; give one to each");
    if (shared != 0 && std::abs(sum - 1) > 1e-6)
      Note(Cat(word.path, ": the shares sum to ", Shortest(sum), "; they were normalised"));
    for (PackLength& length : pack.lengths) length.share /= sum;
  }

  static std::string Shortest(double number) { return Cat(std::round(number * 1e6) / 1e6); }

  void ReadKeep(const Keys& top) {
    auto word = top.Get("keep");
    if (!word) return;
    if (word->IsList() && word->yaml->list.empty()) return;
    auto columns = word->Texts("a list of columns; write keep: [id]");
    if (!columns) return;
    for (const std::string& column : *columns) {
      if (column.starts_with("__")) word->Fail(Cat(column, ": names that begin with __ are Headrace's own"));
      if (recipe_.pack && std::ranges::find(kOwnColumns, column) != std::end(kOwnColumns)) {
        word->Fail(
            Cat("a packed batch has a column ", column, " of its own; rename yours: - rename: {", column, ": my_", column, "}"));
      }
    }
    recipe_.keep = *std::move(columns);
  }

  void ReadCost(const Word& word) {
    CostSpec& cost = recipe_.cost;
    if (word.Is("tokens")) return;
    if (word.IsScalar()) return ReadCostExpression(word);
    Keys keys(word, {"attention", "expression", "python"},
              "a cost: tokens, {attention: {hidden: 4096, layers: 32}}, an expression, or {python: \"package.module:function\"}");
    if (!word.IsMap()) return;
    auto attention = keys.Get("attention"), expression = keys.Get("expression"), python = keys.Get("python");
    if (word.yaml->map.size() != 1) {
      word.Fail("one of attention, expression and python is needed, and only one");
    } else if (attention) {
      cost.kind = CostSpec::kAttention;
      Keys shape(*attention, {"hidden", "layers"}, "the model's shape; write attention: {hidden: 4096, layers: 32}");
      if (auto hidden = shape.Need("hidden", "the model's hidden size")) cost.hidden = hidden->Count(1, 1 << 24, "").value_or(1);
      if (auto layers = shape.Need("layers", "the model's number of layers"))
        cost.layers = layers->Count(1, 1 << 20, "").value_or(1);
    } else if (expression) {
      ReadCostExpression(*expression);
    } else if (python) {
      cost.kind = CostSpec::kPython;
      if (python->IsScalar()) {
        cost.call = ReadCall(*python).value_or("");
      } else {
        Keys call(*python, {"call"}, "a map; write python: {call: \"package.module:function\"}");
        if (auto name = call.Need("call", "the function; write call: \"package.module:function\""))
          cost.call = ReadCall(*name).value_or("");
      }
    }
  }

  void ReadCostExpression(const Word& word) {
    recipe_.cost.kind = CostSpec::kExpression;
    std::optional<Expression> expression = ReadExpression(word, "cost");
    if (!expression) return;
    recipe_.cost.expression = word.yaml->scalar;
    if (!(expression->kind() == Expression::Kind::kNumber || expression->kind() == Expression::Kind::kAny)) {
      word.Fail(Cat("a cost is a number, and \"", word.yaml->scalar, "\" is not"));
    }
    std::vector<std::string_view> known = {"length", "bytes", "label_tokens"};
    for (const std::string& column : recipe_.keep) known.push_back(column);
    for (size_t i = 0; i < expression->columns().size(); ++i) {
      const std::string& column = expression->columns()[i];
      if (expression->is_length(i)) {
        word.Fail(Cat("length(", column,
                      "): a cost sees numbers about a sample, not the sample; write length for its tokens, bytes for its size"));
      } else if (std::ranges::find(known, column) == known.end()) {
        word.Fail(Cat(column, " is not known when costs are computed", DidYouMean(column, known),
                      "; a number of your own must be a kept column: keep: [", column, "]"));
      }
    }
  }

  void ReadBalance(const Word& word) {
    BalanceSpec& balance = recipe_.balance;
    auto method = [&](const Word& at) {
      if (auto choice = at.Choice({"none", "greedy", "karmarkar_karp"}, "a method of balancing"))
        balance.method = static_cast<BalanceMethod>(*choice);
    };
    if (word.IsScalar()) return method(word);
    Keys keys(word, {"method", "over"}, "a map; write balance: {method: karmarkar_karp, over: [lane]}");
    if (auto at = keys.Get("method")) method(*at);
    if (auto over = keys.Get("over")) {
      auto texts = over->Texts("a list; write over: [lane]");
      if (!texts) return;
      constexpr std::string_view kOver[] = {"lane", "micro_batch"};
      for (const std::string& text : *texts) {
        if (std::ranges::find(kOver, text) == std::end(kOver))
          over->Fail(Cat(text, " is nothing that can be balanced", DidYouMean(text, kOver)));
      }
      balance.over = *std::move(texts);
    }
  }

  void ReadGroup(const Keys& top) {
    std::optional<uint64_t> size, group_size;
    if (auto word = top.Get("group")) {
      Keys group(*word, {"size"}, "a map; write group: {size: 2}");
      if (auto at = group.Need("size", "how many neighbouring samples stay together; write group: {size: 2}"))
        size = at->Count(1, 1 << 16, "of samples");
    }
    if (auto word = top.Get("distribute")) {
      Keys distribute(*word, {"axis", "group_size"}, "a map; write distribute: {axis: dp, group_size: 2}");
      if (auto axis = distribute.Get("axis")) {
        auto choice = axis->Choice({"dp", "cp", "tp", "pp"}, "an axis of the mesh");
        if (choice && *choice != 0)
          axis->Fail(Cat("samples are distributed over dp; ranks along ", axis->yaml->scalar,
                         " share the same ones: broadcast_at: [", axis->yaml->scalar, "]"));
      }
      if (auto at = distribute.Get("group_size")) {
        group_size = at->Count(1, 1 << 16, "of samples");
        if (size && group_size && *size != *group_size)
          at->Fail(Cat("group.size says ", *size, ", and this says ", *group_size, ": leave one of the two out"));
      }
    }
    recipe_.group_size = static_cast<uint32_t>(size ? *size : group_size.value_or(1));
    if (auto word = top.Get("broadcast_at")) {
      auto axes = word->Texts("a list of axes; write broadcast_at: [tp]");
      if (!axes) return;
      constexpr std::string_view kAxes[] = {"cp", "tp", "pp"};
      for (const std::string& axis : *axes) {
        if (axis == "dp") {
          word->Fail("ranks along dp get different samples; only cp, tp and pp share them");
        } else if (std::ranges::find(kAxes, axis) == std::end(kAxes)) {
          word->Fail(Cat(axis, " is not an axis of the mesh", DidYouMean(axis, kAxes)));
        }
      }
      recipe_.broadcast_at = *std::move(axes);
    }
  }

  // The mixture.

  void ReadMix(const Keys& top) {
    MixSchedule& mix = recipe_.mix;
    const bool token_files =
        std::ranges::any_of(recipe_.sources, [](const SourceSpec& s) { return s.format == "tokens" || s.format == "megatron"; });
    mix.by_tokens = recipe_.pack || recipe_.Tokenizer() != nullptr || token_files;
    auto word = top.Get("mix");
    bool scheduled = false;
    if (word) {
      Keys keys(*word, {"unit", "schedule", "ramp", "policy"}, "a map; write mix: {schedule: {0: {web: 0.5, code: 0.5}}}");
      if (auto unit = keys.Get("unit")) {
        if (auto choice = unit->Choice({"tokens", "samples"}, "what weights count")) mix.by_tokens = *choice == 0;
      }
      if (auto schedule = keys.Get("schedule")) {
        ReadSchedule(*schedule);
        scheduled = true;
      }
      if (auto ramp = keys.Get("ramp")) {
        if (auto choice = ramp->Choice({"none", "linear"}, "a way from one entry of the schedule to the next"))
          mix.ramp = *choice == 1;
        if (mix.ramp && (!scheduled || mix.weights.size() == 1))
          ramp->Fail("there is nothing to ramp between: the schedule needs two entries or more");
      }
      if (auto policy = keys.Get("policy")) ReadPolicy(*policy);
    }
    auto sources = top.Get("sources");
    if (scheduled || !sources || recipe_.sources.empty()) {
      if (scheduled && weighted_ != 0) Note("mix.schedule is there, so the sources' own weights are not used");
      return;
    }
    std::map<std::string, double>& weights = mix.weights[0];
    double sum = 0;
    for (const SourceSpec& source : recipe_.sources) sum += weights[source.name] = source.weight;
    if (weighted_ != 0 && weighted_ != recipe_.sources.size()) {
      for (const Yaml::Entry& entry : sources->yaml->map) {
        if (entry.value.kind == Yaml::kMap && entry.value.Find("weight") == nullptr) {
          problems_.Add(entry.mark, Cat("sources.", entry.key, ".weight"),
                        "is missing, and other sources have one; give each source a weight, or none");
        }
      }
      return;
    }
    Normalise(*sources, weights, sum, weighted_ == 0);
  }

  // `silent`: nobody wrote these weights, they are equal.
  void Normalise(const Word& word, std::map<std::string, double>& weights, double sum, bool silent) {
    if (!(sum > 0) || !std::isfinite(sum)) {
      word.Fail(sum > 0 ? "these weights sum to more than a number can hold" : "all weights are 0: nothing would be drawn");
      return;
    }
    if (!silent && std::abs(sum - 1) > 1e-6)
      Note(Cat(word.path, ": the weights sum to ", Shortest(sum), "; they were normalised"));
    for (auto& [name, weight] : weights) weight /= sum;
  }

  void ReadSchedule(const Word& word) {
    constexpr std::string_view kExample = "schedule: {0: {web: 0.5, code: 0.5}, 1000: {web: 0.3, code: 0.7}}";
    if (!word.IsMap()) {
      word.Wanted(Cat("a map from steps to weights; write ", kExample));
      return;
    }
    std::vector<std::string_view> names;
    for (const SourceSpec& source : recipe_.sources) names.push_back(source.name);
    ReadByStep(word, kExample, [&](uint64_t step, const Word& at) {
      if (!at.IsMap()) {
        at.Wanted("a map of weights; write {web: 0.5, code: 0.5}");
        return;
      }
      std::map<std::string, double>& weights = recipe_.mix.weights[step];
      double sum = 0;
      bool unknown = false;
      for (const Yaml::Entry& entry : at.yaml->map) {
        const Word below = at.Below(entry.key, entry.value);
        if (std::ranges::find(names, entry.key) == names.end()) {
          problems_.Add(entry.mark, below.path, Cat("there is no source ", entry.key, DidYouMean(entry.key, names)));
          unknown = true;
          continue;
        }
        sum += weights[entry.key] = below.Number("a weight: a number of 0 or more").value_or(1);
      }
      if (unknown) return;
      std::string missing;
      for (std::string_view name : names) {
        if (at.yaml->Find(name) == nullptr) missing += Cat(missing.empty() ? "" : ", ", name);
      }
      if (!missing.empty()) {
        at.Fail(Cat("a schedule names all sources, and ", missing, " is missing; a weight of 0 leaves a source out"));
      } else {
        Normalise(at, weights, sum, false);
      }
    });
  }

  void ReadPolicy(const Word& word) {
    std::optional<std::string> name;
    if (word.IsScalar()) {
      name = word.Text("a policy");
    } else if (!word.IsMap()) {
      word.Wanted("a policy; write policy: {name: ado}");
    } else if (const Yaml* at = word.yaml->Find("name")) {
      name = word.Below("name", *at).Text("a policy's name");
    } else {
      word.Fail("name is missing; write policy: {name: ado}");
    }
    if (name && *name != "static")
      word.Unsupported(Cat(
          "the policy ", *name,
          ": mixtures that follow the model's feedback will come with a later version; until then write a schedule, or change weights by `headrace mix`"));
  }

  // The step, and what fits together.

  void ReadStep(const Keys& top) {
    const std::string_view unit = recipe_.pack ? "sequences" : "samples";
    const std::string example = recipe_.pack ? "step: {sequences: 512}" : "step: {samples: 4096}";
    auto word = top.Need("step", Cat("how large a global batch is; write ", example));
    if (!word) return;
    if (!word->IsMap() || word->yaml->map.empty()) {
      word->Fail(Cat(word->Found(), " does not say of what; write ", example));
      return;
    }
    std::optional<Word> size;
    if (std::ranges::all_of(word->yaml->map, [](const Yaml::Entry& entry) { return ParseCount(entry.key).has_value(); })) {
      size = *word;
    } else {
      Keys keys(*word, {"sequences", "samples"}, Cat("a map; write ", example));
      auto sequences = keys.Get("sequences"), samples = keys.Get("samples");
      if (sequences && samples) {
        samples->Fail(recipe_.pack ? "with `pack` a step counts sequences; leave samples out"
                                   : "without `pack` a step counts samples; leave sequences out");
      } else if (recipe_.pack && samples) {
        samples->Fail("with `pack` a step counts sequences; write step: {sequences: 512}");
      } else if (!recipe_.pack && sequences) {
        sequences->Fail(
            "sequences are made by `pack`, which is missing; write step: {samples: 4096}, or add pack: {length: 8192}");
      } else {
        size = sequences ? sequences : samples;
      }
    }
    if (!size) return;
    constexpr uint64_t kMost = UINT64_C(1) << 30;
    if (size->IsMap()) {
      ReadByStep(*size, "{0: 256, 5000: 512}", [&](uint64_t from, const Word& at) {
        recipe_.step[from] = static_cast<uint32_t>(at.Count(1, kMost, unit).value_or(1));
      });
    } else if (auto count = size->Count(1, kMost, Cat(unit, ", or a ramp {0: 256, 5000: 512}"))) {
      recipe_.step[0] = static_cast<uint32_t>(*count);
    }
  }

  void ResolveLanes(const Keys& top) {
    const Word step = *top.Get("step");
    uint32_t all = 0, least = UINT32_MAX;  // all: the greatest number that divides every size
    const uint32_t group = recipe_.pack ? 1 : recipe_.group_size;
    for (const auto& [from, size] : recipe_.step) {
      if (size % group != 0) {
        step.Fail(Cat(size, " samples cannot be made of whole groups of ", group, "; ", size / group * group + group, " can"));
        return;
      }
      all = std::gcd(all, size / group);
      least = std::min(least, size / group);
    }
    if (recipe_.lanes == 0) {
      recipe_.lanes = std::min(kAutoLanes, least);
      // Samples need not be dealt out evenly, sequences do.
      while (recipe_.pack && all % recipe_.lanes != 0) --recipe_.lanes;
      if (recipe_.lanes != std::min(kAutoLanes, least)) {
        Note(Cat("lanes: auto is ", recipe_.lanes, ", because ", std::min(kAutoLanes, least),
                 " do not divide the step's sequences"));
      }
      return;
    }
    const Word lanes = *top.Get("lanes");
    if (recipe_.lanes > least) {
      lanes.Fail(Cat(recipe_.lanes, " lanes cannot share a step of ", least,
                     recipe_.pack ? " sequences"
                     : group > 1  ? " groups of samples"
                                  : " samples",
                     "; write lanes: auto, or make the step larger"));
      return;
    }
    if (!recipe_.pack) return;
    for (const auto& [from, size] : recipe_.step) {
      if (size % recipe_.lanes == 0) continue;
      const uint32_t below = size / recipe_.lanes * recipe_.lanes;
      step.Fail(Cat(size, " sequences cannot be divided evenly over ", recipe_.lanes, " lanes; ", below, " and ",
                    below + recipe_.lanes, " can"));
    }
  }

  void CheckEnds(const Keys& top) {
    if (recipe_.until.kind == Until::kForever) {
      std::string repeated;
      for (SourceSpec& source : recipe_.sources) {
        if (says_at_end_.contains(source.name) || source.epochs > 0) continue;
        source.at_end = AtEnd::kRepeat;
        repeated += Cat(repeated.empty() ? "" : ", ", source.name);
      }
      if (!repeated.empty()) Note(Cat("until: forever, so these sources have at_end: repeat: ", repeated));
      if (std::ranges::none_of(recipe_.sources, [](const SourceSpec& s) { return s.at_end == AtEnd::kRepeat; })) {
        top.Get("until")->Fail("no source has at_end: repeat, so there is nothing that could go on forever");
      }
      return;
    }
    const bool all_repeat = std::ranges::all_of(recipe_.sources, [](const SourceSpec& s) { return s.at_end == AtEnd::kRepeat; });
    if (recipe_.until.kind == Until::kEpochs && all_repeat) {
      constexpr std::string_view kWhat =
          "every source has at_end: repeat, so epochs never end; write until: {steps: 100000}, {tokens: 10B} or forever";
      if (auto until = top.Get("until")) {
        until->Fail(kWhat);
      } else {
        top.Get("sources")->Fail(Cat("every source has at_end: repeat, and until is {epochs: 1} if nothing else is said",
                                     kWhat.substr(kWhat.find(';'))));
      }
    }
  }

  // Which columns are there at the end cannot be known before a file is opened; only what is wrong for certain is refused.
  void CheckTokens(const Keys& top) {
    for (SourceSpec& source : recipe_.sources) {
      if (source.format != "tokens" || source.eos || source.document_length != 0) continue;
      if (!recipe_.pack) {
        problems_.Add(
            {source.line, 1}, Cat("sources.", source.name, ".eos"),
            "is missing: files of the format tokens need to know where a document ends, by eos: 0 or document_length: 2048");
        continue;
      }
      for (const PackLength& length : recipe_.pack->lengths)
        source.document_length = std::max<uint64_t>(source.document_length, length.length);
      Note(Cat("sources.", source.name, ": neither eos nor document_length is given; every ", source.document_length,
               " tokens are a document"));
    }
    if (!recipe_.pack) return;
    bool made = false;
    int lost = 0;
    for (const TransformSpec& transform : recipe_.transforms) {
      switch (transform.kind) {
        case TransformSpec::kTokenize:
        case TransformSpec::kChat:
        case TransformSpec::kPython: made = true, lost = 0; break;
        case TransformSpec::kSelect:
          if (std::ranges::find(transform.columns, "tokens") == transform.columns.end()) lost = transform.line;
          break;
        case TransformSpec::kRename:
          if (transform.names.contains("tokens")) lost = transform.line;
          for (const auto& [from, to] : transform.names) {
            if (to == "tokens") made = true, lost = 0;
          }
          break;
        case TransformSpec::kFilter:
        case TransformSpec::kCast: break;
      }
    }
    if (lost != 0) {
      top.Get("pack")->Fail(Cat("packing needs the column tokens, and the transform on line ", lost, " takes it away"));
      return;
    }
    std::string without;
    for (const SourceSpec& source : recipe_.sources) {
      if (source.format == "tokens" || source.format == "megatron") continue;
      without += Cat(without.empty() ? "" : ", ", source.name);
    }
    if (!made && !without.empty())
      Note(Cat("pack: nothing makes tokens, so a column tokens must be there already in: ", without));
  }

  void CheckKept(const Keys& top) {
    for (const std::string& column : recipe_.keep) {
      int lost = 0;
      for (const TransformSpec& transform : recipe_.transforms) {
        if (transform.kind == TransformSpec::kPython) lost = 0;
        if (transform.kind == TransformSpec::kSelect && std::ranges::find(transform.columns, column) == transform.columns.end())
          lost = transform.line;
        if (transform.kind == TransformSpec::kRename) {
          if (transform.names.contains(column)) lost = transform.line;
          for (const auto& [from, to] : transform.names) {
            if (to == column) lost = 0;
          }
        }
      }
      if (lost != 0)
        top.Get("keep")->Fail(Cat("the column ", column, " is to be kept, and the transform on line ", lost, " takes it away"));
    }
  }

  Recipe& recipe_;
  Problems& problems_;
  size_t weighted_ = 0;
  std::set<std::string> says_at_end_;
};

}  // namespace

Result<Recipe> Recipe::FromYaml(const std::string& text, const std::string& name, const std::string& folder) {
  HR_ASSIGN_OR_RETURN(const Yaml yaml, ParseYaml(text, name));
  Recipe recipe;
  recipe.text = text;
  recipe.name = name;
  recipe.folder = folder;
  Problems problems(name);
  Reader(recipe, problems).Read(yaml);
  HR_RETURN_IF_ERROR(problems.ToStatus());
  return recipe;
}

}  // namespace headrace
