// One strand's view of all sources: the samples in order, and their contents for as long as the plan carries them.
//
// Where it stands is a position per source. Carried samples are remembered as references with a checksum of their contents: who reads one again after
// a take-over and gets other contents has a transform that is not deterministic, or a file that changed.
//
// Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/feed.h"
#include "produce/rows.h"
#include "produce/sources.h"

namespace headrace {

// Part of a window with its columns found.
struct OpenPart {
  std::shared_ptr<arrow::RecordBatch> rows;
  std::shared_ptr<const void> counted;  // that its memory is in use
  std::optional<RowColumn> tokens, loss_mask;
  std::vector<RowColumn> kept;  // as the recipe's columns are ordered
  std::vector<RowColumn> numbers;  // NumberColumns
  std::optional<RowColumn> file, row;
};

struct OpenWindow {
  std::shared_ptr<const Window> window;
  std::vector<std::shared_ptr<const OpenPart>> parts;
  std::vector<uint32_t> first;  // row of each part
};

// Holds its part of a window and nothing else of it.
struct HeldSample {
  std::shared_ptr<const OpenPart> part;
  int64_t row = 0;  // of the part
};

class StrandFeed final : public SampleFeed {
 public:
  // `kept` are the columns that samples bring beside their tokens.
  StrandFeed(const Recipe& recipe, const Sources& sources, std::vector<std::string> kept, uint16_t strand,
             const Deadline& deadline);

  using SampleFeed::Next;
  Result<bool> Next(uint16_t source, SampleInfo& sample) override;
  Result<SampleInfo> Again(const SampleRef& ref) override;

  // A sample that was handed out and is still held.
  const HeldSample& Find(const SampleRef& ref) const { return held_.at(ref); }
  // Lets go of all samples but these.
  void Retain(std::span<const SampleRef> carried);
  // What was drawn so far is in the stream, but for what is still held: windows that nobody will ask for again are given back, and the others closed.
  Status Committed();
  // Keeps the held samples and no other memory; drawing goes on all the same.
  void CloseWindows();

  // Bad samples by source, in the windows that were begun since the last call.
  std::vector<uint64_t> TakeSkipped() { return std::exchange(skipped_, {}); }

  nlohmann::json State() const;
  Status Restore(const nlohmann::json& state);

 private:
  struct Cursor {
    Position at;
    bool ended = false;
    bool anything = false;  // in this epoch
    uint64_t skipped = 0;  // bad rows of this epoch, in the windows before this one: who takes over counts on from there
    // Of the group that the last, partial epoch ends in: rows of its pieces before this one, and how many of them were drawn.
    uint64_t seen = 0, drawn = 0;
    std::shared_ptr<const OpenWindow> window;
    uint32_t most = 0;  // how many samples of the window are drawn
    std::optional<EpochCut> cut;  // of the last epoch, if that is a partial one
  };
  double Epochs(size_t source) const;  // how many it has; infinite if it is repeated for ever
  // Where the source's epochs end, if they end inside of the one that it is in.
  const EpochCut* CutOf(size_t source);
  bool HadItsEpochs(size_t source);
  bool EveryoneHadTheirs();
  uint32_t Most(size_t source, const OpenWindow& window);
  Result<std::shared_ptr<const OpenWindow>> Open(size_t source, const Position& at);
  Result<std::shared_ptr<const OpenPart>> OpenRows(size_t source, std::shared_ptr<arrow::RecordBatch> batch,
                                                   std::shared_ptr<const void> counted) const;
  // Where memory is scarce: copies held samples out of their windows, and closes those.
  Status Shrink();
  void Hold(const SampleRef& ref, const OpenWindow& window, SampleInfo& info);
  uint32_t Checksum(const HeldSample& sample) const;

  const Recipe& recipe_;
  const Sources& sources_;
  const std::vector<std::string> kept_;
  const uint16_t strand_;
  const Deadline deadline_;
  std::vector<Cursor> cursors_;
  std::map<SampleRef, HeldSample> held_;
  std::vector<SampleRef> in_windows_;  // those of them that hold on to a part of a window
  std::map<SampleRef, uint32_t> expected_;  // checksums of carried samples, from the state
  std::shared_ptr<const OpenWindow> again_;  // that the last carried sample was found in: its neighbours follow
  SampleRef again_at_;
  std::vector<SampleRef> through_;  // windows that were drawn to their end
  std::vector<uint64_t> skipped_;  // bad samples by source, not yet taken
};

}  // namespace headrace
