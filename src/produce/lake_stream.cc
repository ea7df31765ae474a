#include "produce/lake_stream.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text.h"
#include "produce/last_steps.h"
#include "produce/strand_feed.h"
#include "store/memory_store.h"

namespace headrace {
namespace {

using Json = nlohmann::json;

// The first rows that a source gives, after the transforms; nothing if none of the first windows has any.
Result<std::shared_ptr<arrow::RecordBatch>> FirstRows(SourceLoader& loader, uint32_t strands, const Deadline& deadline) {
  std::shared_ptr<arrow::RecordBatch> empty;
  for (uint16_t strand = 0; strand < strands; ++strand) {
    const uint32_t groups = loader.Groups(strand, 0);
    for (uint32_t group = 0; group < std::min(groups, 4u); ++group) {
      HR_ASSIGN_OR_RETURN(std::shared_ptr<const Window> window, loader.Load(strand, {0, group, 0, 0}, deadline));
      if (window->parts.front()->num_rows() == 0) continue;
      auto rows = arrow::ConcatenateRecordBatches(window->parts);
      if (!rows.ok())
        return Status(Code::kInternal, Cat("cannot look at the first rows of a source: ", rows.status().ToString()));
      return *rows;
    }
  }
  return empty;
}

uint32_t LongestPack(const Recipe& recipe) {
  uint32_t longest = 0;
  for (const PackLength& length : recipe.pack->lengths) longest = std::max(longest, length.length);
  return longest;
}

// Bytes of one lane of one step, about.
double LaneBytes(const Recipe& recipe, const CellLayout& layout,
                 const std::vector<std::shared_ptr<arrow::RecordBatch>>& samples) {
  uint32_t most = 1;
  for (const auto& [step, size] : recipe.step) most = std::max(most, size);
  const double per_lane = static_cast<double>(most) / recipe.lanes;
  if (recipe.pack) {
    const double width = static_cast<double>(DtypeBytes(layout.columns.front().dtype)) + (layout.loss_mask ? 1 : 0);
    return per_lane * LongestPack(recipe) * width;
  }
  double bytes = 0, rows = 0;
  for (const auto& batch : samples) {
    if (batch == nullptr) continue;
    rows += static_cast<double>(batch->num_rows());
    for (const auto& column : batch->columns()) {
      for (const auto& buffer : column->data()->buffers) bytes += buffer ? static_cast<double>(buffer->size()) : 0;
      for (const auto& child : column->data()->child_data) {
        for (const auto& buffer : child->buffers) bytes += buffer ? static_cast<double>(buffer->size()) : 0;
      }
    }
  }
  return per_lane * std::max(1.0, bytes / std::max(1.0, rows));
}

// After how many steps so many tokens are in them.
uint64_t StepsForTokens(const Recipe& recipe, uint64_t tokens) {
  double length = 0, shares = 0;
  for (const PackLength& pack : recipe.pack->lengths) {
    length += pack.length * pack.share;
    shares += pack.share;
  }
  uint64_t step = 0;
  for (double done = 0; done < static_cast<double>(tokens); ++step) done += recipe.StepSize(step) * length / shares;
  return step;
}

// As a recipe has it: people look for these words in theirs.
std::string RecipeWord(const std::string& key) {
  if (key == "lane_bytes") return "chunk.lane_bytes";
  if (key == "shuffle_window") return "shuffle.window";
  return key;
}

// `step` is written as pairs, [[0, 256], [5000, 512]], and the words of a person are 256, or {0: 256, 5000: 512}.
std::string Shown(const std::string& name, const Json& value) {
  if (value.is_null() || (value.is_array() && value.empty())) return "none";
  if (name != "step") return value.dump();
  if (value.size() == 1) return value[0][1].dump();
  std::string ramp;
  for (const Json& stage : value) ramp += Cat(ramp.empty() ? "" : ", ", stage[0].dump(), ": ", stage[1].dump());
  return Cat("{", ramp, "}");
}

void AddDifferences(const std::string& name, const Json& theirs, const Json& ours, std::vector<std::string>& words) {
  if (theirs == ours) return;
  if (theirs.is_object() && ours.is_object()) {
    Json all = theirs;
    all.update(ours);
    for (const auto& [key, value] : all.items()) {
      AddDifferences(name.empty() ? RecipeWord(key) : Cat(name, ".", key), theirs.value(key, Json()), ours.value(key, Json()),
                     words);
    }
    return;
  }
  words.push_back(Cat(name, ": ", Shown(name, theirs), " in the stream, ", Shown(name, ours), " in the recipe"));
}

std::string Reads(const SourceSpec& spec) {
  std::string text = Cat(spec.format, " ");
  for (const std::string& file : spec.files) text += Cat(&file == &spec.files.front() ? "" : ", ", file);
  if (spec.epochs > 0) text += Cat(", epochs ", spec.epochs);
  if (spec.limit > 0) text += Cat(", limit ", spec.limit);
  return text;
}

void AddSources(const Recipe& recipe, const StreamMixture& mixture, std::vector<std::string>& words) {
  for (const SourceSpec& spec : recipe.sources) {
    auto known = std::ranges::find_if(mixture.sources, [&](const StreamSource& source) { return source.spec.name == spec.name; });
    if (known == mixture.sources.end()) {
      words.push_back(Cat("source ", spec.name, ": none in the stream, ", Reads(spec), " in the recipe"));
    } else if (known->spec.Fingerprint() != spec.Fingerprint()) {
      words.push_back(Cat("source ", spec.name, ": ", Reads(known->spec), " in the stream, ", Reads(spec), " in the recipe"));
    }
  }
  for (const StreamSource& source : mixture.sources) {
    if (std::ranges::none_of(recipe.sources, [&](const SourceSpec& spec) { return spec.name == source.spec.name; }))
      words.push_back(Cat("source ", source.spec.name, ": ", Reads(source.spec), " in the stream, none in the recipe"));
  }
}

std::string Differences(const StreamRecipe& own, const StreamRecipe& kept, const Recipe& recipe, const StreamMixture& mixture) {
  std::vector<std::string> words;
  AddDifferences("", Json::parse(kept.canonical, nullptr, false), Json::parse(own.canonical, nullptr, false), words);
  AddSources(recipe, mixture, words);
  std::map<std::string, std::string> all = own.fingerprints;
  all.insert(kept.fingerprints.begin(), kept.fingerprints.end());
  for (const auto& [name, hash] : all) {
    const auto a = own.fingerprints.find(name), b = kept.fingerprints.find(name);
    if (a != own.fingerprints.end() && b != kept.fingerprints.end() && a->second == b->second) continue;
    words.push_back(Cat(name, ": ", b == kept.fingerprints.end() ? "unknown" : b->second.substr(0, 12), " in the stream, ",
                        a == own.fingerprints.end() ? "unknown" : a->second.substr(0, 12), " here"));
  }
  if (own.holdout != kept.holdout) words.emplace_back("--split holdout");
  std::string text;
  for (const std::string& word : words) text += "\n  " + word;
  return text;
}

uint32_t NewestMixture(const Manifest& manifest) { return manifest.mixtures.empty() ? 0 : manifest.mixtures.back().number; }

Status CheckSources(const Recipe& recipe, const StreamMixture& mixture, const std::string& stream) {
  for (const SourceSpec& spec : recipe.sources) {
    auto known = std::ranges::find_if(mixture.sources, [&](const StreamSource& source) { return source.spec.name == spec.name; });
    if (known == mixture.sources.end()) {
      return Status(Code::kConflict,
                    Cat("the recipe has a source ", spec.name, " that the stream ", stream, " does not know. `headrace mix ",
                        stream, " --recipe ", recipe.name, "` adds it, with the recipe's weights, from a committed block on"));
    }
    if (known->spec.Fingerprint() != spec.Fingerprint()) {
      return Status(Code::kConflict, Cat("source ", spec.name, " of the recipe reads something else than in the stream ", stream,
                                         ": ", Reads(known->spec), " in the stream, ", Reads(spec),
                                         " in the recipe. Give what is new another name, and add it by `headrace mix`"));
    }
  }
  return {};
}

}  // namespace

Status LessThanAStep(const Recipe& recipe, const std::string& then) {
  return Status(Code::kInvalidArgument, Cat(recipe.name, ": all that the sources have is less than one step of ",
                                            recipe.StepSize(0), recipe.pack ? " sequences" : " samples",
                                            ", so that there is nothing to train on. Make steps smaller (`step`), ",
                                            recipe.drop_last ? "keep a last step that is not full (`drop_last: false`), " : "",
                                            "or give the sources more files. ", then));
}

bool HasNothing(const Manifest& manifest) {
  return manifest.frontier_step == 0 && manifest.tail.empty() && manifest.parked.empty() && !manifest.finished;
}

std::string HowToDelete(const ObjectStore& store) {
  std::string place = store.Describe();
  if (place.starts_with("s3://")) return Cat("delete all that is under it (`aws s3 rm --recursive ", place, "`)");
  if (place.starts_with("file://")) place = place.substr(7);
  return Cat("delete it (`rm -r ", place, "`)");
}

Result<std::unique_ptr<LoadedRecipe>> LoadedRecipe::Make(Recipe recipe, const LakeOptions& options) {
  auto lake = std::make_unique<LoadedRecipe>();
  lake->recipe = std::move(recipe);
  TransformOptions transforms;
  transforms.python = options.python;
  transforms.threads = options.threads;
  HR_ASSIGN_OR_RETURN(lake->transforms, TransformChain::Make(lake->recipe, transforms));
  if (lake->recipe.cost.kind == CostSpec::kPython) {
    PythonCallOptions call;
    call.python = options.python;
    call.folder = lake->recipe.folder;
    call.workers = std::max(1u, options.threads);
    HR_ASSIGN_OR_RETURN(lake->cost, PythonCall::Make(PythonCall::kCost, lake->recipe.cost.call, call));
  }
  return lake;
}

std::map<std::string, std::string> LoadedRecipe::Fingerprints() const {
  std::map<std::string, std::string> all = transforms->Fingerprints();
  if (cost != nullptr) all.merge(cost->Fingerprints());
  return all;
}

SequenceCost LoadedRecipe::Cost() const {
  if (cost == nullptr) return {};
  return [](const Sequence& sequence) {
    double sum = 0;
    for (const Placed& piece : sequence.pieces) {
      const double part = static_cast<double>(piece.length) / std::max(1u, piece.sample.length);
      sum += piece.sample.numbers.front() * (piece.sample.length == 0 ? 1 : part);
    }
    return sum;
  };
}

Result<StreamSource> TakeInventory(const Recipe& recipe, const SourceSpec& spec, size_t sources, const LakeOptions& options,
                                   ObjectStore& store, const Deadline& deadline) {
  InventoryOptions wanted;
  wanted.strands = recipe.strands;
  wanted.sources = static_cast<uint32_t>(sources);
  wanted.shuffle_window = recipe.shuffle_window;
  wanted.group_size = recipe.group_size;
  if (options.progress)
    wanted.progress = [&](uint64_t files, uint64_t of) { options.progress(Cat("looking into source ", spec.name), files, of); };
  HR_ASSIGN_OR_RETURN(Inventory inventory, MakeInventory(spec, recipe.folder, wanted, deadline));
  HR_ASSIGN_OR_RETURN(std::string key, PutByContent(store, "inventory", inventory.Encode(), deadline));
  return StreamSource{spec, key};
}

namespace {

std::vector<const Inventory*> InventoriesOf(const Sources& sources) {
  std::vector<const Inventory*> inventories;
  for (size_t i = 0; i < sources.size(); ++i) inventories.push_back(&sources.loader(i).inventory());
  return inventories;
}

// Plans as whoever finishes the stream would if no strand had filled a block, until there is a step.
Result<bool> HasAStep(const LoadedRecipe& lake, const StreamDraft& draft, const Sources& sources, const CellLayout& layout,
                      const Deadline& deadline) {
  struct Line {
    std::unique_ptr<StrandFeed> feed;
    std::unique_ptr<Planner> planner;
  };
  std::vector<Line> lines;
  LastSteps last{lake.recipe, sources.size(), draft.recipe.first.mix, lake.Cost()};
  last.most = 1;
  bool found = false;
  const auto open = [&](uint16_t strand) -> Result<EndingStrand> {
    HR_RETURN_IF_ERROR(deadline.Check(RealClock(), "looking for the first step"));
    auto feed = std::make_unique<StrandFeed>(lake.recipe, sources, layout.kept, strand, deadline);
    auto planner = std::make_unique<Planner>(lake.recipe, draft.recipe.first.Names(), *feed, lake.Cost());
    lines.push_back({std::move(feed), std::move(planner)});
    return EndingStrand{lines.back().feed.get(), lines.back().planner.get(), draft.info.blocks.FirstStep(strand)};
  };
  HR_RETURN_IF_ERROR(PlanLastSteps(last, static_cast<uint16_t>(draft.info.strands), open, [&](const StepPlan&) {
    found = true;
    return Status();
  }));
  return found;
}

}  // namespace

Result<StreamDraft> DraftStream(const LoadedRecipe& lake, const LakeOptions& options, ObjectStore& store,
                                const Deadline& deadline) {
  const Recipe& recipe = lake.recipe;
  StreamDraft draft;
  draft.recipe.text = recipe.text;
  std::error_code no_folder;
  draft.recipe.folder =
      std::filesystem::absolute(recipe.folder.empty() ? "." : recipe.folder, no_folder).lexically_normal().string();
  draft.recipe.broadcast_at = recipe.broadcast_at;
  draft.recipe.canonical = recipe.Canonical();
  draft.recipe.fingerprints = lake.Fingerprints();
  draft.recipe.holdout = options.holdout;
  draft.recipe.first.mix = recipe.mix;
  for (const SourceSpec& spec : recipe.sources) {
    HR_ASSIGN_OR_RETURN(StreamSource source, TakeInventory(recipe, spec, recipe.sources.size(), options, store, deadline));
    draft.recipe.first.sources.push_back(std::move(source));
  }
  Sources sources(recipe, lake.transforms, lake.cost, options.holdout, options.memory, /*quiet=*/true);
  HR_RETURN_IF_ERROR(sources.Open(draft.recipe.first.sources, store, deadline));
  draft.memory = NeedOf(recipe, InventoriesOf(sources), options.strands);
  if (options.require_memory) HR_RETURN_IF_ERROR(options.require_memory(draft.memory));
  std::vector<std::shared_ptr<arrow::RecordBatch>> samples;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (options.progress) options.progress("reading a few samples", i, sources.size());
    HR_ASSIGN_OR_RETURN(std::shared_ptr<arrow::RecordBatch> rows, FirstRows(sources.loader(i), recipe.strands, deadline));
    samples.push_back(std::move(rows));
    const Inventory& inventory = sources.loader(i).inventory();
    draft.inventory_rows += inventory.rows;
    draft.inventory_bytes += inventory.bytes;
    draft.inventory_files += inventory.files.size();
    draft.exact &= inventory.exact;
  }
  HR_ASSIGN_OR_RETURN(CellLayout layout, LayoutFor(recipe, samples, draft.recipe.first.Names(), lake.transforms->Vocabulary()));
  StreamInfo& info = draft.info;
  info.lanes = recipe.lanes;
  info.strands = recipe.strands;
  info.order = recipe.order;
  info.window = std::min(StreamInfo::kMaxStrands, 2 * recipe.strands);
  info.columns = layout.columns;
  const double steps = static_cast<double>(recipe.lane_bytes) / std::max(1.0, LaneBytes(recipe, layout, samples));
  const uint32_t most = static_cast<uint32_t>(std::clamp(steps, 1.0, 1024.0));
  info.blocks = BlockSizes::Growing(recipe.strands, most);
  if (recipe.until.kind == Until::kSteps) {
    info.blocks = BlockSizes::Exactly(recipe.until.amount, recipe.strands, most, &draft.recipe.blocks);
  } else if (recipe.until.kind == Until::kTokens) {
    if (recipe.pack) {
      info.blocks = BlockSizes::Exactly(StepsForTokens(recipe, recipe.until.amount), recipe.strands, most, &draft.recipe.blocks);
    } else if (!layout.tokens) {
      return Status(Code::kInvalidArgument, Cat(recipe.name,
                                                ": until: {tokens: …} counts tokens, and samples have no column tokens; "
                                                "say how many steps"));
    }
  }
  info.recipe_hash = draft.recipe.Hash();
  if (draft.inventory_bytes < options.try_below_bytes) {
    // What else may be wrong is told by whoever makes the steps, with what it tolerates.
    const Result<bool> some = HasAStep(lake, draft, sources, layout, deadline);
    if (some.ok() && !*some) return LessThanAStep(recipe, "Nothing was written");
  }
  return draft;
}

namespace {

// What was fixed when the stream was begun is what the recipe says.
Status CheckWords(const StreamRecipe& own, const StreamRecipe& kept, const Recipe& recipe, StreamLog& log,
                  const Manifest& manifest, const Deadline& deadline) {
  if (own.Hash() == log.info().recipe_hash) return {};
  HR_ASSIGN_OR_RETURN(const StreamMixture now, ReadMixture(log, kept, NewestMixture(manifest), deadline));
  return Status(
      Code::kConflict,
      Cat("the stream ", log.store().Describe(), " was begun with another recipe than ", recipe.name, ":",
          Differences(own, kept, recipe, now),
          HasNothing(manifest)
              ? Cat("\nThe stream has no step yet: if nobody else is at it, ", HowToDelete(log.store()), " and start again")
              : "\nOn a living stream the mixture, lead, retain, bad_samples and new sources may change (`headrace mix "
                "--help`); for everything else begin another stream"));
}

}  // namespace

Status CompareWords(const Recipe& recipe, const StreamRecipe& kept, StreamLog& log, const Deadline& deadline) {
  StreamRecipe own;
  own.canonical = recipe.Canonical();
  own.fingerprints = kept.fingerprints;
  own.holdout = kept.holdout;
  return CheckWords(own, kept, recipe, log, log.known()->manifest, deadline);
}

Result<StreamSource> TakeNewSource(const LoadedRecipe& lake, const SourceSpec& spec, const StreamRecipe& kept, StreamLog& log,
                                   const LakeOptions& options, const Deadline& deadline) {
  const Recipe& recipe = lake.recipe;
  StreamRecipe own;
  own.canonical = recipe.Canonical();
  own.fingerprints = lake.Fingerprints();
  own.holdout = kept.holdout;
  HR_RETURN_IF_ERROR(CheckWords(own, kept, recipe, log, log.known()->manifest, deadline));
  MemoryStore drafted("draft");
  HR_ASSIGN_OR_RETURN(StreamSource source, TakeInventory(recipe, spec, recipe.sources.size(), options, drafted, deadline));
  Sources sources(recipe, lake.transforms, lake.cost, kept.holdout, options.memory, /*quiet=*/true);
  HR_RETURN_IF_ERROR(sources.Open({source}, drafted, deadline));
  HR_ASSIGN_OR_RETURN(std::shared_ptr<arrow::RecordBatch> rows, FirstRows(sources.loader(0), recipe.strands, deadline));
  // Without a row among the first ones, as after a filter that few pass, there is nothing to look at.
  if (rows != nullptr)
    HR_RETURN_IF_ERROR(CheckFits(recipe, rows, spec.name, lake.transforms->Vocabulary(), LayoutOf(log.info().columns)));
  HR_ASSIGN_OR_RETURN(const Bytes inventory, GetByContent(drafted, source.inventory, deadline));
  HR_RETURN_IF_ERROR(PutByContent(log.store(), "inventory", inventory.ToString(), deadline).status());
  return source;
}

Status CompareRecipe(const Recipe& recipe, bool holdout, StreamLog& log, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(const StreamRecipe kept, ReadStreamRecipe(log, deadline));
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log.Refresh(deadline));
  StreamRecipe own;
  own.canonical = recipe.Canonical();
  own.fingerprints = kept.fingerprints;
  own.holdout = holdout;
  HR_RETURN_IF_ERROR(CheckWords(own, kept, recipe, log, state->manifest, deadline));
  HR_ASSIGN_OR_RETURN(const StreamMixture now, ReadMixture(log, kept, NewestMixture(state->manifest), deadline));
  return CheckSources(recipe, now, log.store().Describe());
}

Result<std::unique_ptr<LakeStream>> LakeStream::Open(std::unique_ptr<LoadedRecipe> lake, StreamContext context,
                                                     const LakeOptions& options, const Deadline& deadline) {
  auto opened = std::make_unique<LakeStream>();
  opened->lake_ = std::move(lake);
  const Recipe& recipe = opened->lake_->recipe;
  ObjectStore& store = *context.store;
  StreamContext for_create = context;
  Result<std::shared_ptr<StreamLog>> log = StreamLog::Open(context, deadline);
  if (log.code() == Code::kNotFound) {
    if (options.require_safe) HR_RETURN_IF_ERROR(options.require_safe());
    // Refused or not, a draft leaves nothing behind: others may be at the same stream, so nothing could be taken back.
    MemoryStore drafted("draft");
    HR_ASSIGN_OR_RETURN(StreamDraft draft, DraftStream(*opened->lake_, options, drafted, deadline));
    HR_RETURN_IF_ERROR(draft.recipe.first.Check());
    for (const StreamSource& source : draft.recipe.first.sources) {
      HR_ASSIGN_OR_RETURN(const Bytes inventory, GetByContent(drafted, source.inventory, deadline));
      HR_RETURN_IF_ERROR(PutByContent(store, "inventory", inventory.ToString(), deadline).status());
    }
    HR_ASSIGN_OR_RETURN(draft.info.recipe, PutByContent(store, "recipe", draft.recipe.ToJson(), deadline));
    Random random = context.random.Fork("uuid");
    for (unsigned char& byte : draft.info.uuid) byte = static_cast<unsigned char>(random.Next());
    HR_RETURN_IF_ERROR(draft.info.Check());
    log = StreamLog::Create(std::move(draft.info), std::move(for_create), deadline);
    // Another producer may have been quicker: what counts is what it wrote.
    if (log.code() == Code::kConflict) log = StreamLog::Open(std::move(context), deadline);
  }
  HR_RETURN_IF_ERROR(log.status());
  opened->log_ = *std::move(log);
  HR_ASSIGN_OR_RETURN(opened->kept_, ReadStreamRecipe(*opened->log_, deadline));

  StreamRecipe own;
  own.canonical = recipe.Canonical();
  own.fingerprints = opened->lake_->Fingerprints();
  own.holdout = options.holdout;
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, opened->log_->Refresh(deadline));
  HR_RETURN_IF_ERROR(CheckWords(own, opened->kept_, recipe, *opened->log_, state->manifest, deadline));
  opened->layout_ = LayoutOf(opened->log_->info().columns);
  opened->sources_ =
      std::make_unique<Sources>(recipe, opened->lake_->transforms, opened->lake_->cost, options.holdout, options.memory);
  HR_ASSIGN_OR_RETURN(std::shared_ptr<const StreamMixture> mixture, opened->Mixture(NewestMixture(state->manifest), deadline));
  HR_RETURN_IF_ERROR(CheckSources(recipe, *mixture, store.Describe()));
  opened->memory_need_ = NeedOf(recipe, InventoriesOf(*opened->sources_), options.strands);
  if (options.require_memory) HR_RETURN_IF_ERROR(options.require_memory(opened->memory_need_));
  // Weights in a recipe are those that its stream begins with; later ones are decisions in the log.
  const std::string weights = recipe.mix.ToJson();
  if (weights != mixture->mix.ToJson() && weights != opened->kept_.first.mix.ToJson())
    HR_LOG(kWarning, "the weights in the recipe are not those of the stream, which stay in force; `headrace mix` changes them",
           {"recipe", recipe.name}, {"stream", store.Describe()});
  return opened;
}

Result<std::shared_ptr<const StreamMixture>> LakeStream::Mixture(uint32_t number, const Deadline& deadline) {
  {
    std::lock_guard lock(mutex_);
    if (auto found = mixtures_.find(number); found != mixtures_.end()) return found->second;
  }
  HR_ASSIGN_OR_RETURN(StreamMixture mixture, ReadMixture(*log_, kept_, number, deadline));
  HR_RETURN_IF_ERROR(sources_->Open(mixture.sources, log_->store(), deadline));
  std::lock_guard lock(mutex_);
  return mixtures_.try_emplace(number, std::make_shared<const StreamMixture>(std::move(mixture))).first->second;
}

Result<std::vector<std::string>> LakeStream::ChangedFiles(const Deadline& deadline) const {
  std::vector<std::string> changed;
  for (size_t i = 0; i < sources_->size(); ++i) {
    const SourceSpec& spec = sources_->spec(i);
    HR_ASSIGN_OR_RETURN(const std::vector<LakeFile> now,
                        FindFiles(spec.files, lake_->recipe.folder, spec.storage_options, deadline));
    std::map<std::string_view, const LakeFile*> before;
    for (const LakeFile& file : sources_->loader(i).inventory().files) before.emplace(file.uri, &file);
    for (const LakeFile& file : now) {
      const auto known = before.find(file.uri);
      if (known == before.end()) continue;
      const LakeFile& old = *known->second;
      if (file.bytes != old.bytes || (!file.version.empty() && !old.version.empty() && file.version != old.version))
        changed.push_back(file.uri);
    }
  }
  return changed;
}

}  // namespace headrace
