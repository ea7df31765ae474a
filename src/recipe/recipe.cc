#include "recipe/recipe.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/text.h"

namespace headrace {
namespace {

using Json = nlohmann::json;  // its maps are sorted, so that equal recipes give equal texts

// Workers and timeouts may change: they decide how fast, not what. So may what happens to samples that fail (bad_samples, on_error): as long as they
// end the producer nothing is made of their windows, and later that is made which would have been.
Json ToJson(const TransformSpec& transform) {
  switch (transform.kind) {
    case TransformSpec::kTokenize:
      return {{"tokenize",
               {{"tokenizer", transform.tokenizer},
                {"from", transform.from},
                {"add_bos", transform.add_bos},
                {"add_eos", transform.add_eos}}}};
    case TransformSpec::kChat:
      return {{"chat", {{"tokenizer", transform.tokenizer}, {"from", transform.from}, {"train_on", transform.train_on}}}};
    case TransformSpec::kFilter: return {{"filter", transform.expression}};
    case TransformSpec::kSelect: return {{"select", transform.columns}};
    case TransformSpec::kRename: return {{"rename", transform.names}};
    case TransformSpec::kCast: return {{"cast", transform.names}};
    case TransformSpec::kPython: return {{"python", {{"call", transform.call}}}};
  }
  return nullptr;
}

Json ToJson(const PackSpec& pack) {
  constexpr const char* kMethods[] = {"best_fit", "first_fit", "concat"};
  constexpr const char* kOverflows[] = {"split", "truncate", "drop"};
  Json lengths = Json::array();
  for (const PackLength& length : pack.lengths) lengths.push_back({{"length", length.length}, {"share", length.share}});
  return {{"lengths", lengths},
          {"method", kMethods[static_cast<int>(pack.method)]},
          {"overflow", kOverflows[static_cast<int>(pack.overflow)]},
          {"align", pack.align},
          {"pad", pack.pad}};
}

Json ToJson(const CostSpec& cost) {
  switch (cost.kind) {
    case CostSpec::kTokens: return "tokens";
    case CostSpec::kAttention: return {{"attention", {{"hidden", cost.hidden}, {"layers", cost.layers}}}};
    case CostSpec::kExpression: return {{"expression", cost.expression}};
    case CostSpec::kPython: return {{"python", cost.call}};
  }
  return nullptr;
}

Json ToJson(const Until& until) {
  switch (until.kind) {
    case Until::kEpochs: return {{"epochs", until.epochs}};
    case Until::kSteps: return {{"steps", until.amount}};
    case Until::kTokens: return {{"tokens", until.amount}};
    case Until::kForever: return "forever";
  }
  return nullptr;
}

}  // namespace

std::string SourceSpec::Fingerprint() const {
  Json json = {{"name", name}, {"format", format}, {"files", files}, {"epochs", epochs}, {"limit", limit}};
  if (format == "tokens") {
    json["dtype"] = DtypeName(dtype);
    if (eos) {
      json["eos"] = *eos;
    } else {
      json["document_length"] = document_length;
    }
  }
  return Sha256Hex(json.dump());
}

std::string Recipe::Canonical() const {
  constexpr const char* kBalance[] = {"none", "greedy", "karmarkar_karp"};
  Json steps = Json::array();
  for (const auto& [from, size] : step) steps.push_back({from, size});
  Json chain = Json::array();
  for (const TransformSpec& transform : transforms) chain.push_back(ToJson(transform));
  Json json = {{"seed", seed},
               {"lanes", lanes},
               {"strands", strands},
               {"order", order == Order::kPlanned ? "planned" : "arrival"},
               {"step", steps},
               {"lane_bytes", lane_bytes},
               {"until", ToJson(until)},
               {"drop_last", drop_last},
               {"shuffle_window", shuffle_window},
               {"transform", chain},
               {"pack", pack ? ToJson(*pack) : Json(nullptr)},
               {"cost", ToJson(cost)},
               {"balance", {{"method", kBalance[static_cast<int>(balance.method)]}, {"over", balance.over}}},
               {"group_size", group_size},
               {"keep", keep}};
  if (holdout_fraction > 0) json["holdout"] = {{"fraction", holdout_fraction}, {"by", holdout_by}};
  return json.dump();
}

uint32_t Recipe::StepSize(uint64_t number) const { return std::prev(step.upper_bound(number))->second; }

double Recipe::Epochs(const SourceSpec& source) const {
  if (source.at_end == AtEnd::kRepeat) return std::numeric_limits<double>::infinity();
  if (source.epochs > 0) return source.epochs;
  return until.kind == Until::kEpochs ? until.epochs : 1;
}

const TransformSpec* Recipe::Tokenizer() const {
  for (const TransformSpec& transform : transforms) {
    if (transform.kind == TransformSpec::kTokenize || transform.kind == TransformSpec::kChat) return &transform;
  }
  return nullptr;
}

Result<Recipe> Recipe::FromFile(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure)) {
    return Status(Code::kInvalidArgument, Cat("cannot read the recipe ", path, ": it is a folder"));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Status(errno == ENOENT ? Code::kNotFound : Code::kInvalidArgument,
                  Cat("cannot read the recipe ", path, ": ", std::strerror(errno)));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) return Status(Code::kUnavailable, Cat("cannot read the recipe ", path, ": ", std::strerror(errno)));
  const std::filesystem::path absolute = std::filesystem::absolute(path, failure).lexically_normal();
  return FromYaml(text, path, absolute.parent_path().string());
}

}  // namespace headrace
