// A tokenizer.json: text to tokens and back, exactly as the library `tokenizers` does it.
//
// Native through that library's Rust crate where the build had cargo, else in worker processes with its Python package; the tokens are the same. Truncation
// and padding that the file may ask for are left out: a document is neither cut at some model's length nor filled up to its neighbour's.
//
// Thread-safe.
#pragma once

#include <arrow/array.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/result.h"
#include "source/source_loader.h"

namespace headrace {

struct TokenizerOptions {
  std::string python = "python3";
  uint32_t threads = 1;  // that one batch is shared out to
  bool native = true;  // false: in worker processes even if the crate is there
};

class Tokenizer {
 public:
  // A tokenizer.json, or the folder that holds one.
  static Result<std::unique_ptr<Tokenizer>> Load(const std::string& path, const TokenizerOptions& options);
  virtual ~Tokenizer() = default;

  // The tokens of every text that is not bad (not UTF-8, or refused by the tokenizer), without special tokens but for `first` and `last`, which are
  // put around each one where they are not negative. `bad` gets indices into `texts`.
  virtual Result<std::shared_ptr<arrow::ListArray>> Encode(const std::vector<std::string_view>& texts, int32_t first,
                                                           int32_t last, std::vector<BadRow>& bad) = 0;
  virtual Result<std::string> Decode(const std::vector<int64_t>& tokens) = 0;
  // Of tokens by their exact text; -1 for one that there is not.
  virtual Result<std::vector<int64_t>> Ids(const std::vector<std::string>& tokens) = 0;
  // One more than the largest id.
  virtual uint64_t Vocabulary() const = 0;
  // Of the library.
  virtual std::string Version() const = 0;
  virtual bool native() const = 0;

  const std::string& file() const { return file_; }
  const std::string& hash() const { return hash_; }

  // The token that begins or ends a text: what tokenizer_config.json beside the file calls bos_token and eos_token, else the first of the usual names
  // that the vocabulary has. An error says what to do if there is none.
  Result<int32_t> Begin();
  Result<int32_t> End();

 private:
  Result<int32_t> Special(const std::string& key, const std::vector<std::string>& usual);
  std::string file_, hash_;
};

}  // namespace headrace
