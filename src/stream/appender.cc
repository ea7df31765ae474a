#include "stream/appender.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/text.h"
#include "store/create.h"

namespace headrace {
namespace {

using nlohmann::json;

constexpr std::string_view kClaims = "sources/";
constexpr int kMostLosses = 40;
constexpr int kMostConflicts = 20;
constexpr Duration kShortestPause = std::chrono::milliseconds(10);
constexpr Duration kLongestPause = std::chrono::seconds(1);

std::string ClaimKey(const std::string& source) { return std::string(kClaims) + PercentEncode(source); }

// The counts in a strand's state; nothing if it is not of our making.
std::optional<std::map<std::string, uint64_t>> ReadCounts(const std::optional<Bytes>& state) {
  std::map<std::string, uint64_t> counts;
  if (!state || state->empty()) return counts;
  json document = json::parse(state->AsText(), nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("others") || !document["others"].is_object()) return std::nullopt;
  for (const auto& item : document["others"].items()) {
    if (!item.value().is_number_unsigned()) return std::nullopt;
    counts[item.key()] = item.value().get<uint64_t>();
  }
  if (!document.contains("source")) return counts;
  if (!document["source"].is_string() || !document.contains("done") || !document["done"].is_number_unsigned())
    return std::nullopt;
  counts[document["source"].get<std::string>()] = document["done"].get<uint64_t>();
  return counts;
}

Status NotOurs(uint16_t strand) {
  return Status(Code::kConflict,
                Cat("strand ", strand, " holds the state of another program, which would be lost: name another strand"));
}

}  // namespace

Appender::Appender(std::shared_ptr<StreamLog> log, AppendOptions options)
    : log_(std::move(log)), options_(std::move(options)), random_(Random::FromEntropy()) {}

Result<uint64_t> Appender::Foresee(const Deadline& deadline) {
  HR_RETURN_IF_ERROR(CheckOpen(deadline));
  if (options_.source.empty()) return 0;
  std::vector<uint16_t> strands;
  if (planned() && !options_.strand) {
    for (uint16_t v = 0; v < log_->info().strands; ++v) strands.push_back(v);
  } else {
    HR_ASSIGN_OR_RETURN(auto claims, Claims(deadline));
    auto claim = claims.find(ClaimKey(options_.source));
    if (claim != claims.end()) strands.push_back(claim->second);
  }
  uint64_t done = 0;
  for (uint16_t strand : strands) {
    Result<std::optional<Bytes>> state = StrandWriter::StateOf(*log_, strand, deadline);
    if (!state.ok()) continue;  // what is wrong shows when the strand is taken
    std::optional<Counts> counts = ReadCounts(*state);
    if (counts && counts->contains(options_.source)) done = std::max(done, counts->at(options_.source));
  }
  return done;
}

Status Appender::CheckOpen(const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->RefreshFully(deadline));
  if (state->manifest.finished)
    return Status(Code::kConflict, Cat("the stream ", log_->store().Describe(), " is sealed: no step can follow"));
  if (options_.strand && *options_.strand >= log_->info().strands) {
    return Status(Code::kInvalidArgument,
                  Cat("there is no strand ", *options_.strand, ": the stream has ", log_->info().strands, ", counted from 0"));
  }
  return {};
}

Result<uint64_t> Appender::Begin(const Deadline& deadline) {
  HR_RETURN_IF_ERROR(CheckOpen(deadline));
  HR_RETURN_IF_ERROR(planned() && !options_.strand ? TakeAll(deadline) : TakeOne(deadline));
  for (const Held& held : held_) done_ = std::max(done_, CountIn(held));
  return done_;
}

Result<Appender::Held> Appender::Take(uint16_t strand, const Deadline& deadline) {
  Held held;
  HR_ASSIGN_OR_RETURN(held.writer, StrandWriter::Take(log_, strand, deadline));
  if (held.writer->ended()) return Status(Code::kConflict, Cat("strand ", strand, " has ended: nothing can follow on it"));
  std::optional<Counts> counts = ReadCounts(held.writer->state());
  if (!counts) return NotOurs(strand);
  held.counts = std::move(*counts);
  return held;
}

Status Appender::TakeAll(const Deadline& deadline) {
  StreamLog::StatePtr state = log_->known();
  // Side by side, so that they share their commits.
  std::vector<std::optional<Result<Held>>> taken(log_->info().strands);
  {
    TaskGroup group(*log_->context().executor);
    for (uint16_t v = 0; v < log_->info().strands; ++v) {
      if (!state->manifest.strands[v].ended) group.Spawn([&, v] { taken[v] = Take(v, deadline); });
    }
  }
  for (auto& held : taken) {
    if (!held) continue;
    if (!held->ok()) return held->status();
    held_.push_back(**std::move(held));
  }
  if (held_.empty()) return Status(Code::kConflict, "all strands have ended: no step can follow");
  return {};
}

Status Appender::TakeOne(const Deadline& deadline) {
  held_.clear();
  uint16_t strand = 0;
  if (!options_.source.empty()) {
    HR_ASSIGN_OR_RETURN(strand, StrandOfSource(deadline));
  } else if (options_.strand) {
    strand = *options_.strand;
  } else {
    HR_ASSIGN_OR_RETURN(strand, Choose(deadline));
  }
  HR_ASSIGN_OR_RETURN(Held held, Take(strand, deadline));
  held_.push_back(std::move(held));
  return {};
}

Result<std::map<std::string, uint16_t>> Appender::Claims(const Deadline& deadline) {
  std::map<std::string, uint16_t> claims;
  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> entries, ListAll(log_->store(), std::string(kClaims), deadline));
  for (const ListEntry& entry : entries) {
    HR_ASSIGN_OR_RETURN(std::optional<Object> object, log_->store().Get(entry.key, deadline));
    if (!object) continue;
    json document = json::parse(object->bytes.AsText(), nullptr, /*allow_exceptions=*/false);
    bool whole = document.is_object() && document.contains("strand") && document["strand"].is_number_unsigned() &&
                 document["strand"].get<uint64_t>() < log_->info().strands;
    if (!whole)
      return Status(Code::kCorrupt,
                    Cat(log_->store().Describe(entry.key), " is damaged: it does not say which strand the source has"));
    claims[entry.key] = document["strand"].get<uint16_t>();
  }
  return claims;
}

Result<uint16_t> Appender::Choose(const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(auto claims, Claims(deadline));
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->Refresh(deadline));
  const std::vector<Strand>& rows = state->manifest.strands;
  std::vector<uint64_t> claimed(rows.size());
  for (const auto& [key, strand] : claims) ++claimed[strand];
  std::optional<uint16_t> best;
  auto rank = [&](uint16_t v) {
    bool taken = rows[v].epoch != 0 || claimed[v] != 0;
    // A source comes to stay, so it goes where the fewest others are; who only passes by looks for whoever has been quiet.
    return std::tuple(lost_ == v, options_.source.empty() ? 0 : claimed[v], taken, rows[v].changed);
  };
  // From a random one on, so that processes that start together do not all come to the same.
  auto first = static_cast<uint16_t>(random_.Below(rows.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    auto v = static_cast<uint16_t>((first + i) % rows.size());
    if (!rows[v].ended && (!best || rank(v) < rank(*best))) best = v;
  }
  if (!best) return Status(Code::kConflict, "all strands have ended: no step can follow");
  return *best;
}

Result<uint16_t> Appender::StrandOfSource(const Deadline& deadline) {
  std::string key = ClaimKey(options_.source);
  HR_ASSIGN_OR_RETURN(auto claims, Claims(deadline));
  if (!claims.contains(key)) {
    uint16_t strand = 0;
    if (options_.strand) {
      strand = *options_.strand;
    } else {
      HR_ASSIGN_OR_RETURN(strand, Choose(deadline));
    }
    json claim = {{"source", options_.source}, {"strand", strand}, {"nonce", random_.Hex(16)}};
    HR_ASSIGN_OR_RETURN(CreateResult created,
                        Create(log_->store(), key, Body(claim.dump() + "\n"), deadline, log_->clock(), random_));
    if (created.kind == CreateResult::kUnknown) return created.reason.Annotate(Cat("cannot write ", log_->store().Describe(key)));
    HR_ASSIGN_OR_RETURN(claims, Claims(deadline));
  }
  uint16_t strand = claims.at(key);
  if (options_.strand && *options_.strand != strand) {
    return Status(Code::kConflict, Cat("the source \"", options_.source, "\" has strand ", strand, " of this stream, not ",
                                       *options_.strand, ": name no strand, or give the source another name"));
  }
  return strand;
}

Appender::Held& Appender::Next() {
  return *std::ranges::min_element(held_, {}, [](const Held& held) { return held.writer->next().block; });
}

Status Appender::Add(std::vector<Body> cells, const Deadline& deadline) {
  waiting_.push_back(std::move(cells));
  uint32_t wanted = planned() ? Next().writer->next().steps : log_->info().blocks.Steps(0);
  return waiting_.size() >= wanted ? Commit(deadline) : Status();
}

Status Appender::Flush(const Deadline& deadline) { return waiting_.empty() || planned() ? Status() : Commit(deadline); }

Status Appender::Seal(const Deadline& deadline) {
  HR_RETURN_IF_ERROR(Flush(deadline));
  if (!waiting_.empty()) {
    return Status(Code::kInvalidArgument, Cat("the last ", waiting_.size(),
                                              " steps do not fill a block of the stream, whose order is planned: append more"));
  }
  for (uint16_t v = 0; v < log_->info().strands; ++v) {
    if (log_->known()->manifest.strands[v].ended) continue;
    auto held = std::ranges::find(held_, v, [](const Held& one) { return one.writer->strand(); });
    if (held != held_.end()) {
      HR_RETURN_IF_ERROR(held->writer->End(deadline));
      continue;
    }
    HR_ASSIGN_OR_RETURN(std::unique_ptr<StrandWriter> writer, StrandWriter::Take(log_, v, deadline));
    HR_RETURN_IF_ERROR(writer->End(deadline));
  }
  held_.clear();
  return log_->Commit(FinishEdit{log_->info().uuid}, deadline).status();
}

Bytes Appender::StateAfter(const Held& held) const {
  json others = json::object();
  for (const auto& [name, count] : held.counts) {
    if (name != options_.source) others[name] = count;
  }
  json state = {{"others", others}};
  if (!options_.source.empty()) {
    state["source"] = options_.source;
    state["done"] = done_ + waiting_.size();
  }
  return Bytes::FromString(state.dump());
}

void Appender::NoteCommitted(Held& held) {
  losses_ = 0;
  done_ += waiting_.size();
  if (!options_.source.empty()) held.counts[options_.source] = done_;
  appended_ += waiting_.size();
  waiting_.clear();
  if (first_step_) return;
  // A block that is parked has no number yet.
  StreamLog::StatePtr state = log_->known();
  auto entry = std::ranges::find(state->manifest.tail, held.writer->attempted(), &Entry::name);
  if (entry != state->manifest.tail.end()) first_step_ = entry->first_step;
}

Status Appender::Commit(const Deadline& deadline) {
  for (int conflicts = 0;;) {
    Held& held = Next();
    ChunkBuilder chunk(log_->info(), options_.chunk);
    for (const std::vector<Body>& step : waiting_) HR_RETURN_IF_ERROR(chunk.AddStep(step));
    StrandWriter::Turn turn = held.writer->next();
    Status status = held.writer->Append(turn, chunk, StateAfter(held), deadline);
    if (status.code() == Code::kOutcomeUnknown) {
      HR_RETURN_IF_ERROR(deadline.Check(log_->clock(), status.message()));
      HR_ASSIGN_OR_RETURN(bool in, FindOut(held, deadline));
      if (!in) continue;
      status = {};
    }
    if (status.ok()) {
      NoteCommitted(held);
      return {};
    }
    if (status.code() == Code::kConflict && ++conflicts < kMostConflicts) {
      status = held.writer->Rebuild(deadline);
      if (status.ok()) continue;
    }
    if (status.code() != Code::kFenced) return status;
    HR_RETURN_IF_ERROR(GoOn(status, deadline));
  }
}

Result<bool> Appender::FindOut(Held& held, const Deadline& deadline) {
  ChunkName chunk = held.writer->attempted();
  uint64_t before = CountIn(held);
  // Under a new epoch it is in by now, or never will be.
  HR_ASSIGN_OR_RETURN(Held again, Take(held.writer->strand(), deadline));
  StreamLog::StatePtr state = log_->known();
  HR_ASSIGN_OR_RETURN(bool in, log_->index().Holds(state->manifest, chunk, deadline));
  held = std::move(again);
  HR_RETURN_IF_ERROR(CheckCount(held, in ? done_ + waiting_.size() : before));
  return in;
}

Status Appender::GoOn(const Status& why, const Deadline& deadline) {
  uint16_t strand = held_.front().writer->strand();
  if (planned()) {
    return Status(Code::kFenced, Cat("another process took a strand (", why.message(),
                                     "); in planned order one process appends, or each has a strand of its own"));
  }
  if (options_.strand && options_.source.empty()) {
    return Status(Code::kFenced, Cat("another process took strand ", strand, ": each process needs a strand of its own"));
  }
  if (++losses_ > kMostLosses) {
    return Status(Code::kFenced, Cat("other processes took the strand ", losses_,
                                     " times in a row: there are more of them than strands (", log_->info().strands, ")"));
  }
  lost_ = strand;
  Duration longest = std::min(kLongestPause, kShortestPause * (int64_t{1} << std::min(losses_, 10)));
  HR_RETURN_IF_ERROR(deadline.Sleep(
      log_->clock(), Duration(static_cast<int64_t>(random_.Uniform() * static_cast<double>(longest.count()))), "take a strand"));
  HR_RETURN_IF_ERROR(TakeOne(deadline));
  return CheckCount(held_.front(), done_);
}

uint64_t Appender::CountIn(const Held& held) const {
  auto count = held.counts.find(options_.source);
  return count == held.counts.end() ? 0 : count->second;
}

Status Appender::CheckCount(const Held& held, uint64_t expected) const {
  uint64_t done = CountIn(held);
  if (options_.source.empty() || done == expected) return {};
  return Status(Code::kFenced, Cat("another process appends the source \"", options_.source, "\" too, and is at step ", done,
                                   " of it: let one of them do it"));
}

}  // namespace headrace
