#include "produce/strand_line.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "store/create.h"
#include "stream/chunk.h"

namespace headrace {
namespace {

using Json = nlohmann::json;

// A strand's feed and planner where a chunk's footer left them.
struct Place {
  std::unique_ptr<StrandFeed> feed;
  std::unique_ptr<Planner> planner;
};

Result<Place> Resume(LakeStream& lake, uint16_t strand, const std::optional<Bytes>& state, const StreamMixture& mixture,
                     const Deadline& deadline) {
  Place at;
  at.feed = std::make_unique<StrandFeed>(lake.recipe(), lake.sources(), lake.layout().kept, strand, deadline);
  at.planner = std::make_unique<Planner>(lake.recipe(), mixture.Names(), *at.feed, lake.Cost());
  if (!state) return at;
  const Json json = Json::parse(state->AsText(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("feed") || !json.contains("plan") || !json["plan"].is_string())
    return Status(Code::kCorrupt, Cat("the state of strand ", strand, " in the footer of its last chunk is damaged"));
  HR_RETURN_IF_ERROR(at.feed->Restore(json["feed"]));
  HR_RETURN_IF_ERROR(at.planner->Restore(json["plan"].get<std::string>()));
  return at;
}

}  // namespace

Result<std::unique_ptr<StrandLine>> StrandLine::Take(LakeStream& lake, uint16_t strand, const Deadline& deadline) {
  std::unique_ptr<StrandLine> line(new StrandLine(lake));
  HR_ASSIGN_OR_RETURN(line->writer_, StrandWriter::Take(lake.log(), strand, deadline));
  HR_RETURN_IF_ERROR(line->Restore(deadline));
  return line;
}

Status StrandLine::Restore(const Deadline& deadline) {
  feed_.reset();
  planner_.reset();
  HR_ASSIGN_OR_RETURN(std::shared_ptr<const StreamMixture> mixture, lake_.Mixture(writer_->next().mixture, deadline));
  HR_ASSIGN_OR_RETURN(Place at, Resume(lake_, strand(), writer_->state(), *mixture, deadline));
  feed_ = std::move(at.feed);
  planner_ = std::move(at.planner);
  return {};
}

Status StrandLine::Recover(const Deadline& deadline) {
  HR_RETURN_IF_ERROR(writer_->Rebuild(deadline));
  return Restore(deadline);
}

Status StrandLine::PutLineage(const std::vector<LineageRow>& rows, const StreamMixture& mixture, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::string bytes, EncodeLineage(rows, mixture.Names(), mixture.number,
                                                       [&](uint16_t source, uint32_t file) -> const std::string& {
                                                         return lake_.sources().loader(source).inventory().files[file].uri;
                                                       }));
  const std::string key = LineageKey(writer_->Reserve());
  ObjectStore& store = lake_.log()->store();
  // Nobody else has this name, so what is there is ours.
  HR_ASSIGN_OR_RETURN(PutOutcome outcome, store.PutIfAbsent(key, Body(std::move(bytes)), deadline));
  if (outcome.kind == PutOutcome::kUnknown) return outcome.reason.Annotate(Cat("cannot write ", store.Describe(key)));
  return {};
}

Result<StrandLine::Made> StrandLine::MakeBlock(const Deadline& deadline) {
  Made made;
  const StrandWriter::Turn turn = writer_->next();
  const StreamInfo& info = lake_.log()->info();
  if (lake_.kept().blocks != 0 && turn.block >= lake_.kept().blocks) {
    HR_RETURN_IF_ERROR(writer_->End(deadline));
    made.ended = true;
    return made;
  }
  HR_ASSIGN_OR_RETURN(std::shared_ptr<const StreamMixture> mixture, lake_.Mixture(turn.mixture, deadline));
  std::vector<AtEnd> at_end;
  for (const StreamSource& source : mixture->sources) at_end.push_back(source.spec.at_end);
  planner_->SetSources(mixture->Names(), std::move(at_end));
  const bool arrival = info.order == Order::kArrival;
  const uint32_t steps = arrival ? info.blocks.Steps(writer_->seq() * info.strands + strand()) : turn.steps;
  const uint64_t first = arrival ? lake_.log()->known()->manifest.frontier_step : info.blocks.FirstStep(turn.block);
  const Constructor constructor(lake_.recipe(), lake_.layout());
  ChunkBuilder chunk(info, {});
  std::vector<LineageRow> lineage;
  for (uint32_t i = 0; i < steps; ++i) {
    HR_RETURN_IF_ERROR(deadline.Check(lake_.log()->clock(), "making a block"));
    HR_ASSIGN_OR_RETURN(std::optional<StepPlan> plan, planner_->Next(first + i, mixture->mix));
    if (!plan) {
      // What is left is not a whole block: the finisher takes it, from the footer of the last chunk.
      HR_RETURN_IF_ERROR(writer_->End(deadline));
      made.ended = true;
      return made;
    }
    const auto find = [&](const Sequence&, const SampleRef& ref) -> const HeldSample& { return feed_->Find(ref); };
    HR_ASSIGN_OR_RETURN(std::vector<Body> cells, constructor.Build(*plan, find, i, lineage));
    HR_RETURN_IF_ERROR(chunk.AddStep(std::move(cells)));
    feed_->Retain(planner_->Carried());
    made.tokens.resize(plan->tokens.size());
    made.samples.resize(plan->samples.size());
    for (size_t s = 0; s < plan->tokens.size(); ++s) {
      made.tokens[s] += plan->tokens[s];
      made.samples[s] += plan->samples[s];
    }
    made.padding += plan->padding;
    made.spread = std::max(made.spread, plan->spread_after);
  }
  made.steps = steps;
  made.bytes = chunk.bytes();
  HR_RETURN_IF_ERROR(PutLineage(lineage, *mixture, deadline));
  const std::string state = Json{{"feed", feed_->State()}, {"plan", planner_->State()}}.dump();
  HR_RETURN_IF_ERROR(writer_->Append(turn, chunk, Bytes::FromString(state), deadline));
  feed_->Committed();
  return made;
}

Result<uint32_t> StrandLine::Finish(const Deadline& deadline) {
  const StreamInfo& info = lake_.log()->info();
  const Recipe& recipe = lake_.recipe();
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, lake_.log()->Refresh(deadline));
  if (state->manifest.finished) return 0u;
  HR_ASSIGN_OR_RETURN(std::shared_ptr<const StreamMixture> mixture, lake_.Mixture(writer_->next().mixture, deadline));
  const size_t sources = mixture->sources.size();

  ChunkBuilder chunk(info, {});
  std::vector<LineageRow> lineage;
  const Constructor constructor(recipe, lake_.layout());
  std::vector<Place> strands;
  uint32_t made = 0;
  const auto find = [&](const Sequence& sequence, const SampleRef& ref) -> const HeldSample& {
    return strands[sequence.tag].feed->Find(ref);
  };
  const auto add = [&](const StepPlan& plan) -> Status {
    HR_ASSIGN_OR_RETURN(std::vector<Body> cells, constructor.Build(plan, find, made, lineage));
    HR_RETURN_IF_ERROR(chunk.AddStep(std::move(cells)));
    ++made;
    return {};
  };
  // By length, in the order of the strands: what is left when no strand can fill a step of its own.
  std::map<uint32_t, std::vector<Sequence>> left;
  const bool counted = lake_.kept().blocks != 0;  // `until` says how many steps there are: nothing is left over
  for (uint16_t strand = 0; strand < info.strands && !counted; ++strand) {
    HR_RETURN_IF_ERROR(deadline.Check(lake_.log()->clock(), "packing what the strands have left"));
    HR_ASSIGN_OR_RETURN(std::optional<Bytes> footer, StrandWriter::StateOf(*lake_.log(), strand, deadline));
    HR_ASSIGN_OR_RETURN(Place at, Resume(lake_, strand, footer, *mixture, deadline));
    strands.push_back(std::move(at));
    Planner& planner = *strands.back().planner;
    const uint64_t first = info.blocks.FirstStep(state->manifest.strands[strand].next_block);
    uint64_t step = first;
    while (true) {
      HR_ASSIGN_OR_RETURN(std::optional<StepPlan> plan, planner.Next(step, mixture->mix));
      if (!plan) break;
      for (std::vector<Sequence>& lane : plan->lanes) {
        for (Sequence& sequence : lane) sequence.tag = strand;
      }
      HR_RETURN_IF_ERROR(add(*plan));
      strands.back().feed->Retain(planner.Carried());
      ++step;
    }
    HR_ASSIGN_OR_RETURN(std::vector<Sequence> rest, planner.Remainder(step));
    // All strands' remainders are held at once, so nothing else may be.
    std::vector<SampleRef> held;
    for (const Sequence& sequence : rest) {
      for (const Placed& piece : sequence.pieces) held.push_back(piece.sample.ref);
    }
    strands.back().feed->Retain(held);
    strands.back().feed->CloseWindows();
    for (Sequence& sequence : rest) {
      sequence.tag = strand;
      left[sequence.length].push_back(std::move(sequence));
    }
  }
  for (auto& [length, sequences] : left) {
    const size_t size = recipe.StepSize(state->manifest.frontier_step);
    for (size_t from = 0; from < sequences.size(); from += size) {
      const size_t count = std::min(size, sequences.size() - from);
      if (count < size && recipe.drop_last) break;
      std::vector<Sequence> step(std::make_move_iterator(sequences.begin() + static_cast<long>(from)),
                                 std::make_move_iterator(sequences.begin() + static_cast<long>(from + count)));
      HR_RETURN_IF_ERROR(add(PlanStep(recipe, sources, length, std::move(step), lake_.Cost())));
    }
  }
  if (made > 0) HR_RETURN_IF_ERROR(PutLineage(lineage, *mixture, deadline));
  HR_RETURN_IF_ERROR(writer_->Finish(chunk, deadline));
  return made;
}

}  // namespace headrace
