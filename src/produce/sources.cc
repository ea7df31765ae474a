#include "produce/sources.h"

#include <arrow/array/builder_primitive.h>

#include <algorithm>

#include "base/text.h"
#include "plan/cost.h"
#include "produce/nulls.h"
#include "recipe/columns.h"
#include "source/window_budget.h"

namespace headrace {

std::vector<std::string> NumberColumns(const Recipe& recipe) {
  if (recipe.cost.kind == CostSpec::kPython) return {kCostColumn};
  return CostColumns(recipe.cost);
}

Sources::Sources(const Recipe& recipe, std::shared_ptr<TransformChain> transforms, std::shared_ptr<PythonCall> cost, bool holdout,
                 uint64_t memory, bool quiet)
    : recipe_(recipe),
      transforms_(std::move(transforms)),
      cost_(std::move(cost)),
      holdout_(holdout),
      quiet_(quiet),
      budget_(MakeWindowBudget(memory)) {}

void Sources::SetMemory(uint64_t bytes) { budget_->SetLimit(bytes); }
bool Sources::Tight() const { return budget_->Tight(); }
bool Sources::Crowded() const { return budget_->Crowded(); }

Status Sources::Open(const std::vector<StreamSource>& wanted, ObjectStore& store, const Deadline& deadline) {
  for (size_t i = size(); i < wanted.size(); ++i) {
    auto opened = std::make_unique<Opened>();
    opened->spec = wanted[i].spec;
    // Secrets are not in the stream: this process's own recipe has them, if it knows the source.
    auto own = std::ranges::find(recipe_.sources, opened->spec.name, &SourceSpec::name);
    if (own != recipe_.sources.end()) {
      opened->spec.storage_options = own->storage_options;
      opened->spec.bad_samples = own->bad_samples;  // may change, as the recipe's may
    }
    HR_ASSIGN_OR_RETURN(Bytes bytes, GetByContent(store, wanted[i].inventory, deadline));
    HR_ASSIGN_OR_RETURN(Inventory inventory, Inventory::Decode(bytes.AsText(), store.Describe(wanted[i].inventory)));
    SourceLoaderOptions options;
    options.seed = recipe_.seed;
    options.strands = recipe_.strands;
    options.shuffle = recipe_.shuffle_window > 1;
    options.group_size = recipe_.group_size;
    options.holdout_fraction = recipe_.holdout_fraction;
    options.holdout_by = recipe_.holdout_by;
    options.holdout_split = holdout_;
    options.limit = opened->spec.limit;
    options.bad_samples = opened->spec.bad_samples.value_or(recipe_.bad_samples);
    for (ColumnUse& use : ColumnsOf(recipe_)) {
      options.columns.push_back(use.column);
      options.asked_by.emplace(std::move(use.column), std::move(use.asked_by));
    }
    options.row_by_row = transforms_->RowByRow() && cost_ == nullptr;
    options.quiet = quiet_;
    options.budget = budget_;
    if (cost_ != nullptr) options.columns.clear();  // a callable may look at anything
    auto transform = [this, chain = transforms_, cost = cost_](
                         const std::shared_ptr<arrow::RecordBatch>& batch, uint64_t seed,
                         std::vector<BadRow>& bad) -> Result<std::shared_ptr<arrow::RecordBatch>> {
      HR_ASSIGN_OR_RETURN(std::shared_ptr<arrow::RecordBatch> rows, chain->Apply(batch, seed, bad));
      HR_ASSIGN_OR_RETURN(rows, WithoutNulls(recipe_, *batch, rows, bad));
      if (cost == nullptr) return rows;
      HR_ASSIGN_OR_RETURN(std::vector<double> costs, cost->Costs(rows));
      arrow::DoubleBuilder column;
      std::shared_ptr<arrow::Array> array;
      arrow::Status added = column.AppendValues(costs);
      if (added.ok()) added = column.Finish(&array);
      if (!added.ok()) return Status(Code::kInternal, Cat("cannot keep costs: ", added.ToString()));
      auto with = rows->AddColumn(rows->num_columns(), kCostColumn, array);
      if (!with.ok()) return Status(Code::kInternal, Cat("cannot keep costs: ", with.status().ToString()));
      return *with;
    };
    HR_ASSIGN_OR_RETURN(opened->loader, SourceLoader::Open(opened->spec, std::make_shared<const Inventory>(std::move(inventory)),
                                                           options, transform));
    std::lock_guard lock(mutex_);
    if (opened_.size() == i) opened_.push_back(std::move(opened));
  }
  return {};
}

size_t Sources::size() const {
  std::lock_guard lock(mutex_);
  return opened_.size();
}

SourceLoader& Sources::loader(size_t source) const {
  std::lock_guard lock(mutex_);
  return *opened_[source]->loader;
}

const SourceSpec& Sources::spec(size_t source) const {
  std::lock_guard lock(mutex_);
  return opened_[source]->spec;
}

}  // namespace headrace
