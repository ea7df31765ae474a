#include "produce/strand_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text.h"
#include "produce/last_steps.h"
#include "store/create.h"
#include "stream/chunk.h"

namespace headrace {
namespace {

using Json = nlohmann::json;

// A strand's feed and planner where a chunk's footer left them.
struct Place {
  std::unique_ptr<StrandFeed> feed;
  std::unique_ptr<Planner> planner;
  uint64_t drawn = 0;
};

// How many tokens a strand makes, where `until` counts them and steps have no fixed size; no limit otherwise.
uint64_t TokensOf(const LakeStream& lake, uint16_t strand) {
  const Recipe& recipe = lake.recipe();
  if (recipe.until.kind != Until::kTokens || recipe.pack) return UINT64_MAX;
  const uint64_t strands = recipe.strands;
  return recipe.until.amount / strands + (strand < recipe.until.amount % strands ? 1 : 0);
}

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
  at.drawn = json.value("tokens", uint64_t{0});
  return at;
}

}  // namespace

Result<std::unique_ptr<StrandLine>> StrandLine::Take(LakeStream& lake, uint16_t strand, const Deadline& deadline) {
  std::unique_ptr<StrandLine> line(new StrandLine(lake));
  HR_ASSIGN_OR_RETURN(line->writer_, StrandWriter::Take(lake.log(), strand, deadline));
  return line;
}

Status StrandLine::Restore(const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::shared_ptr<const StreamMixture> mixture, lake_.Mixture(writer_->next().mixture, deadline));
  HR_ASSIGN_OR_RETURN(Place at, Resume(lake_, strand(), writer_->state(), *mixture, deadline));
  feed_ = std::move(at.feed);
  planner_ = std::move(at.planner);
  drawn_ = at.drawn;
  return {};
}

Status StrandLine::Settle(const Deadline& deadline) {
  if (!ending_ && !writer_->undecided()) return {};
  HR_RETURN_IF_ERROR(writer_->Rebuild(deadline));
  ending_ = false;
  return {};
}

void StrandLine::Made::Add(const StepPlan& plan) {
  ++steps;
  tokens.resize(std::max(tokens.size(), plan.tokens.size()));
  samples.resize(std::max(samples.size(), plan.samples.size()));
  for (size_t source = 0; source < plan.tokens.size(); ++source) {
    tokens[source] += plan.tokens[source];
    samples[source] += plan.samples[source];
  }
  padding += plan.padding;
  spread = std::max(spread, plan.spread_after);
}

void StrandLine::Made::AddSkipped(const std::vector<uint64_t>& more) {
  skipped.resize(std::max(skipped.size(), more.size()));
  for (size_t source = 0; source < more.size(); ++source) skipped[source] += more[source];
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
  Result<Made> made = TryBlock(deadline);
  if (!made.ok()) {
    feed_.reset();
    planner_.reset();
    writer_->Release();
  }
  return made;
}

Result<StrandLine::Made> StrandLine::TryBlock(const Deadline& deadline) {
  Made made;
  HR_RETURN_IF_ERROR(Settle(deadline));
  if (writer_->ended()) {
    made.ended = true;
    return made;
  }
  if (!feed_) HR_RETURN_IF_ERROR(Restore(deadline));
  const auto end = [&]() -> Status {
    ending_ = true;
    HR_RETURN_IF_ERROR(writer_->End(deadline));
    ending_ = false;
    made.ended = true;
    return {};
  };
  const StrandWriter::Turn turn = writer_->next();
  const StreamInfo& info = lake_.log()->info();
  if ((lake_.kept().blocks != 0 && turn.block >= lake_.kept().blocks) || drawn_ >= TokensOf(lake_, strand())) {
    HR_RETURN_IF_ERROR(end());
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
      HR_RETURN_IF_ERROR(end());
      return made;
    }
    const auto find = [&](const Sequence&, const SampleRef& ref) -> const HeldSample& { return feed_->Find(ref); };
    HR_ASSIGN_OR_RETURN(std::vector<Body> cells, constructor.Build(*plan, find, i, lineage));
    HR_RETURN_IF_ERROR(chunk.AddStep(std::move(cells)));
    feed_->Retain(planner_->Carried());
    made.Add(*plan);
  }
  made.bytes = chunk.bytes();
  HR_RETURN_IF_ERROR(PutLineage(lineage, *mixture, deadline));
  const uint64_t drawn = std::accumulate(made.tokens.begin(), made.tokens.end(), drawn_);
  const std::string state = Json{{"feed", feed_->State()}, {"plan", planner_->State()}, {"tokens", drawn}}.dump();
  HR_RETURN_IF_ERROR(writer_->Append(turn, chunk, Bytes::FromString(state), deadline));
  HR_RETURN_IF_ERROR(feed_->Committed());
  drawn_ = drawn;
  made.AddSkipped(feed_->TakeSkipped());
  return made;
}

Result<StrandLine::Made> StrandLine::Finish(const Deadline& deadline) {
  Result<Made> made = TryFinish(deadline);
  if (!made.ok()) writer_->Release();
  return made;
}

Result<StrandLine::Made> StrandLine::TryFinish(const Deadline& deadline) {
  const StreamInfo& info = lake_.log()->info();
  const Recipe& recipe = lake_.recipe();
  Made made;
  made.ended = true;
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, lake_.log()->Refresh(deadline));
  if (state->manifest.finished) return made;
  HR_RETURN_IF_ERROR(Settle(deadline));
  state = lake_.log()->known();
  HR_ASSIGN_OR_RETURN(std::shared_ptr<const StreamMixture> mixture, lake_.Mixture(writer_->next().mixture, deadline));

  ChunkBuilder chunk(info, {});
  std::vector<LineageRow> lineage;
  const Constructor constructor(recipe, lake_.layout());
  std::vector<Place> strands;
  const auto find = [&](const Sequence& sequence, const SampleRef& ref) -> const HeldSample& {
    return strands[sequence.tag].feed->Find(ref);
  };
  LastSteps last{recipe, mixture->sources.size(), mixture->mix, lake_.Cost(), state->manifest.frontier_step};
  // Where `until` says how many steps there are, the strands have made them; unless the lake was too small for so many.
  if (lake_.kept().blocks != 0) {
    const uint64_t wanted = info.blocks.FirstStep(lake_.kept().blocks);
    last.most = wanted - std::min(wanted, last.frontier);
  }
  const auto open = [&](uint16_t strand) -> Result<EndingStrand> {
    HR_RETURN_IF_ERROR(deadline.Check(lake_.log()->clock(), "packing what the strands have left"));
    HR_ASSIGN_OR_RETURN(std::optional<Bytes> footer, StrandWriter::StateOf(*lake_.log(), strand, deadline));
    HR_ASSIGN_OR_RETURN(Place at, Resume(lake_, strand, footer, *mixture, deadline));
    const bool had_its_tokens = at.drawn >= TokensOf(lake_, strand);
    strands.push_back(std::move(at));
    return EndingStrand{strands.back().feed.get(), strands.back().planner.get(),
                        info.blocks.FirstStep(state->manifest.strands[strand].next_block), had_its_tokens};
  };
  const auto take = [&](const StepPlan& plan) -> Status {
    HR_ASSIGN_OR_RETURN(std::vector<Body> cells, constructor.Build(plan, find, made.steps, lineage));
    HR_RETURN_IF_ERROR(chunk.AddStep(std::move(cells)));
    made.Add(plan);
    return {};
  };
  HR_RETURN_IF_ERROR(PlanLastSteps(last, static_cast<uint16_t>(info.strands), open, take));
  if (last.frontier + made.steps == 0) {
    return LessThanAStep(recipe, Cat("Nothing was made; the stream has noted the files and the recipe, so then ",
                                     HowToDelete(lake_.log()->store()), " before you start again"));
  }
  for (const Place& at : strands) made.AddSkipped(at.feed->TakeSkipped());
  made.bytes = chunk.bytes();
  if (made.steps > 0) HR_RETURN_IF_ERROR(PutLineage(lineage, *mixture, deadline));
  HR_RETURN_IF_ERROR(writer_->Finish(chunk, deadline));
  return made;
}

}  // namespace headrace
