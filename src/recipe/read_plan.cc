#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/size.h"
#include "recipe/recipe_reader.h"

namespace headrace {

void RecipeReader::ReadPack(const Word& word) {
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
      if (length.length % pack.align != 0) align->Fail(Cat("a length of ", length.length, " is not a multiple of ", pack.align));
    }
  }
  if (auto pad = keys.Get("pad")) pack.pad = static_cast<int64_t>(pad->Count(0, INT32_MAX, "a token's number").value_or(0));
}

std::optional<uint32_t> RecipeReader::ReadLength(const Word& word) {
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

void RecipeReader::ReadLengths(const Word& word, PackSpec& pack) {
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
    if (length.length != 0 && !seen.insert(length.length).second) item.Fail(Cat("the length ", length.length, " is there twice"));
    sum += length.share;
    pack.lengths.push_back(length);
  }
  if (shared != 0 && shared != pack.lengths.size()) word.Fail("some lengths have a share and some have none; give one to each");
  if (shared != 0 && std::abs(sum - 1) > 1e-6)
    Note(Cat(word.path, ": the shares sum to ", Shortest(sum), "; they were normalised"));
  for (PackLength& length : pack.lengths) length.share /= sum;
}

void RecipeReader::ReadCost(const Word& word) {
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

void RecipeReader::ReadCostExpression(const Word& word) {
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

void RecipeReader::ReadBalance(const Word& word) {
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

void RecipeReader::ReadGroup(const Keys& top) {
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

}  // namespace headrace
