// The production line of one strand: draws, plans, builds and commits one block after the other.
//
// Everything it needs to go on stands in the footer of the strand's last chunk, so that a line can be dropped at any moment and begun anew by anybody.
//
// Not thread-safe; one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "plan/planner.h"
#include "produce/lake_stream.h"
#include "produce/lineage.h"
#include "produce/strand_feed.h"
#include "stream/strand_writer.h"

namespace headrace {

class StrandLine {
 public:
  // Takes the strand, from whoever has it. Reads nothing of the lake: that is the first block's.
  static Result<std::unique_ptr<StrandLine>> Take(LakeStream& lake, uint16_t strand, const Deadline& deadline);

  uint16_t strand() const { return writer_->strand(); }
  uint64_t next_block() const { return writer_->next().block; }
  bool ended() const { return writer_->ended(); }

  // What became of a block, for progress and metrics.
  struct Made {
    uint32_t steps = 0;
    uint64_t bytes = 0;
    uint64_t padding = 0;
    double spread = 1;  // worst of its steps, after balancing
    std::vector<uint64_t> tokens, samples;  // by source
    std::vector<uint64_t> skipped;  // bad samples that were left out, by source
    bool ended = false;  // nothing was made: the strand has run dry, and END is committed

    void Add(const StepPlan& plan);
    void AddSkipped(const std::vector<uint64_t>& more);
  };
  // kFenced: another process has the strand now. Anything else but kCancelled may be tried again, and begins at what is committed then. A try commits
  // nothing beside its block, unless the try before it had something in the air: then the strand gets a new epoch first.
  Result<Made> MakeBlock(const Deadline& deadline);

  // Packs what all ended strands have left into the last steps and seals the stream. kInvalidArgument if it has not a single one. May be tried again.
  Result<Made> Finish(const Deadline& deadline);

 private:
  explicit StrandLine(LakeStream& lake) : lake_(lake) {}
  // Goes back to what is committed, if the try before failed.
  Status Settle(const Deadline& deadline);
  Status Restore(const Deadline& deadline);
  Result<Made> TryBlock(const Deadline& deadline);
  Result<Made> TryFinish(const Deadline& deadline);
  Status PutLineage(const std::vector<LineageRow>& rows, const StreamMixture& mixture, const Deadline& deadline);

  LakeStream& lake_;
  std::unique_ptr<StrandWriter> writer_;
  bool ending_ = false;  // END was posted, and nobody has said what became of it
  std::unique_ptr<StrandFeed> feed_;  // none before the first block, and after a failure
  std::unique_ptr<Planner> planner_;
  uint64_t drawn_ = 0;  // tokens of all its blocks
};

}  // namespace headrace
