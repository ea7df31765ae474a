#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/size.h"
#include "recipe/recipe_reader.h"

namespace headrace {

void RecipeReader::ReadTransforms(const Word& word) {
  if (!word.IsList()) {
    word.Wanted("a list; begin each transform with a dash: - tokenize: {tokenizer: tokenizer.json}");
    return;
  }
  int tokens_from_line = 0;
  for (const Word& item : word.Items()) {
    if (!item.IsMap() || item.yaml->map.size() != 1) {
      item.Fail(Cat(item.Found(), item.IsMap() && item.yaml->map.size() > 1 ? " of several keys" : "",
                    " is not one transform; write one of ", Listed(kTransformNames),
                    " and what it needs, each behind a dash of its own"));
      continue;
    }
    const Yaml::Entry& entry = item.yaml->map.front();
    const Word what = item.Below(entry.key, entry.value);
    auto found = std::ranges::find(kTransformNames, entry.key);
    if (found == std::end(kTransformNames)) {
      problems_.Add(entry.mark, what.path, Cat("no such transform", DidYouMean(entry.key, kTransformNames)));
      continue;
    }
    TransformSpec transform;
    transform.kind = static_cast<TransformSpec::Kind>(found - std::begin(kTransformNames));
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

void RecipeReader::ReadTransform(const Word& word, TransformSpec& transform) {
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

void RecipeReader::ReadTokenize(const Word& word, TransformSpec& transform) {
  transform.from = "text";
  if (word.IsScalar()) {
    transform.tokenizer = word.Text("a tokenizer.json").value_or("");
    return;
  }
  Keys keys(word, {"tokenizer", "from", "add_bos", "add_eos"}, "a map; write tokenize: {tokenizer: tokenizer.json, from: text}");
  if (auto tokenizer = keys.Need("tokenizer", "the path of a tokenizer.json"))
    transform.tokenizer = tokenizer->Text("the path of a tokenizer.json").value_or("");
  if (auto from = keys.Get("from")) transform.from = ColumnName(*from).value_or("");
  if (auto flag = keys.Get("add_bos")) transform.add_bos = flag->Flag().value_or(false);
  if (auto flag = keys.Get("add_eos")) transform.add_eos = flag->Flag().value_or(false);
}

void RecipeReader::ReadChat(const Word& word, TransformSpec& transform) {
  transform.from = "messages";
  if (word.IsScalar()) {
    transform.tokenizer = word.Text("the tokenizer's folder").value_or("");
    return;
  }
  Keys keys(word, {"tokenizer", "from", "train_on"}, "a map; write chat: {tokenizer: DIR, from: messages, train_on: assistant}");
  if (auto tokenizer = keys.Need("tokenizer", "a folder with tokenizer.json, tokenizer_config.json and the chat template"))
    transform.tokenizer = tokenizer->Text("the tokenizer's folder").value_or("");
  if (auto from = keys.Get("from")) transform.from = ColumnName(*from).value_or("");
  if (auto train_on = keys.Get("train_on")) {
    if (train_on->Choice({"assistant", "all"}, "what is trained on")) transform.train_on = train_on->yaml->scalar;
  }
}

void RecipeReader::ReadFilter(const Word& word, TransformSpec& transform) {
  std::optional<Expression> expression = ReadExpression(word, "filter");
  if (!expression) return;
  transform.expression = word.yaml->scalar;
  if (expression->kind() == Expression::Kind::kNumber || expression->kind() == Expression::Kind::kText) {
    word.Fail(
        Cat("a filter must say yes or no; \"", transform.expression, "\" is ",
            expression->kind() == Expression::Kind::kNumber ? "a number. Compare it with one: length(tokens) >= 32" : "a text"));
  }
}

void RecipeReader::ReadRename(const Word& word, TransformSpec& transform) {
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

void RecipeReader::ReadCast(const Word& word, TransformSpec& transform) {
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

void RecipeReader::ReadPython(const Word& word, TransformSpec& transform) {
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

}  // namespace headrace
