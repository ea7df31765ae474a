#include <algorithm>
#include <cmath>
#include <iterator>

#include "recipe/recipe_reader.h"

namespace headrace {
namespace {

constexpr std::string_view kTopKeys[] = {"stream",  "seed",    "lanes",       "strands", "order",      "step",
                                         "chunk",   "lead",    "retain",      "until",   "drop_last",  "sources",
                                         "holdout", "shuffle", "transform",   "pack",    "cost",       "balance",
                                         "mix",     "keep",    "bad_samples", "group",   "distribute", "broadcast_at"};
// What a packed batch consists of: nobody's kept column may have these names.
constexpr std::string_view kOwnColumns[] = {"tokens", "labels", "position_ids", "cu_seqlens", "max_seqlen", "source"};

}  // namespace

std::optional<std::string> ColumnName(const Word& word) {
  std::optional<std::string> name = word.Text("a column's name");
  if (name && name->starts_with("__")) {
    word.Fail(Cat(*name, ": names that begin with __ are Headrace's own"));
    return std::nullopt;
  }
  return name;
}

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

std::string Shortest(double number) { return Cat(std::round(number * 1e6) / 1e6); }

void RecipeReader::Read(const Yaml& yaml) {
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

void RecipeReader::ReadBasics(const Keys& top) {
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

void RecipeReader::ReadLead(const Keys& top) {
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

void RecipeReader::ReadRetain(const Keys& top) {
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

void RecipeReader::ReadUntil(const Keys& top) {
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

std::optional<double> RecipeReader::ReadPositive(const Word& word, std::string_view meaning) {
  std::optional<double> number = word.Number(meaning);
  if (number && *number <= 0) {
    word.Wanted(meaning);
    return std::nullopt;
  }
  return number;
}

void RecipeReader::ReadBadSamples(const std::optional<Word>& word, BadSamples& bad) {
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

void RecipeReader::ReadHoldoutAndShuffle(const Keys& top) {
  if (auto word = top.Get("holdout")) {
    Keys holdout(*word, {"fraction", "by"}, "a map; write holdout: {fraction: 0.001, by: id}");
    if (auto fraction = holdout.Need("fraction", "which part is never trained on; write holdout: {fraction: 0.001}")) {
      constexpr std::string_view kMeaning = "a fraction above 0 and below 1";
      recipe_.holdout_fraction = ReadPositive(*fraction, kMeaning).value_or(0);
      if (recipe_.holdout_fraction >= 1) fraction->Wanted(kMeaning);
    }
    if (auto by = holdout.Get("by")) {
      recipe_.holdout_by = ColumnName(*by).value_or("");
      recipe_.holdout_line = by->yaml->mark.line;
    }
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

void RecipeReader::ReadKeep(const Keys& top) {
  auto word = top.Get("keep");
  if (!word) return;
  if (word->IsList() && word->yaml->list.empty()) return;
  auto columns = word->Texts("a list of columns; write keep: [id]");
  if (!columns) return;
  for (const std::string& column : *columns) {
    if (column.starts_with("__"))
      word->Fail(Cat(column,
                     ": names that begin with __ are Headrace's own; a column of the lake that has such a name can be kept under "
                     "another one: `- rename: {",
                     column, ": key}` in `transform`"));
    if (recipe_.pack && std::ranges::find(kOwnColumns, column) != std::end(kOwnColumns)) {
      word->Fail(
          Cat("a packed batch has a column ", column, " of its own; rename yours: - rename: {", column, ": my_", column, "}"));
    }
  }
  recipe_.keep = *std::move(columns);
  recipe_.keep_line = word->yaml->mark.line;
}

Result<Recipe> Recipe::FromYaml(const std::string& text, const std::string& name, const std::string& folder) {
  HR_ASSIGN_OR_RETURN(const Yaml yaml, ParseYaml(text, name));
  Recipe recipe;
  recipe.text = text;
  recipe.name = name;
  recipe.folder = folder;
  Problems problems(name);
  RecipeReader(recipe, problems).Read(yaml);
  HR_RETURN_IF_ERROR(problems.ToStatus());
  return recipe;
}

}  // namespace headrace
