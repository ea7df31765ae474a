#include <algorithm>

#include "recipe/recipe_reader.h"

namespace headrace {

void RecipeReader::CheckEnds(const Keys& top) {
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
void RecipeReader::CheckTokens(const Keys& top) {
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
  if (!made && !without.empty()) Note(Cat("pack: nothing makes tokens, so a column tokens must be there already in: ", without));
}

void RecipeReader::CheckKept(const Keys& top) {
  for (const std::string& column : recipe_.keep) {
    int lost = 0;
    std::string renamed;
    for (const TransformSpec& transform : recipe_.transforms) {
      if (transform.kind == TransformSpec::kPython) lost = 0;
      if (transform.kind == TransformSpec::kSelect && std::ranges::find(transform.columns, column) == transform.columns.end())
        lost = transform.line;
      if (transform.kind == TransformSpec::kRename) {
        if (auto found = transform.names.find(column); found != transform.names.end()) {
          lost = transform.line;
          renamed = found->second;
        }
        for (const auto& [from, to] : transform.names) {
          if (to == column) lost = 0;
        }
      }
    }
    if (lost != 0 && !renamed.empty())
      top.Get("keep")->Fail(Cat("the column ", column, " is called ", renamed, " from line ", lost,
                                " on, and keep names columns as they are after the transforms: write ", renamed));
    else if (lost != 0)
      top.Get("keep")->Fail(Cat("the column ", column, " is to be kept, and the transform on line ", lost, " takes it away"));
  }
}

}  // namespace headrace
