// What happens when a user's function fails. `raise`: the sample is looked for by halves, and named with the traceback. `retry`: the same call again, twice,
// then as `raise`. `skip`: by halves too, until the samples that fail stand alone; they are left out and the rest is kept.
//
// The seed of a half is made from the batch's and its place in it, so that what comes out is the same whenever the same samples fail.

#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "transform/batch.h"
#include "transform/python_call.h"
#include "transform/seed.h"

namespace headrace {
namespace {

// A process that hangs costs its whole timeout: a batch in which so many do is given up.
constexpr int kMaxHangs = 16;
constexpr double kMaxSearchSeconds = 60;
constexpr int kTries = 3;

class Python final : public Transform {
 public:
  Python(std::unique_ptr<PythonCall> call, std::string on_error, double timeout_seconds)
      : call_(std::move(call)), on_error_(std::move(on_error)), timeout_seconds_(timeout_seconds) {}

  Result<BatchPointer> Apply(const BatchPointer& batch, uint64_t seed, std::vector<BadRow>& bad) override {
    if (batch->num_rows() == 0) return batch;
    if (on_error_ == "skip") {
      std::vector<BatchPointer> parts;
      int hangs = 0;
      HR_RETURN_IF_ERROR(Split(batch, 0, seed, hangs, parts, bad));
      if (parts.empty()) return batch->Slice(0, 0);
      if (parts.size() == 1) return parts[0];
      HR_ASSIGN_OR_RETURN_ARROW(
          auto whole, arrow::ConcatenateRecordBatches(parts),
          Cat("put together what ", call_->call(), " returned for parts of a batch (it has to return the same columns always)"));
      return whole;
    }
    const int tries = on_error_ == "retry" ? kTries : 1;
    WorkerFailure failure;
    for (int i = 0; i < tries; i++) {
      HR_ASSIGN_OR_RETURN(WorkerAnswer answer, Try(batch, seed));
      if (!answer.failure) return answer.batch;
      failure = *std::move(answer.failure);
      if (i + 1 < tries) {
        HR_LOG(kWarning, "a python transform failed and is tried again", {"call", call_->call()}, {"error", failure.error},
               {"first_sample", OriginOf(*batch, 0)});
      }
    }
    return Report(batch, seed, failure, bad);
  }

  std::map<std::string, std::string> Fingerprints() const override { return call_->Fingerprints(); }

 private:
  Result<WorkerAnswer> Try(const BatchPointer& batch, uint64_t seed) {
    HR_ASSIGN_OR_RETURN(WorkerAnswer answer, call_->Transform(batch, seed));
    if (answer.failure) return answer;
    auto checked = answer.batch ? WithOrigins(batch, answer.batch)
                                : Result<BatchPointer>(Status(Code::kInternal, "the worker process answered without a batch"));
    if (checked.ok()) {
      answer.batch = *std::move(checked);
    } else {
      answer.failure = WorkerFailure{WorkerFailure::kRefused, checked.status().message(), ""};
    }
    return answer;
  }

  // Keeps in `parts` what could be made of the batch, which begins at row `first` of the whole, and names in `bad` what could not.
  Status Split(const BatchPointer& batch, int64_t first, uint64_t seed, int& hangs, std::vector<BatchPointer>& parts,
               std::vector<BadRow>& bad) {
    HR_ASSIGN_OR_RETURN(WorkerAnswer answer, Try(batch, seed));
    if (!answer.failure) {
      parts.push_back(answer.batch);
      return Status::Ok();
    }
    if (answer.failure->kind == WorkerFailure::kHung && ++hangs >= kMaxHangs) {
      bad.push_back({first, "", false, true});
      return Status(Code::kTimeout, Cat("the python transform ", call_->call(), " gave no answer ", hangs,
                                        " times for one batch, the last time here: that is not a bad sample or two\n",
                                        answer.failure->traceback));
    }
    if (batch->num_rows() == 1) {
      bad.push_back({first, Words(*answer.failure), true});
      return Status::Ok();
    }
    int64_t half = batch->num_rows() / 2;
    HR_RETURN_IF_ERROR(Split(batch->Slice(0, half), first, MixSeed(seed, 2), hangs, parts, bad));
    return Split(batch->Slice(half), first + half, MixSeed(seed, 3), hangs, parts, bad);
  }

  // The last row of `bad` is the sample, or the first of those among which it is.
  Status Report(BatchPointer batch, uint64_t seed, WorkerFailure failure, std::vector<BadRow>& bad) {
    double spent = 0;
    int64_t first = 0;
    while (batch->num_rows() > 1) {
      if (failure.kind == WorkerFailure::kHung && (spent += timeout_seconds_) > kMaxSearchSeconds) break;
      int64_t half = batch->num_rows() / 2;
      BatchPointer halves[] = {batch->Slice(0, half), batch->Slice(half)};
      bool found = false;
      for (int i = 0; i < 2 && !found; i++) {
        auto answer = Try(halves[i], MixSeed(seed, 2 + static_cast<uint64_t>(i)));
        if (!answer.ok()) return answer.status();
        if (!answer->failure) continue;
        found = true;
        failure = *std::move(answer->failure);
        batch = halves[i];
        first += i * half;
        seed = MixSeed(seed, 2 + static_cast<uint64_t>(i));
      }
      // Only the rows together do it.
      if (!found) break;
    }
    bad.push_back({first, "", false, true});
    const std::string where =
        batch->num_rows() == 1 ? "" : Cat(" somewhere in the ", batch->num_rows(), " samples that begin here");
    return Status(failure.kind == WorkerFailure::kHung ? Code::kTimeout : Code::kInvalidArgument,
                  Cat("the python transform ", call_->call(), " failed", where, ": ", Words(failure)));
  }

  static std::string Words(const WorkerFailure& failure) {
    return failure.traceback.empty() ? failure.error : Cat(failure.error, "\n", failure.traceback);
  }

  std::unique_ptr<PythonCall> call_;
  std::string on_error_;
  double timeout_seconds_;
};

}  // namespace

Result<std::unique_ptr<Transform>> MakePython(const TransformSpec& spec, const std::string& folder,
                                              const TransformOptions& options) {
  HR_ASSIGN_OR_RETURN(
      auto call,
      PythonCall::Make(
          PythonCall::kTransform, spec.call,
          {.python = options.python, .folder = folder, .workers = spec.workers, .timeout_seconds = spec.timeout_seconds}));
  return std::unique_ptr<Transform>(std::make_unique<Python>(std::move(call), spec.on_error, spec.timeout_seconds));
}

}  // namespace headrace
