#include "transform/python_call.h"

#include <arrow/array.h>

#include <filesystem>
#include <utility>

#include "base/text.h"
#include "transform/batch.h"

namespace headrace {

Result<std::unique_ptr<PythonCall>> PythonCall::Make(Kind kind, const std::string& call, const PythonCallOptions& options) {
  std::error_code ignored;
  auto folder = std::filesystem::absolute(options.folder.empty() ? "." : options.folder, ignored);
  WorkerOptions workers;
  workers.python = options.python;
  workers.purpose = {{"kind", kind == kCost ? "cost" : "python"}, {"call", call}, {"folder", folder.lexically_normal().string()}};
  workers.what = Cat("the Python function ", call);
  workers.workers = options.workers;
  workers.timeout_seconds = options.timeout_seconds;
  HR_ASSIGN_OR_RETURN(auto pool, WorkerPool::Start(std::move(workers)));
  return std::unique_ptr<PythonCall>(new PythonCall(call, std::move(pool)));
}

std::map<std::string, std::string> PythonCall::Fingerprints() const {
  return pool_->about()["fingerprints"].get<std::map<std::string, std::string>>();
}

Result<WorkerAnswer> PythonCall::Transform(const std::shared_ptr<arrow::RecordBatch>& batch, uint64_t seed) {
  return pool_->Call({{"op", "apply"}, {"seed", seed}}, batch);
}

Result<std::vector<double>> PythonCall::Costs(const std::shared_ptr<arrow::RecordBatch>& batch) {
  HR_ASSIGN_OR_RETURN(WorkerAnswer answer, pool_->Call({{"op", "apply"}}, batch));
  if (answer.failure) {
    return Status(Code::kInvalidArgument, Cat("the cost function ", call_, " failed: ", answer.failure->error,
                                              answer.failure->traceback.empty() ? "" : "\n", answer.failure->traceback));
  }
  auto column = answer.batch ? answer.batch->GetColumnByName("cost") : nullptr;
  if (!column || column->type_id() != arrow::Type::DOUBLE || column->length() != batch->num_rows()) {
    return Status(Code::kInternal, Cat("a worker process answered with something other than the costs of ", call_));
  }
  const auto& costs = static_cast<const arrow::DoubleArray&>(*column);
  return std::vector<double>(costs.raw_values(), costs.raw_values() + costs.length());
}

}  // namespace headrace
