#include "stream/verify_recipe.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hash.h"
#include "base/text.h"
#include "stream/mixture_object.h"
#include "stream/mixture_weights.h"

namespace headrace {
namespace {

using Json = nlohmann::json;

class RecipeVerifier {
 public:
  RecipeVerifier(StreamLog& log, const Deadline& deadline, VerifyReport& report)
      : log_(log), deadline_(deadline), report_(report) {}

  Status Run() {
    const bool recipe = !log_.info().recipe.empty();
    if (recipe) HR_RETURN_IF_ERROR(CheckJson(log_.info().recipe, /*by_content=*/true, "/first/mix"));
    StreamLog::StatePtr state = log_.known();
    const std::vector<MixtureRef>& mixtures = state->manifest.mixtures;
    for (size_t i = 0; i < mixtures.size(); ++i) {
      if (mixtures[i].number == 0) continue;  // it is in the recipe
      // By one that another has replaced, for all blocks that can still come, nobody draws any more.
      const bool replaced = i + 1 < mixtures.size() &&
                            mixtures[i + 1].first_block <= std::max(mixtures[i].first_block, state->manifest.frontier_block);
      HR_RETURN_IF_ERROR(CheckJson(MixtureKey(mixtures[i].number, mixtures[i].nonce), /*by_content=*/false,
                                   recipe && !replaced ? "/mix" : nullptr));
    }
    for (const std::string& key : inventories_) HR_RETURN_IF_ERROR(Read(key, /*by_content=*/true).status());
    return {};
  }

 private:
  void Damaged(const std::string& key, std::string what) {
    report_.damaged.push_back({log_.store().Describe(key), std::move(what)});
  }

  // Its text; nothing if it is damaged, which is noted.
  Result<std::optional<std::string>> Read(const std::string& key, bool by_content) {
    ++report_.recipe_objects;
    HR_ASSIGN_OR_RETURN(std::optional<Object> object, log_.store().Get(key, deadline_));
    if (!object) {
      Damaged(key, "it is not there, and the stream refers to it");
      return std::optional<std::string>();
    }
    std::string text(object->bytes.AsText());
    report_.bytes += text.size();
    if (by_content && Sha256Hex(text) != key.substr(key.find('/') + 1)) {
      Damaged(key, "it holds other bytes than the hash that is its name");
      return std::optional<std::string>();
    }
    return std::optional(std::move(text));
  }

  // `weights`: where they stand in it.
  Status CheckJson(const std::string& key, bool by_content, const char* weights) {
    HR_ASSIGN_OR_RETURN(std::optional<std::string> text, Read(key, by_content));
    if (!text) return {};
    const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) {
      Damaged(key, "it is not JSON");
      return {};
    }
    FindInventories(json);
    if (weights == nullptr) return {};
    const Json::json_pointer where(weights);
    Result<std::map<uint64_t, Weights>> read = ReadWeights(json.contains(where) ? json[where].dump() : "");
    if (!read.ok()) Damaged(key, Cat(read.status().message(), ". `headrace mix --set` puts another mixture in its place"));
    return {};
  }

  void FindInventories(const Json& json) {
    for (const auto& [name, value] : json.items()) {
      if (json.is_object() && name == "inventory" && value.is_string()) inventories_.insert(value.get<std::string>());
      if (value.is_structured()) FindInventories(value);
    }
  }

  StreamLog& log_;
  const Deadline& deadline_;
  VerifyReport& report_;
  std::set<std::string> inventories_;
};

}  // namespace

Status VerifyRecipe(StreamLog& log, const Deadline& deadline, VerifyReport& report) {
  return RecipeVerifier(log, deadline, report).Run();
}

}  // namespace headrace
