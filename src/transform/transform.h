// What is done to samples before they are planned: tokenise, apply a chat template, filter, select, rename, cast, or a user's Python.
//
// A transform is a pure function of the batch and the seed. Rows that cannot be transformed are named in `bad` and left out of the answer; the columns
// `__file` and `__row` (source/source_loader.h) stay with their rows through everything, also where rows are dropped or multiplied.
//
// Thread-safe: many strands call one chain.
#pragma once

#include <arrow/record_batch.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headrace/result.h"
#include "recipe/recipe.h"
#include "source/source_loader.h"

namespace headrace {

class Transform {
 public:
  virtual ~Transform() = default;
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Apply(const std::shared_ptr<arrow::RecordBatch>& batch, uint64_t seed,
                                                            std::vector<BadRow>& bad) = 0;
  // What decides its results beyond the recipe's words, as {name: hash}: files, callables, library versions.
  virtual std::map<std::string, std::string> Fingerprints() const { return {}; }
  // How large a token can be, if this makes tokens: the vocabulary's size.
  virtual std::optional<uint64_t> Vocabulary() const { return std::nullopt; }
};

// All transforms of a recipe, one after the other. `python` is the interpreter for worker processes.
struct TransformOptions {
  std::string python = "python3";
  // For tokenizing. 1: each caller does it in its own thread, as many strands want it; more: the batches of all callers share so many threads.
  uint32_t threads = 1;
  bool native_tokenizer = true;  // false: in worker processes even where the Rust crate was built
};
class TransformChain {
 public:
  static Result<std::unique_ptr<TransformChain>> Make(const Recipe& recipe, const TransformOptions& options);
  virtual ~TransformChain() = default;

  virtual Result<std::shared_ptr<arrow::RecordBatch>> Apply(const std::shared_ptr<arrow::RecordBatch>& batch, uint64_t seed,
                                                            std::vector<BadRow>& bad) = 0;
  virtual std::map<std::string, std::string> Fingerprints() const = 0;
  virtual std::optional<uint64_t> Vocabulary() const = 0;
  // The columns of the lake that the chain reads (besides kept ones); empty: cannot tell, all of them.
  virtual std::vector<std::string> Reads() const = 0;
  // Whether what becomes of a row does not depend on the batch that it comes in, nor on the seed.
  virtual bool RowByRow() const = 0;
  // The text of tokens, where there is a tokenizer; for `headrace cat`.
  virtual Result<std::string> Decode(const std::vector<int64_t>& tokens) const = 0;
  // Whether there is a tokenizer, and it runs in this process.
  virtual bool TokenizesNatively() const = 0;
};

}  // namespace headrace
