#include <algorithm>
#include <utility>

#include "base/text.h"
#include "recipe/columns.h"
#include "recipe/expression.h"
#include "transform/batch.h"
#include "transform/columns.h"
#include "transform/filter.h"
#include "transform/python_call.h"
#include "transform/seed.h"
#include "transform/tokenize.h"
#include "transform/transform.h"

namespace headrace {
namespace {

// Whether what `transforms[index]` makes tokens of is still asked for afterwards.
bool IsKept(const Recipe& recipe, size_t index) {
  const std::string from = ColumnsNamedBy(recipe.transforms[index]).front();
  auto asked = [&](const std::vector<std::string>& names) { return std::ranges::find(names, from) != names.end(); };
  if (asked(recipe.keep)) return true;
  for (size_t i = index + 1; i < recipe.transforms.size(); i++) {
    if (asked(ColumnsNamedBy(recipe.transforms[i]))) return true;
  }
  return false;
}

class Chain final : public TransformChain {
 public:
  static Result<std::unique_ptr<TransformChain>> Make(const Recipe& recipe, const TransformOptions& options) {
    auto chain = std::make_unique<Chain>();
    for (ColumnUse& use : ColumnsOfTransforms(recipe)) chain->reads_.push_back(std::move(use.column));
    // Tokenizers like large batches, and Python may look at all of one.
    chain->row_by_row_ = std::ranges::none_of(recipe.transforms, [](const TransformSpec& spec) {
      return spec.kind == TransformSpec::kTokenize || spec.kind == TransformSpec::kChat || spec.kind == TransformSpec::kPython;
    });
    for (size_t i = 0; i < recipe.transforms.size(); i++) {
      const TransformSpec& spec = recipe.transforms[i];
      auto made = chain->MakeOne(recipe, i, options);
      if (!made.ok()) {
        return made.status().Annotate(Cat(PlaceOf(recipe, spec.line), kTransformNames[spec.kind]));
      }
      chain->places_.push_back(Cat(PlaceOf(recipe, spec.line), kTransformNames[spec.kind]));
      chain->transforms_.push_back(*std::move(made));
    }
    return std::unique_ptr<TransformChain>(std::move(chain));
  }

  Result<BatchPointer> Apply(const BatchPointer& batch, uint64_t seed, std::vector<BadRow>& bad) override {
    BatchPointer current = batch;
    for (size_t i = 0; i < transforms_.size(); i++) {
      std::vector<BadRow> found;
      Result<BatchPointer> next = transforms_[i]->Apply(current, MixSeed(seed, i), found);
      if (!next.ok()) {
        bad.clear();
        for (auto& row : found) {
          if (row.failed) bad.push_back({current != batch ? RowWithOrigin(*batch, *current, row.row) : row.row, "", false, true});
        }
        return next.status().Annotate(places_[i]);
      }
      for (auto& row : found) {
        row.why = Cat(places_[i], ": ", row.why);
        // By the number that it has for the caller.
        if (current != batch) row.row = RowWithOrigin(*batch, *current, row.row);
        bad.push_back(std::move(row));
      }
      current = *std::move(next);
    }
    std::ranges::stable_sort(bad, {}, &BadRow::row);
    return current;
  }

  std::map<std::string, std::string> Fingerprints() const override {
    std::map<std::string, std::string> all;
    for (const auto& transform : transforms_) all.merge(transform->Fingerprints());
    return all;
  }

  std::optional<uint64_t> Vocabulary() const override { return tokens_ != nullptr ? tokens_->Vocabulary() : std::nullopt; }
  std::vector<std::string> Reads() const override { return reads_; }
  bool TokenizesNatively() const override { return native_; }
  bool RowByRow() const override { return row_by_row_; }

  Result<std::string> Decode(const std::vector<int64_t>& tokens) const override {
    if (tokens_ == nullptr)
      return Status(Code::kUnsupported, "the recipe has no tokenizer, so nobody can tell what its tokens mean");
    return tokens_->Decode(tokens);
  }

 private:
  Result<std::unique_ptr<Transform>> MakeOne(const Recipe& recipe, size_t index, const TransformOptions& options) {
    const TransformSpec& spec = recipe.transforms[index];
    switch (spec.kind) {
      case TransformSpec::kTokenize:
      case TransformSpec::kChat: {
        auto make = spec.kind == TransformSpec::kChat ? MakeChat : MakeTokenize;
        HR_ASSIGN_OR_RETURN(auto made, make(spec, recipe.folder, IsKept(recipe, index), options));
        tokens_ = made.get();
        native_ = made->native();
        return std::unique_ptr<Transform>(std::move(made));
      }
      case TransformSpec::kFilter: {
        HR_ASSIGN_OR_RETURN(Expression expression, Expression::Parse(spec.expression));
        return MakeFilter(std::move(expression));
      }
      case TransformSpec::kSelect: return MakeSelect(spec.columns);
      case TransformSpec::kRename: return MakeRename(spec.names);
      case TransformSpec::kCast: return MakeCast(spec.names);
      case TransformSpec::kPython: return MakePython(spec, recipe.folder, options);
    }
    return Status(Code::kInternal, "there is no such transform");
  }

  std::vector<std::unique_ptr<Transform>> transforms_;
  std::vector<std::string> places_;  // in the recipe, of each: "recipe.yaml:7: filter"
  TokenTransform* tokens_ = nullptr;  // the last one, in transforms_
  bool native_ = false;
  bool row_by_row_ = true;
  std::vector<std::string> reads_;
};

}  // namespace

Result<std::unique_ptr<TransformChain>> TransformChain::Make(const Recipe& recipe, const TransformOptions& options) {
  return Chain::Make(recipe, options);
}

}  // namespace headrace
