#include "recipe/stream_recipe.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/text.h"
#include "store/create.h"
#include "stream/mixture_object.h"

namespace headrace {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kAtEnd[] = {"drop", "repeat", "stop"};

// Secrets stay with whoever has them: a producer uses its own recipe's options for a source of the same name.
bool MayBeWritten(const std::string& option) { return option == "endpoint" || option == "region" || option == "addressing"; }

Json SpecToJson(const StreamSource& source) {
  const SourceSpec& spec = source.spec;
  Json json = {{"name", spec.name},
               {"format", spec.format},
               {"files", spec.files},
               {"at_end", kAtEnd[static_cast<size_t>(spec.at_end)]},
               {"epochs", spec.epochs},
               {"limit", spec.limit},
               {"dtype", DtypeName(spec.dtype)},
               {"document_length", spec.document_length},
               {"fingerprint", spec.Fingerprint()},
               {"inventory", source.inventory}};
  if (spec.eos) json["eos"] = *spec.eos;
  if (spec.bad_samples) json["bad_samples"] = {{"skip", spec.bad_samples->skip}, {"limit", spec.bad_samples->limit}};
  for (const auto& [name, value] : spec.storage_options) {
    if (MayBeWritten(name)) json["storage_options"][name] = value;
  }
  return json;
}

StreamSource SpecFromJson(const Json& json) {
  StreamSource source;
  SourceSpec& spec = source.spec;
  spec.name = json.at("name").get<std::string>();
  spec.format = json.at("format").get<std::string>();
  spec.files = json.at("files").get<std::vector<std::string>>();
  const std::string at_end = json.at("at_end").get<std::string>();
  spec.at_end = static_cast<AtEnd>(std::ranges::find(kAtEnd, at_end) - std::begin(kAtEnd));
  spec.epochs = json.at("epochs").get<double>();
  spec.limit = json.at("limit").get<uint64_t>();
  if (Result<Dtype> dtype = ParseDtype(json.at("dtype").get<std::string>()); dtype.ok()) spec.dtype = *dtype;
  spec.document_length = json.at("document_length").get<uint64_t>();
  if (json.contains("eos")) spec.eos = json["eos"].get<int64_t>();
  if (json.contains("bad_samples"))
    spec.bad_samples = {json["bad_samples"].at("skip").get<bool>(), json["bad_samples"].at("limit").get<uint64_t>()};
  if (json.contains("storage_options")) spec.storage_options = json["storage_options"].get<StorageOptions>();
  source.inventory = json.at("inventory").get<std::string>();
  return source;
}

Json MixtureToJson(const StreamMixture& mixture) {
  Json sources = Json::array();
  for (const StreamSource& source : mixture.sources) sources.push_back(SpecToJson(source));
  return {{"number", mixture.number}, {"mix", Json::parse(mixture.mix.ToJson())}, {"sources", sources}};
}

// All but the weights.
Result<StreamMixture> SourcesFromJson(const Json& json) {
  StreamMixture mixture;
  mixture.number = json.at("number").get<uint32_t>();
  const Json& mix = json.at("mix");
  mixture.mix.by_tokens = !mix.is_object() || mix.value("unit", "tokens") == "tokens";
  for (const Json& source : json.at("sources")) mixture.sources.push_back(SpecFromJson(source));
  return mixture;
}

Result<StreamMixture> MixtureFromJson(const Json& json) {
  HR_ASSIGN_OR_RETURN(StreamMixture mixture, SourcesFromJson(json));
  HR_ASSIGN_OR_RETURN(mixture.mix, MixSchedule::FromJson(json.at("mix").dump()));
  return mixture;
}

template <typename T>
Result<T> Parse(std::string_view text, std::string_view what, Result<T> (*read)(const Json&)) {
  try {
    Result<T> value = read(Json::parse(text));
    if (!value.ok()) return value.status().Annotate(what);
    return value;
  } catch (const Json::exception& error) {
    return Status(Code::kCorrupt, Cat(what, " is damaged: ", error.what()));
  }
}

}  // namespace

std::vector<std::string> StreamMixture::Names() const {
  std::vector<std::string> names;
  for (const StreamSource& source : sources) names.push_back(source.spec.name);
  return names;
}

std::string StreamMixture::ToJson() const { return MixtureToJson(*this).dump(1) + "\n"; }

Result<StreamMixture> StreamMixture::FromJson(std::string_view text, std::string_view what) {
  return Parse<StreamMixture>(text, what, &MixtureFromJson);
}

Status StreamMixture::Check() const {
  if (Result<StreamMixture> read = FromJson(ToJson(), "the new mixture"); !read.ok())
    return Status(Code::kInvalidArgument, Cat(read.status().message(), ". Nothing was committed"));
  return {};
}

std::string StreamRecipe::Hash() const {
  return Sha256Hex(Json{{"recipe", canonical}, {"fingerprints", fingerprints}, {"holdout", holdout}}.dump());
}

std::string StreamRecipe::ToJson() const {
  return Json{{"text", text},
              {"canonical", canonical},
              {"fingerprints", fingerprints},
              {"first", MixtureToJson(first)},
              {"blocks", blocks},
              {"holdout", holdout},
              {"folder", folder},
              {"broadcast_at", broadcast_at}}
             .dump(1) +
         "\n";
}

Result<StreamRecipe> StreamRecipe::FromJson(std::string_view text, std::string_view what) {
  return Parse<StreamRecipe>(
      text, what, +[](const Json& json) -> Result<StreamRecipe> {
        StreamRecipe recipe;
        recipe.text = json.at("text").get<std::string>();
        recipe.canonical = json.at("canonical").get<std::string>();
        recipe.fingerprints = json.at("fingerprints").get<std::map<std::string, std::string>>();
        HR_ASSIGN_OR_RETURN(recipe.first, MixtureFromJson(json.at("first")));
        recipe.blocks = json.at("blocks").get<uint64_t>();
        recipe.holdout = json.at("holdout").get<bool>();
        recipe.folder = json.value("folder", "");
        recipe.broadcast_at = json.value("broadcast_at", std::vector<std::string>());
        return recipe;
      });
}

Result<std::string> PutByContent(ObjectStore& store, const std::string& kind, const std::string& bytes,
                                 const Deadline& deadline) {
  std::string key = kind + "/" + Sha256Hex(bytes);
  // Whoever else writes this key writes the same bytes, so every outcome but an error is fine; a doubt is settled by whoever reads it.
  HR_ASSIGN_OR_RETURN(PutOutcome outcome, store.PutIfAbsent(key, Body(bytes), deadline));
  if (outcome.kind == PutOutcome::kUnknown) HR_RETURN_IF_ERROR(store.Put(key, Body(bytes), deadline));
  return key;
}

Result<Bytes> GetByContent(ObjectStore& store, const std::string& key, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::optional<Object> object, store.Get(key, deadline));
  if (!object) return Status(Code::kCorrupt, Cat(store.Describe(key), " is gone; the stream refers to it"));
  if (key.substr(key.find('/') + 1) != Sha256Hex(object->bytes.AsText()))
    return Status(Code::kCorrupt, Cat(store.Describe(key), " holds other bytes than its name says"));
  return object->bytes;
}

Result<StreamRecipe> ReadStreamRecipe(StreamLog& log, const Deadline& deadline) {
  const std::string& key = log.info().recipe;
  if (key.empty())
    return Status(Code::kNotFound,
                  Cat("the stream ", log.store().Describe(), " was not made from a recipe; other programs fill it"));
  HR_ASSIGN_OR_RETURN(Bytes bytes, GetByContent(log.store(), key, deadline));
  return StreamRecipe::FromJson(bytes.AsText(), log.store().Describe(key));
}

Result<StreamMixture> ReadMixture(StreamLog& log, const StreamRecipe& recipe, uint32_t number, const Deadline& deadline) {
  if (number == 0) return recipe.first;
  HR_ASSIGN_OR_RETURN(MixtureObject object, ReadMixtureObject(log, number, deadline));
  return StreamMixture::FromJson(object.bytes.AsText(), log.store().Describe(object.key));
}

Result<StreamMixture> ReadMixtureToReplace(StreamLog& log, const StreamRecipe& recipe, uint32_t number,
                                           const Deadline& deadline) {
  Result<StreamMixture> whole = ReadMixture(log, recipe, number, deadline);
  if (whole.code() != Code::kCorrupt || number == 0) return whole;
  HR_ASSIGN_OR_RETURN(MixtureObject object, ReadMixtureObject(log, number, deadline));
  return Parse<StreamMixture>(object.bytes.AsText(), log.store().Describe(object.key), &SourcesFromJson);
}

Result<uint64_t> CommitMixture(StreamLog& log, StreamMixture mixture, const Deadline& deadline) {
  HR_RETURN_IF_ERROR(mixture.Check());
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log.Refresh(deadline));
  if (state->manifest.finished)
    return Status(Code::kConflict,
                  Cat("the stream ", log.store().Describe(), " is sealed: no step follows that a mixture could hold for"));
  MixtureEdit edit{log.info().uuid, state->manifest.decisions + 1, log.NewNonce()};
  mixture.number = static_cast<uint32_t>(edit.decision);
  const std::string key = MixtureKey(mixture.number, edit.nonce);
  Random random(edit.nonce);
  HR_ASSIGN_OR_RETURN(CreateResult created, Create(log.store(), key, Body(mixture.ToJson()), deadline, log.clock(), random));
  if (created.kind != CreateResult::kCreated)
    return Status(Code::kUnavailable, Cat("cannot write ", log.store().Describe(key), ": ", created.reason.message()));
  HR_ASSIGN_OR_RETURN(state, log.Commit(edit, deadline));
  for (const MixtureRef& ref : state->manifest.mixtures) {
    if (ref.number == mixture.number) return log.info().blocks.FirstStep(ref.first_block);
  }
  return Status(Code::kInternal, "a mixture was committed and is not there");
}

}  // namespace headrace
