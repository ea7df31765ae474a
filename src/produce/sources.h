// All sources of a stream, opened: what strands read from. Sources are only ever added.
//
// Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "recipe/stream_recipe.h"
#include "source/source_loader.h"
#include "transform/python_call.h"
#include "transform/transform.h"

namespace headrace {

// The columns that a sample's cost is worked out from: SampleInfo::numbers. A Python cost is asked once for each sample, when its window is loaded.
std::vector<std::string> NumberColumns(const Recipe& recipe);
inline constexpr const char* kCostColumn = "__cost";

class Sources {
 public:
  // `cost`: the recipe's Python cost, if it has one. `memory` bounds what all sources keep in memory.
  // `quiet`: bad samples that are left out are not warned of.
  Sources(const Recipe& recipe, std::shared_ptr<TransformChain> transforms, std::shared_ptr<PythonCall> cost, bool holdout,
          uint64_t memory, bool quiet = false);

  // Opens those of `wanted` that are not open yet. Inventories are read from `store`, the stream's.
  Status Open(const std::vector<StreamSource>& wanted, ObjectStore& store, const Deadline& deadline);

  size_t size() const;
  SourceLoader& loader(size_t source) const;
  const SourceSpec& spec(size_t source) const;
  const TransformChain& transforms() const { return *transforms_; }

  // What all sources may keep from now on.
  void SetMemory(uint64_t bytes);
  // More is in use than that: strands hold on to nothing that can be loaded again.
  bool Tight() const;
  // Half of it is.
  bool Crowded() const;

 private:
  struct Opened {
    SourceSpec spec;
    std::unique_ptr<SourceLoader> loader;
  };
  const Recipe& recipe_;
  std::shared_ptr<TransformChain> transforms_;
  std::shared_ptr<PythonCall> cost_;
  const bool holdout_, quiet_;
  std::shared_ptr<WindowBudget> budget_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Opened>> opened_;
};

}  // namespace headrace
