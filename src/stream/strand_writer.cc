#include "stream/strand_writer.h"

#include "base/text.h"
#include "store/create.h"
#include "stream/cell.h"
#include "stream/rules.h"

namespace headrace {
namespace {

Status NoStrand(const StreamLog& log, uint16_t strand) {
  return Status(Code::kInvalidArgument, Cat("the stream has ", log.info().strands, " strands; there is no strand ", strand));
}

// The state in the footer of the strand's last chunk.
Result<std::optional<Bytes>> ReadState(StreamLog& log, const Manifest& manifest, uint16_t strand, const Deadline& deadline) {
  std::optional<ChunkName> last = manifest.LastChunk(strand);
  if (!last) return std::optional<Bytes>();
  const Strand& row = manifest.strands[strand];
  std::string key = last->Key();
  GetOptions options{.range = ByteRange::At(row.last_bytes - row.last_footer_bytes, row.last_footer_bytes)};
  HR_ASSIGN_OR_RETURN(std::optional<Object> footer, log.store().Get(key, options, deadline));
  if (!footer)
    return Status(Code::kCorrupt, Cat("the last chunk of strand ", strand, ", ", log.store().Describe(key), ", is gone"));
  HR_ASSIGN_OR_RETURN(Bytes state, DecodeFooter(footer->bytes, log.info().uuid, *last, log.store().Describe(key)));
  return std::optional(std::move(state));
}

}  // namespace

Result<std::unique_ptr<StrandWriter>> StrandWriter::Take(std::shared_ptr<StreamLog> log, uint16_t strand,
                                                         const Deadline& deadline) {
  if (strand >= log->info().strands) return NoStrand(*log, strand);
  std::unique_ptr<StrandWriter> writer(new StrandWriter(std::move(log), strand));
  HR_RETURN_IF_ERROR(writer->Bump(std::nullopt, deadline));
  return writer;
}

Status StrandWriter::Bump(std::optional<uint32_t> own_epoch, const Deadline& deadline) {
  const Rules& rules = log_->context().rules;
  StreamLog::StatePtr state;
  while (true) {
    HR_ASSIGN_OR_RETURN(state, log_->Refresh(deadline));
    if (state->manifest.finished)
      return Status(Code::kConflict, Cat("the stream ", log_->store().Describe(), " is sealed: no step can follow"));
    BumpEdit edit{log_->info().uuid, strand_, own_epoch.value_or(state->manifest.strands[strand_].epoch), log_->owner()};
    Result<StreamLog::StatePtr> committed = log_->Commit(edit, deadline);
    if (committed.ok()) {
      state = *committed;
      break;
    }
    if (committed.code() != Code::kFenced || own_epoch) return std::move(committed).status();
    // Somebody else bumped it first. Whoever asks for a strand wants it, so ask again; the last one has it.
  }
  const Strand& row = state->manifest.strands[strand_];
  if (row.owner != log_->owner()) return Status(Code::kFenced, Cat("strand ", strand_, " was taken by another process"));
  undecided_ = true;  // until the state is known that goes with the new epoch
  reserved_.reset();
  epoch_ = row.epoch;
  seq_ = row.next_seq;
  block_ = row.next_block;
  link_ = row.link;
  ended_ = row.ended;
  if (!state_ || rules.Holds(StreamRule::kResumeFromFooter)) {
    HR_ASSIGN_OR_RETURN(state_, ReadState(*log_, state->manifest, strand_, deadline));
  }
  undecided_ = false;
  return {};
}

const ChunkName& StrandWriter::Reserve() {
  if (!reserved_) reserved_ = {strand_, epoch_, seq_, log_->NewNonce()};
  return *reserved_;
}

Result<std::optional<Bytes>> StrandWriter::StateOf(StreamLog& log, uint16_t strand, const Deadline& deadline) {
  if (strand >= log.info().strands) return NoStrand(log, strand);
  return ReadState(log, log.known()->manifest, strand, deadline);
}

Status StrandWriter::Rebuild(const Deadline& deadline) { return Bump(epoch_, deadline); }

StrandWriter::Turn StrandWriter::next() const {
  StreamLog::StatePtr state = log_->known();
  const StreamInfo& info = log_->info();
  if (info.order == Order::kArrival) return {0, 0, state->manifest.MixtureOf(state->manifest.frontier_block)};
  return {block_, info.blocks.Steps(block_), state->manifest.MixtureOf(block_)};
}

Status StrandWriter::Store(const ChunkName& name, const Body& body, const Deadline& deadline) {
  Random random(name.nonce);
  HR_ASSIGN_OR_RETURN(CreateResult created, Create(log_->store(), name.Key(), body, deadline, log_->clock(), random));
  if (created.kind == CreateResult::kCreated) return {};
  if (created.kind == CreateResult::kLost) {
    return Status(Code::kCorrupt,
                  Cat("the chunk ", log_->store().Describe(name.Key()), " holds other bytes than were just written"));
  }
  // The commit was not tried, so the chunk can only become an orphan.
  return Status(Code::kUnavailable, Cat("cannot write ", log_->store().Describe(name.Key()), ": ", created.reason.message()));
}

Status StrandWriter::AppendChunk(const Turn& turn, ChunkBuilder& chunk, Bytes state, bool finish, const Deadline& deadline) {
  ChunkEdit edit;
  edit.uuid = log_->info().uuid;
  edit.name = attempted_ = Reserve();
  reserved_.reset();
  edit.prev = link_;
  edit.block = turn.block;
  edit.mixture = turn.mixture;
  Bytes kept = state;
  ChunkBuilder::Finished finished = chunk.Finish(edit, std::move(state));
  finished.edit.finish = finish;
  HR_RETURN_IF_ERROR(Store(finished.edit.name, finished.body, deadline));
  undecided_ = true;
  HR_RETURN_IF_ERROR(log_->Commit(finished.edit, deadline).status());
  undecided_ = false;
  link_ = NextLink(finished.edit);
  ++seq_;
  block_ += log_->info().strands;
  state_ = std::move(kept);
  return {};
}

Status StrandWriter::Append(const Turn& turn, ChunkBuilder& chunk, Bytes state, const Deadline& deadline) {
  if (undecided_)
    return Status(Code::kInvalidArgument,
                  "the chunk before was not acknowledged: call Rebuild, and make the block that it says is next");
  if (chunk.steps() == 0) return Status(Code::kInvalidArgument, "a chunk needs at least one step");
  if (turn.steps != 0 && chunk.steps() != turn.steps && log_->context().rules.Holds(StreamRule::kStepsByBlock)) {
    return Status(Code::kInvalidArgument, Cat("block ", turn.block, " has ", turn.steps, " steps, not ", chunk.steps()));
  }
  return AppendChunk(turn, chunk, std::move(state), /*finish=*/false, deadline);
}

Status StrandWriter::Append(const Turn& turn, std::span<const std::vector<CellArrays>> steps, Bytes state,
                            const Deadline& deadline, const ChunkOptions& options) {
  ChunkBuilder chunk(log_->info(), options);
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<Body> cells;
    for (size_t lane = 0; lane < steps[i].size(); ++lane) {
      Result<Body> cell = BuildCell(steps[i][lane], log_->info().columns);
      if (!cell.ok()) return cell.status().Annotate(Cat("step ", i, " of the block, lane ", lane));
      cells.push_back(*std::move(cell));
    }
    HR_RETURN_IF_ERROR(chunk.AddStep(std::move(cells)));
  }
  return Append(turn, chunk, std::move(state), deadline);
}

Status StrandWriter::End(const Deadline& deadline) {
  EndEdit edit{log_->info().uuid, strand_, epoch_, link_, block_};
  HR_RETURN_IF_ERROR(log_->Commit(edit, deadline).status());
  link_ = NextLink(edit);
  ended_ = true;
  return {};
}

Status StrandWriter::Finish(const Deadline& deadline) {
  ChunkBuilder nothing(log_->info(), {});
  return Finish(nothing, deadline);
}

Status StrandWriter::Finish(ChunkBuilder& chunk, const Deadline& deadline) {
  if (chunk.steps() == 0) return log_->Commit(FinishEdit{log_->info().uuid}, deadline).status();
  return AppendChunk(next(), chunk, {}, /*finish=*/true, deadline);
}

}  // namespace headrace
