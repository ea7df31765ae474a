#include "transform/tokenizer.h"

#include <arrow/array/builder_binary.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "transform/batch.h"
#include "transform/tokenizer_rs/headrace_tokenizer.h"
#include "transform/worker_pool.h"

namespace headrace {
namespace {

HrText TextOf(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

std::string TakeText(char* text, size_t size) {
  std::string copy(text, size);
  hr_tokenizer_free_text(text, size);
  return copy;
}

class CrateTokenizer final : public Tokenizer {
 public:
  explicit CrateTokenizer(HrTokenizer* tokenizer) : tokenizer_(tokenizer), vocabulary_(hr_tokenizer_vocabulary(tokenizer)) {}
  ~CrateTokenizer() override { hr_tokenizer_free(tokenizer_); }

  Result<std::shared_ptr<arrow::ListArray>> Encode(const std::vector<std::string_view>& texts, int32_t first, int32_t last,
                                                   std::vector<BadRow>& bad) override {
    std::vector<HrText> borrowed;
    borrowed.reserve(texts.size());
    for (auto text : texts) borrowed.push_back(TextOf(text));
    std::unique_ptr<HrTokens, decltype(&hr_tokens_free)> tokens(
        hr_tokenizer_encode(tokenizer_, borrowed.data(), borrowed.size(), first, last), hr_tokens_free);
    std::vector<int32_t> offsets = {0};
    offsets.reserve(texts.size() + 1);
    int64_t total = 0;
    for (size_t i = 0; i < texts.size(); i++) {
      int64_t size = hr_tokens_size(tokens.get(), i);
      if (size < 0) {
        HrText why = hr_tokens_error(tokens.get(), i);
        bad.push_back({static_cast<int64_t>(i), std::string(reinterpret_cast<const char*>(why.data), why.size)});
        continue;
      }
      total += size;
      if (total > std::numeric_limits<int32_t>::max()) {
        return Status(Code::kInvalidArgument, "the texts of one batch have more tokens than a list column can hold (2^31)");
      }
      offsets.push_back(static_cast<int32_t>(total));
    }
    HR_ASSIGN_OR_RETURN_ARROW(std::shared_ptr<arrow::Buffer> values,
                              arrow::AllocateBuffer(total * static_cast<int64_t>(sizeof(int32_t))), "find memory for tokens");
    hr_tokens_copy(tokens.get(), reinterpret_cast<int32_t*>(values->mutable_data()));
    auto ids = std::make_shared<arrow::Int32Array>(total, std::move(values));
    auto length = static_cast<int64_t>(offsets.size()) - 1;
    return std::make_shared<arrow::ListArray>(arrow::list(arrow::int32()), length, arrow::Buffer::FromVector(std::move(offsets)),
                                              ids);
  }

  Result<std::string> Decode(const std::vector<int64_t>& tokens) override {
    char* error = nullptr;
    size_t size = 0;
    char* text = hr_tokenizer_decode(tokenizer_, tokens.data(), tokens.size(), &size, &error);
    if (text == nullptr) {
      return Status(Code::kInvalidArgument, Cat("cannot decode tokens by ", file(), ": ", TakeText(error, std::strlen(error))));
    }
    return TakeText(text, size);
  }

  Result<std::vector<int64_t>> Ids(const std::vector<std::string>& tokens) override {
    std::vector<int64_t> ids;
    for (const auto& token : tokens) ids.push_back(hr_tokenizer_id(tokenizer_, TextOf(token)));
    return ids;
  }

  uint64_t Vocabulary() const override { return vocabulary_; }
  std::string Version() const override { return hr_tokenizer_version(); }
  bool native() const override { return true; }

 private:
  HrTokenizer* tokenizer_;
  uint64_t vocabulary_;
};

class WorkerTokenizer final : public Tokenizer {
 public:
  explicit WorkerTokenizer(std::unique_ptr<WorkerPool> pool) : pool_(std::move(pool)) {}

  Result<std::shared_ptr<arrow::ListArray>> Encode(const std::vector<std::string_view>& texts, int32_t first, int32_t last,
                                                   std::vector<BadRow>& bad) override {
    // Binary, not text: a row that is not UTF-8 must get there to be found.
    arrow::LargeBinaryBuilder builder;
    for (auto text : texts) HR_RETURN_IF_ERROR(CannotDo(builder.Append(text), "send texts to a worker process"));
    HR_ASSIGN_OR_RETURN_ARROW(auto column, builder.Finish(), "send texts to a worker process");
    auto batch = arrow::RecordBatch::Make(arrow::schema({arrow::field("text", column->type())}), column->length(), {column});
    HR_ASSIGN_OR_RETURN(WorkerAnswer answer, Ask({{"op", "apply"}, {"first", first}, {"last", last}}, batch));
    for (const auto& entry : answer.message["bad"]) bad.push_back({entry[0].get<int64_t>(), entry[1].get<std::string>()});
    auto tokens = answer.batch ? answer.batch->GetColumnByName("tokens") : nullptr;
    if (!tokens || tokens->type_id() != arrow::Type::LIST ||
        tokens->length() != static_cast<int64_t>(texts.size() - bad.size())) {
      return Status(Code::kInternal, Cat("a worker process answered with something other than the tokens by ", file()));
    }
    return std::static_pointer_cast<arrow::ListArray>(tokens);
  }

  Result<std::string> Decode(const std::vector<int64_t>& tokens) override {
    HR_ASSIGN_OR_RETURN(WorkerAnswer answer, Ask({{"op", "decode"}, {"tokens", tokens}}, nullptr));
    return answer.message.value("text", "");
  }

  Result<std::vector<int64_t>> Ids(const std::vector<std::string>& tokens) override {
    HR_ASSIGN_OR_RETURN(WorkerAnswer answer, Ask({{"op", "ids"}, {"texts", tokens}}, nullptr));
    return answer.message["ids"].get<std::vector<int64_t>>();
  }

  uint64_t Vocabulary() const override { return pool_->about().value("vocabulary", uint64_t{0}); }
  std::string Version() const override { return pool_->about()["fingerprints"].value("tokenizers", ""); }
  bool native() const override { return false; }

 private:
  Result<WorkerAnswer> Ask(const nlohmann::json& request, const BatchPointer& batch) {
    WorkerAnswer answer;
    // A tokenizer does not fail by itself: whatever killed the first worker (most likely a lack of memory) may leave the second one alone.
    for (int i = 0; i < 2; i++) {
      HR_ASSIGN_OR_RETURN(answer, pool_->Call(request, batch));
      if (!answer.failure) return answer;
      if (answer.failure->kind != WorkerFailure::kCrashed) break;
    }
    return Status(Code::kUnavailable, Cat("tokenizing by ", file(), " failed: ", answer.failure->error,
                                          answer.failure->traceback.empty() ? "" : "\n", answer.failure->traceback));
  }

  std::unique_ptr<WorkerPool> pool_;
};

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return Status(Code::kNotFound, Cat("cannot read the tokenizer ", path, ": ", std::strerror(errno)));
  return std::move(text).str();
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path, const TokenizerOptions& options) {
  std::error_code ignored;
  std::string file = std::filesystem::is_directory(path, ignored) ? Cat(path, "/tokenizer.json") : path;
  HR_ASSIGN_OR_RETURN(std::string json, ReadFile(file));
  std::unique_ptr<Tokenizer> tokenizer;
  if (options.native && hr_tokenizer_available() != 0) {
    char* error = nullptr;
    HrTokenizer* loaded = hr_tokenizer_load(TextOf(json), options.threads, &error);
    if (loaded == nullptr) {
      return Status(Code::kInvalidArgument,
                    Cat("cannot read the tokenizer ", file, ": ", TakeText(error, std::strlen(error)),
                        ". It has to be a tokenizer.json of the library tokenizers ", hr_tokenizer_version()));
    }
    tokenizer = std::make_unique<CrateTokenizer>(loaded);
  } else {
    HR_LOG(kInfo, "tokenizing in worker processes: built without the Rust crate", {"tokenizer", file});
    WorkerOptions workers;
    workers.python = options.python;
    workers.environment = {{"RAYON_NUM_THREADS", Cat(std::max(1u, options.threads))}, {"TOKENIZERS_PARALLELISM", "true"}};
    workers.purpose = {{"kind", "tokenize"}, {"file", file}};
    workers.what = Cat("the tokenizer ", file);
    workers.workers = std::max(1u, options.threads);
    workers.timeout_seconds = 600;
    HR_ASSIGN_OR_RETURN(auto pool, WorkerPool::Start(std::move(workers)));
    tokenizer = std::make_unique<WorkerTokenizer>(std::move(pool));
  }
  tokenizer->file_ = file;
  tokenizer->hash_ = Sha256Hex(json);
  return tokenizer;
}

Result<int32_t> Tokenizer::Begin() {
  return Special("bos_token",
                 {"<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "<BOS>", "[BOS]", "<|endoftext|>", "[CLS]"});
}

Result<int32_t> Tokenizer::End() {
  return Special("eos_token", {"</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>", "<EOS>", "[EOS]", "[SEP]"});
}

Result<int32_t> Tokenizer::Special(const std::string& key, const std::vector<std::string>& usual) {
  auto config_path = std::filesystem::path(file_).parent_path() / "tokenizer_config.json";
  std::vector<std::string> names = usual;
  if (std::ifstream config_file(config_path); config_file) {
    auto config = nlohmann::json::parse(config_file, nullptr, false);
    if (config.is_discarded())
      return Status(Code::kInvalidArgument, Cat("cannot read ", config_path.string(), ": it is not JSON"));
    // Either the text, or {"content": text, …}.
    nlohmann::json named = config.is_object() && config.contains(key) ? config[key] : nlohmann::json();
    if (named.is_object()) named = named.value("content", nlohmann::json());
    if (named.is_string()) names = {named.get<std::string>()};
  }
  HR_ASSIGN_OR_RETURN(auto ids, Ids(names));
  for (int64_t id : ids) {
    if (id >= 0) return static_cast<int32_t>(id);
  }
  return Status(Code::kInvalidArgument, Cat("the tokenizer ", file_, " has no ", key, ": none of its tokens is '", names[0], "'",
                                            names.size() > 1 ? " or another usual one" : "", ". Name it in ",
                                            config_path.string(), " as {\"", key, "\": \"…\"}"));
}

}  // namespace headrace
