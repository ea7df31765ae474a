// A recipe: the declaration of sources, transforms, mixture, packing, cost and balance.
//
// `Recipe::FromYaml` reads and checks it whole: a wrong one is refused with line, key and what was meant, before anything is touched. What is read
// is plain data; nothing here opens a file or asks a store.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/result.h"
#include "headrace/store.h"
#include "stream/stream_info.h"

namespace headrace {

enum class AtEnd : uint8_t { kDrop, kRepeat, kStop };

struct BadSamples {
  bool skip = false;  // else the first one ends the producer
  uint64_t limit = UINT64_MAX;  // of skipped ones, per source, strand and epoch
  friend bool operator==(const BadSamples&, const BadSamples&) = default;
};

struct SourceSpec {
  std::string name;
  std::string format;  // parquet jsonl webdataset mds arrow megatron tokens
  std::vector<std::string>
      files;  // paths and URIs with globs and brace ranges, as written; relative ones are relative to the recipe
  double weight = 1;
  AtEnd at_end = AtEnd::kDrop;
  double epochs = 0;  // 0: as `until` says
  uint64_t limit = 0;  // samples of the source that are used at all; 0: all of them
  std::optional<BadSamples> bad_samples;  // instead of the recipe's
  Dtype dtype = Dtype::kU16;  // format tokens: of the elements
  std::optional<int64_t> eos;  // format tokens: ends a document; without it every `document_length` tokens are one
  uint64_t document_length = 0;
  StorageOptions storage_options;
  int line = 0;  // in the recipe, for messages

  // Everything that decides which samples there are and in which order; not weight, at_end, bad_samples, storage_options.
  std::string Fingerprint() const;
};

struct TransformSpec {
  enum Kind : uint8_t { kTokenize, kChat, kFilter, kSelect, kRename, kCast, kPython };
  Kind kind = kTokenize;
  std::string tokenizer;  // tokenize: tokenizer.json; chat: a folder with tokenizer.json, tokenizer_config.json, chat template
  std::string from;  // tokenize: text; chat: messages
  bool add_bos = false, add_eos = false;
  std::string train_on = "assistant";  // chat: assistant | all
  std::string expression;  // filter
  std::vector<std::string> columns;  // select
  std::map<std::string, std::string>
      names;  // rename: new name by old one; cast: type by column (kCastTypes, or list<one of them>)
  std::string call;  // python: "package.module:function"
  uint32_t workers = 1;
  double timeout_seconds = 60;  // python: for one batch
  std::string on_error = "raise";  // python: raise | skip | retry
  int line = 0;
};

// By TransformSpec::Kind.
inline constexpr std::string_view kTransformNames[] = {"tokenize", "chat", "filter", "select", "rename", "cast", "python"};

inline constexpr std::string_view kCastTypes[] = {"bool",   "int8",   "int16",   "int32",   "int64",   "uint8",  "uint16",
                                                  "uint32", "uint64", "float16", "float32", "float64", "string", "binary"};

struct PackLength {
  uint32_t length = 0;
  double share = 1;  // of the steps
};
enum class PackMethod : uint8_t { kBestFit, kFirstFit, kConcat };
enum class Overflow : uint8_t { kSplit, kTruncate, kDrop };
struct PackSpec {
  std::vector<PackLength> lengths;  // one, or several: then each step has one of them
  PackMethod method = PackMethod::kBestFit;
  Overflow overflow = Overflow::kSplit;
  uint32_t align = 1;  // documents begin at multiples of this
  int64_t pad = 0;  // the token that fills up
};

struct CostSpec {
  enum Kind : uint8_t { kTokens, kAttention, kExpression, kPython };
  Kind kind = kTokens;  // without `cost`: a sequence costs what it has in tokens
  uint64_t hidden = 0, layers = 0;  // attention
  std::string expression;  // over the metadata: length, bytes, and the numeric kept columns
  std::string call;
};

enum class BalanceMethod : uint8_t { kNone, kGreedy, kKarmarkarKarp };
struct BalanceSpec {
  BalanceMethod method = BalanceMethod::kKarmarkarKarp;
  std::vector<std::string> over = {"lane"};
};

// Weights from a step on. Between two entries they stay, or move linearly if the mixture says `ramp`.
struct MixSchedule {
  bool ramp = false;
  bool by_tokens = true;  // what weights count; else samples
  std::map<uint64_t, std::map<std::string, double>> weights;  // by first step; there is always one for step 0

  // Normalised, by source name.
  std::map<std::string, double> At(uint64_t step) const;
  std::string ToJson() const;
  static Result<MixSchedule> FromJson(std::string_view text);
};

struct Lead {
  enum Kind : uint8_t { kAuto, kSteps, kBytes, kUnlimited };
  Kind kind = kAuto;
  uint64_t amount = 0;
};
struct Until {
  enum Kind : uint8_t { kEpochs, kSteps, kTokens, kForever };
  Kind kind = kEpochs;
  double epochs = 1;
  uint64_t amount = 0;
};

struct Recipe {
  std::string text;  // as it was read
  std::string name;  // of the file, for messages
  std::string folder;  // that relative paths start from

  std::string stream;  // empty: .headrace/<hash of the recipe>
  uint64_t seed = 0;
  uint32_t lanes = 0;  // resolved: never 0
  uint32_t strands = 16;
  Order order = Order::kPlanned;
  std::map<uint64_t, uint32_t> step;  // sequences (with pack) or samples of a global batch, by first step
  uint64_t lane_bytes = 1'000'000;
  Lead lead;
  std::string retain = "pins";  // pins | all | steps
  uint64_t retain_steps = 0;  // retain: steps
  Until until;
  bool drop_last = true;
  std::vector<SourceSpec> sources;
  double holdout_fraction = 0;
  std::string holdout_by;
  uint64_t shuffle_window = 100000;  // 0 or 1: no shuffling at all, not even of granules
  BadSamples bad_samples;
  std::vector<TransformSpec> transforms;
  std::optional<PackSpec> pack;
  CostSpec cost;
  BalanceSpec balance;
  uint32_t group_size = 1;  // neighbouring samples of a source that must stay in one lane
  std::vector<std::string> broadcast_at;  // axes of the mesh whose ranks share the same data: cp, tp, pp; a hint to loaders
  MixSchedule mix;
  std::vector<std::string> keep;  // as the columns are called after the transforms
  int keep_line = 0, holdout_line = 0;  // where those keys stand, for messages
  std::vector<std::string> notes;  // what was understood in a way that a person should be told ("weights sum to 1.2, normalised")

  // A failure lists everything that is wrong, one problem a line, each as "recipe.yaml:14:3: sources.web.weigth: no such key; did you mean weight?".
  static Result<Recipe> FromYaml(const std::string& text, const std::string& name, const std::string& folder);
  static Result<Recipe> FromFile(const std::string& path);

  uint32_t StepSize(uint64_t step) const;
  // How many times the source is read through before it is at its end; infinity if it repeats.
  double Epochs(const SourceSpec& source) const;
  // A transform that makes tokens, or nothing.
  const TransformSpec* Tokenizer() const;
  // What may not change while a stream lives, as canonical JSON: all but stream, lead, retain, bad_samples, the mixture, and the list of sources (each of
  // which has a fingerprint of its own). `RecipeHash` adds files and callables.
  std::string Canonical() const;
};

}  // namespace headrace
