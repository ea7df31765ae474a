#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <utility>

#include "base/text.h"
#include "transform/batch.h"
#include "transform/tokenize.h"
#include "transform/worker_pool.h"

namespace headrace {
namespace {

class Chat final : public TokenTransform {
 public:
  Chat(std::unique_ptr<WorkerPool> pool, std::string tokenizer, std::string from, bool keep_from)
      : pool_(std::move(pool)), tokenizer_(std::move(tokenizer)), from_(std::move(from)), keep_from_(keep_from) {}

  Result<BatchPointer> Apply(const BatchPointer& batch, uint64_t, std::vector<BadRow>& bad) override {
    auto column = batch->GetColumnByName(from_);
    if (!column) return AllBad(batch, Cat("has no column '", from_, "' with messages; it has ", ColumnNames(*batch)), bad);
    auto messages = arrow::RecordBatch::Make(arrow::schema({arrow::field(from_, column->type())}), column->length(), {column});
    HR_ASSIGN_OR_RETURN(WorkerAnswer answer, Ask({{"op", "apply"}}, messages));
    std::vector<BadRow> left_out;
    for (const auto& entry : answer.message["bad"]) {
      left_out.push_back({entry[0].get<int64_t>(), Cat("'", from_, "': ", entry[1].get<std::string>())});
    }
    HR_ASSIGN_OR_RETURN(BatchPointer rest, keep_from_ ? Result<BatchPointer>(batch) : WithoutColumn(batch, from_));
    HR_ASSIGN_OR_RETURN(rest, WithoutRows(rest, left_out));
    if (!answer.batch || answer.batch->num_rows() != rest->num_rows()) {
      return Status(Code::kInternal,
                    Cat("a worker process answered with other rows than the chat template ", tokenizer_, " was given"));
    }
    for (const char* name : {"tokens", "loss_mask"}) {
      HR_ASSIGN_OR_RETURN(rest, WithColumn(rest, name, answer.batch->GetColumnByName(name)));
    }
    bad.insert(bad.end(), left_out.begin(), left_out.end());
    return rest;
  }

  std::map<std::string, std::string> Fingerprints() const override {
    return pool_->about()["fingerprints"].get<std::map<std::string, std::string>>();
  }
  std::optional<uint64_t> Vocabulary() const override { return pool_->about().value("vocabulary", uint64_t{0}); }
  Result<std::string> Decode(const std::vector<int64_t>& tokens) override {
    HR_ASSIGN_OR_RETURN(WorkerAnswer answer, Ask({{"op", "decode"}, {"tokens", tokens}}, nullptr));
    return answer.message.value("text", "");
  }

 private:
  Result<WorkerAnswer> Ask(const nlohmann::json& request, const BatchPointer& batch) {
    WorkerAnswer answer;
    for (int i = 0; i < 2; i++) {
      HR_ASSIGN_OR_RETURN(answer, pool_->Call(request, batch));
      if (!answer.failure) return answer;
      if (answer.failure->kind != WorkerFailure::kCrashed) break;
    }
    return Status(Code::kUnavailable, Cat("the chat template ", tokenizer_, " failed: ", answer.failure->error,
                                          answer.failure->traceback.empty() ? "" : "\n", answer.failure->traceback));
  }

  std::unique_ptr<WorkerPool> pool_;
  std::string tokenizer_, from_;
  bool keep_from_;
};

}  // namespace

Result<std::unique_ptr<TokenTransform>> MakeChat(const TransformSpec& spec, const std::string& folder, bool keep_from,
                                                 const TransformOptions& options) {
  std::string tokenizer = BelowFolder(folder, spec.tokenizer);
  WorkerOptions workers;
  workers.python = options.python;
  workers.environment = {{"TOKENIZERS_PARALLELISM", "false"}};
  workers.purpose = {{"kind", "chat"}, {"tokenizer", tokenizer}, {"train_on", spec.train_on}};
  workers.what = Cat("the chat template ", tokenizer);
  // Templates are Python from end to end: a thread's worth of work needs a process.
  workers.workers = std::max({1u, spec.workers, options.threads});
  workers.timeout_seconds = std::max(600.0, spec.timeout_seconds);
  HR_ASSIGN_OR_RETURN(auto pool, WorkerPool::Start(std::move(workers)));
  return std::unique_ptr<TokenTransform>(
      std::make_unique<Chat>(std::move(pool), tokenizer, spec.from.empty() ? "messages" : spec.from, keep_from));
}

}  // namespace headrace
