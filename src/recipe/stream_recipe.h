// What a stream remembers of the recipe that it is made by: the objects `recipe/<sha256>` and `mixtures/<n>-<nonce>`.
//
// The first is written before the stream is created and named in stream.json; who creates the stream decides, everybody else reads. A mixture names all
// sources, so that one can be added to a living stream together with its weight. docs/format/recipe.md has both.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "stream/stream_log.h"

namespace headrace {

struct StreamSource {
  SourceSpec spec;
  std::string inventory;  // key of the object, "inventory/<sha256>"
};

struct StreamMixture {
  uint32_t number = 0;
  MixSchedule mix;
  std::vector<StreamSource> sources;

  std::vector<std::string> Names() const;
  std::string ToJson() const;
  static Result<StreamMixture> FromJson(std::string_view text, std::string_view what);
  // Whoever reads it can draw by it.
  Status Check() const;
};

struct StreamRecipe {
  std::string text;  // as the person wrote it
  std::string canonical;  // Recipe::Canonical
  std::map<std::string, std::string> fingerprints;  // of tokenizers, templates, callables, libraries
  StreamMixture first;
  uint64_t blocks = 0;  // how many there are at the most; 0: as many as the sources give
  bool holdout = false;  // the stream of what is never trained on
  // Of whoever created the stream; hints, which decide nothing about its content.
  std::string folder;  // that the recipe's relative paths start from; empty in older streams
  std::vector<std::string> broadcast_at;  // what loaders take if their program says nothing

  // Of what may not change: canonical and fingerprints.
  std::string Hash() const;
  std::string ToJson() const;
  static Result<StreamRecipe> FromJson(std::string_view text, std::string_view what);
};

// Puts an object whose key ends with the hash of its bytes. "recipe" → "recipe/<sha256>".
Result<std::string> PutByContent(ObjectStore& store, const std::string& kind, const std::string& bytes, const Deadline& deadline);
// kCorrupt if the bytes are not those of the key.
Result<Bytes> GetByContent(ObjectStore& store, const std::string& key, const Deadline& deadline);

// The recipe of a stream. kNotFound if it was made without one.
Result<StreamRecipe> ReadStreamRecipe(StreamLog& log, const Deadline& deadline);
// The mixture `number`, by the newest manifest that this process knows or, if it is not in there any more, by its key.
Result<StreamMixture> ReadMixture(StreamLog& log, const StreamRecipe& recipe, uint32_t number, const Deadline& deadline);
// The same for somebody who puts another one in its place: if nothing can be drawn by its weights, it is returned without any (`mix.weights` is empty), so
// that there is a way on from it.
Result<StreamMixture> ReadMixtureToReplace(StreamLog& log, const StreamRecipe& recipe, uint32_t number, const Deadline& deadline);
// Makes `mixture` the next one. The first step for which it holds. One that nobody could read is refused.
Result<uint64_t> CommitMixture(StreamLog& log, StreamMixture mixture, const Deadline& deadline);

}  // namespace headrace
