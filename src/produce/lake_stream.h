// The stream of a recipe: opened, or created by whoever comes first.
//
// Before it is created the sources are listed and looked into once, and everything that may not change is written down (docs/design/0006-making-steps.md).
// After that everybody reads what stream.json names, also the one who created it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "produce/constructor.h"
#include "produce/memory_need.h"
#include "produce/sources.h"
#include "recipe/stream_recipe.h"
#include "stream/stream_log.h"

namespace headrace {

struct LakeOptions {
  std::string python = "python3";  // for worker processes
  uint64_t memory = uint64_t{2} << 30;  // for everything that is read ahead
  uint32_t threads = 1;
  bool holdout = false;
  uint32_t strands = UINT32_MAX;  // that are taken at the most
  std::function<Status(const MemoryNeed& need)>
      require_memory;  // whether there is enough; asked before a stream is created, and when it is opened
  // Of a lake with fewer bytes it is tried whether it holds a step at all, by planning one, and a draft is refused if it does not (0: never). A larger one
  // is not worth the time before the first step.
  uint64_t try_below_bytes = 0;
  std::function<Status()> require_safe;  // whether the store may be committed to; asked before a stream is created
  std::function<void(const std::string& what, uint64_t done, uint64_t of)> progress;
};

// The recipe and what it needs, before or without a stream.
struct LoadedRecipe {
  Recipe recipe;
  std::shared_ptr<TransformChain> transforms;
  std::shared_ptr<PythonCall> cost;  // if the recipe's cost is Python

  std::map<std::string, std::string> Fingerprints() const;
  // What the planner shall ask instead of the recipe's words, where there is a Python cost.
  SequenceCost Cost() const;

  static Result<std::unique_ptr<LoadedRecipe>> Make(Recipe recipe, const LakeOptions& options);
};

// A plan of what is written once: inventories, first mixture, columns, block sizes.
struct StreamDraft {
  StreamRecipe recipe;
  StreamInfo info;
  uint64_t inventory_rows = 0, inventory_bytes = 0, inventory_files = 0;
  bool exact = true;
  MemoryNeed memory;  // of a producer that takes all strands
};
// Lists and looks into all sources, and puts the inventories into `store` (for a dry run: one in memory).
Result<StreamDraft> DraftStream(const LoadedRecipe& lake, const LakeOptions& options, ObjectStore& store,
                                const Deadline& deadline);
// What somebody is told whose lake is too small; `then` is what else there is to do.
Status LessThanAStep(const Recipe& recipe, const std::string& then);
// The source's inventory, made anew and put into `store`.
Result<StreamSource> TakeInventory(const Recipe& recipe, const SourceSpec& spec, size_t sources, const LakeOptions& options,
                                   ObjectStore& store, const Deadline& deadline);

// The same for a source that the stream of `log`, made by `kept`, does not have yet. Refuses all that would stop a producer later, and has written nothing
// then: a recipe that is another than the stream's, and first rows that do not fit the stream's columns.
Result<StreamSource> TakeNewSource(const LoadedRecipe& lake, const SourceSpec& spec, const StreamRecipe& kept, StreamLog& log,
                                   const LakeOptions& options, const Deadline& deadline);

// Whether a stream has neither a step nor a block that is to become one: nobody loses anything with it.
bool HasNothing(const Manifest& manifest);
// How a person gets rid of what is in the store, for a message.
std::string HowToDelete(const ObjectStore& store);

// Whether the stream is this recipe's: kConflict, with what differs, if it is not. Reads a few small objects and nothing of the lake; the contents of
// tokenizers and of Python code are taken to be what the stream remembers: only who makes steps has to load them.
Status CompareRecipe(const Recipe& recipe, bool holdout, StreamLog& log, const Deadline& deadline);
// The same but for sources, which are allowed to be others.
Status CompareWords(const Recipe& recipe, const StreamRecipe& kept, StreamLog& log, const Deadline& deadline);

class LakeStream {
 public:
  static Result<std::unique_ptr<LakeStream>> Open(std::unique_ptr<LoadedRecipe> lake, StreamContext context,
                                                  const LakeOptions& options, const Deadline& deadline);

  const Recipe& recipe() const { return lake_->recipe; }
  const std::shared_ptr<StreamLog>& log() const { return log_; }
  const StreamRecipe& kept() const { return kept_; }
  Sources& sources() { return *sources_; }
  SequenceCost Cost() const { return lake_->Cost(); }
  const CellLayout& layout() const { return layout_; }
  uint32_t lanes() const { return log_->info().lanes; }
  const MemoryNeed& memory_need() const { return memory_need_; }

  // The mixture `number`, with all its sources opened.
  Result<std::shared_ptr<const StreamMixture>> Mixture(uint32_t number, const Deadline& deadline);

  // The files of the sources that are others than in the inventory, by listing them. Those that are gone do not count: who has a whole stream needs them
  // no more.
  Result<std::vector<std::string>> ChangedFiles(const Deadline& deadline) const;

 private:
  std::unique_ptr<LoadedRecipe> lake_;
  std::shared_ptr<StreamLog> log_;
  StreamRecipe kept_;
  CellLayout layout_;
  std::unique_ptr<Sources> sources_;
  MemoryNeed memory_need_;
  std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<const StreamMixture>> mixtures_;
};

}  // namespace headrace
