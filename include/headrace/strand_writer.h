// The one writer of a strand.
//
// Taking a strand bumps its epoch by a commit, which fences whoever wrote before, and reads the state in the footer of the strand's last chunk.
// Then: make the block that `next` describes, `Append` it together with the state after it, and so on, until `End`. The state is whatever the
// caller needs to go on after a crash: a position in its input, as a rule.
// State and data become durable in the same commit, so a crash loses both or neither.
//
// Not thread-safe: one writer, one thread. Several writers of one process share their commits if they come from one `Stream`.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "headrace/array.h"
#include "headrace/chunk.h"
#include "headrace/deadline.h"
#include "headrace/result.h"
#include "headrace/store.h"

namespace headrace {

class ChunkBuilder;
class StreamLog;

class StrandWriter {
 public:
  // What to make next.
  struct Turn {
    uint64_t block = 0;  // planned order: the block's number
    uint32_t steps = 0;  // planned order: how many steps it has; 0: as many as you like
    uint32_t mixture = 0;  // to draw it with
  };

  // Takes the strand, from whoever has it. `Stream::Take` is what programs call.
  static Result<std::unique_ptr<StrandWriter>> Take(std::shared_ptr<StreamLog> log, uint16_t strand, const Deadline& deadline);

  // The state after a strand's last chunk by the newest manifest that this process knows, without taking the strand; nothing if it has none.
  static Result<std::optional<Bytes>> StateOf(StreamLog& log, uint16_t strand, const Deadline& deadline);

  uint16_t strand() const { return strand_; }
  uint32_t epoch() const { return epoch_; }
  uint64_t seq() const { return seq_; }  // of the next chunk
  bool ended() const { return ended_; }
  // The state after the last chunk; nothing if the strand has none.
  const std::optional<Bytes>& state() const { return state_; }
  // Judged by the newest manifest that this process knows; a mixture that changes meanwhile makes `Append` say kConflict.
  Turn next() const;

  // Makes a block durable and visible (or parked, until those before it are there). A step has one cell for each lane; its bytes are borrowed,
  // not copied. `turn` is what `next` said before the block was made. Returns when it is in the log.
  //
  // kInvalidArgument: the steps do not fit the turn or the columns; nothing was written. kConflict: the block must be made anew (`Rebuild` first).
  // kFenced: another process has the strand. kOutcomeUnknown: nobody can tell; a new `Take` or `Rebuild` finds out, and `state` tells.
  Status Append(const Turn& turn, std::span<const std::vector<CellArrays>> steps, Bytes state, const Deadline& deadline,
                const ChunkOptions& options = {});
  // The same for a chunk that was put together from stored cells.
  Status Append(const Turn& turn, ChunkBuilder& chunk, Bytes state, const Deadline& deadline);
  // The strand has run dry.
  Status End(const Deadline& deadline);
  // Seals the stream, when all strands have ended: all readers end at the same step.
  Status Finish(const Deadline& deadline);
  // Packs the remainders of all ended strands into a last chunk and seals the stream with it; without steps in `chunk`, only seals.
  Status Finish(ChunkBuilder& chunk, const Deadline& deadline);

  // The name that the next chunk will have; for objects that go with it and must be there first.
  const ChunkName& Reserve();
  // That name will not be used: what was made for it is not made again as it was.
  void Release() { reserved_.reset(); }

  // The chunk that the last `Append` or `Finish` made, whatever became of it.
  const ChunkName& attempted() const { return attempted_; }

  // Before a block is made a second time: whatever was posted of the first try can never be carried from here on.
  Status Rebuild(const Deadline& deadline);
  // Whether that is needed: something was posted, and nobody has said what became of it.
  bool undecided() const { return undecided_; }

 private:
  StrandWriter(std::shared_ptr<StreamLog> log, uint16_t strand) : log_(std::move(log)), strand_(strand) {}
  // Takes the strand from whoever has it, or only from ourselves as we were in `own_epoch`.
  Status Bump(std::optional<uint32_t> own_epoch, const Deadline& deadline);
  Status Store(const ChunkName& name, const Body& body, const Deadline& deadline);
  Status AppendChunk(const Turn& turn, ChunkBuilder& chunk, Bytes state, bool finish, const Deadline& deadline);

  std::shared_ptr<StreamLog> log_;
  const uint16_t strand_;
  uint32_t epoch_ = 0;
  uint64_t seq_ = 0;
  uint64_t block_ = 0;
  std::array<unsigned char, 16> link_{};
  bool ended_ = false;
  bool undecided_ = false;  // something of this epoch may still be carried
  std::optional<Bytes> state_;
  ChunkName attempted_;
  std::optional<ChunkName> reserved_;
};

}  // namespace headrace
