// What the tokens of a stream mean, for `headrace cat`.

#include <fmt/core.h>

#include <filesystem>

#include "cli/lake/commands.h"
#include "recipe/stream_recipe.h"
#include "transform/transform.h"

namespace headrace::cli {

Result<TextOfTokens> FindTokenizerOfStream(StreamLog& log, const std::string& tokenizer, const Deadline& deadline) {
  Recipe recipe;
  TransformSpec spec;
  std::map<std::string, std::string> fingerprints;
  if (tokenizer.empty()) {
    HR_ASSIGN_OR_RETURN(StreamRecipe kept, ReadStreamRecipe(log, deadline));
    HR_ASSIGN_OR_RETURN(recipe, Recipe::FromYaml(kept.text, "the stream's recipe", kept.folder));
    if (recipe.Tokenizer() == nullptr)
      return Status(Code::kUnsupported, "the stream's recipe has no tokenizer; --tokenizer names one");
    spec = *recipe.Tokenizer();
    fingerprints = std::move(kept.fingerprints);
  } else {
    spec.tokenizer = tokenizer;
  }
  // Nothing but the tokenizer: neither a template nor Python is needed to read tokens.
  spec.kind = TransformSpec::kTokenize;
  if (std::filesystem::is_directory(std::filesystem::path(recipe.folder) / spec.tokenizer)) spec.tokenizer += "/tokenizer.json";
  spec.add_eos = spec.add_bos = false;
  recipe.transforms = {spec};
  TransformOptions options;
  options.python = PythonForWorkers();
  Result<std::unique_ptr<TransformChain>> made = TransformChain::Make(recipe, options);
  if (!made.ok()) return Status(made.code(), fmt::format("{}; --tokenizer names another place of it", made.status().message()));
  std::shared_ptr<TransformChain> chain = *std::move(made);
  for (const auto& [name, hash] : chain->Fingerprints()) {
    if (auto kept = fingerprints.find(name);
        name.starts_with("tokenizer:") && kept != fingerprints.end() && kept->second != hash) {
      return Status(Code::kConflict,
                    fmt::format("{} is not the tokenizer that the stream was made with; --tokenizer takes it all the same",
                                spec.tokenizer));
    }
  }
  return TextOfTokens([chain](const std::vector<int64_t>& tokens) { return chain->Decode(tokens); });
}

}  // namespace headrace::cli
