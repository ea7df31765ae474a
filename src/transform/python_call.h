// A user's Python function, called in worker processes.
//
//   fix(batch: pyarrow.RecordBatch, rng: numpy.random.Generator) -> pyarrow.RecordBatch     a transform
//   cost(batch: pyarrow.RecordBatch) -> one number for each row                             a cost
//
// Thread-safe; at most `workers` calls at a time.
#pragma once

#include <arrow/record_batch.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "headrace/result.h"
#include "transform/transform.h"
#include "transform/worker_pool.h"

namespace headrace {

struct PythonCallOptions {
  std::string python = "python3";
  std::string folder;  // the recipe's: on sys.path before all others
  uint32_t workers = 1;
  double timeout_seconds = 60;
};

class PythonCall {
 public:
  enum Kind { kTransform, kCost };
  // "package.module:function" is imported once here: a wrong name, or a module that cannot be imported, is an error with its traceback.
  static Result<std::unique_ptr<PythonCall>> Make(Kind kind, const std::string& call, const PythonCallOptions& options);

  const std::string& call() const { return call_; }
  // The module's source and what it imported from the recipe's folder.
  std::map<std::string, std::string> Fingerprints() const;

  // What the function made of the batch; its failures are in the answer.
  Result<WorkerAnswer> Transform(const std::shared_ptr<arrow::RecordBatch>& batch, uint64_t seed);
  // One for each row, finite and not negative.
  Result<std::vector<double>> Costs(const std::shared_ptr<arrow::RecordBatch>& batch);

 private:
  PythonCall(std::string call, std::unique_ptr<WorkerPool> pool) : call_(std::move(call)), pool_(std::move(pool)) {}
  std::string call_;
  std::unique_ptr<WorkerPool> pool_;
};

// The transform `python`, with `on_error` of the recipe.
Result<std::unique_ptr<Transform>> MakePython(const TransformSpec& spec, const std::string& folder,
                                              const TransformOptions& options);

}  // namespace headrace
