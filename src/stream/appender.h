// Appends steps that come from outside, each exactly once.
//
// What a source has given so far stands in the footer of its strand's last chunk, so a step and its count become durable in one commit:
//
//   {"source": "rollouts-7", "done": 12, "others": {"rollouts-3": 40}}
//
// `others` are sources that used the strand before; whoever takes it carries them on. Which strand a source has is decided once, by creating
// `sources/<name>`: if two processes begin the same source at the same time, both come to the same strand, where one of them is fenced.
// So a step that was counted is never appended again, whoever is killed when.
//
// In planned order one appender takes all strands and makes the blocks in turn (or one strand, if it is told which); who loses a strand
// stops. In arrival order it takes one strand, and another one if it loses that.
//
// Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "stream/strand_writer.h"

namespace headrace {

struct AppendOptions {
  std::optional<uint16_t> strand;
  std::string source;  // empty: nobody counts
  ChunkOptions chunk;
};

class Appender {
 public:
  Appender(std::shared_ptr<StreamLog> log, AppendOptions options);

  // How many steps of the source are in the stream by all that can be seen without taking anything; there may be more. Fails if nothing can
  // be appended at all.
  Result<uint64_t> Foresee(const Deadline& deadline);

  // Takes what it needs. How many steps of the source are in the stream already.
  Result<uint64_t> Begin(const Deadline& deadline);

  // The next step. Commits when a block is full. kFenced: another process took over for good.
  Status Add(std::vector<Body> cells, const Deadline& deadline);
  // Commits what is left, if the stream's order allows a short block.
  Status Flush(const Deadline& deadline);
  // Flushes, ends every strand, from whoever has it, and seals the stream: no step can follow.
  Status Seal(const Deadline& deadline);

  uint64_t appended() const { return appended_; }  // steps that are in the log
  uint64_t waiting() const { return waiting_.size(); }  // steps that were added and are not
  std::optional<uint64_t> first_step() const { return first_step_; }

 private:
  using Counts = std::map<std::string, uint64_t>;  // by source
  struct Held {
    std::unique_ptr<StrandWriter> writer;
    Counts counts;
  };

  bool planned() const { return log_->info().order == Order::kPlanned; }
  // Fails if the stream is sealed, or has no such strand.
  Status CheckOpen(const Deadline& deadline);
  Result<Held> Take(uint16_t strand, const Deadline& deadline);
  Status TakeAll(const Deadline& deadline);
  Status TakeOne(const Deadline& deadline);
  // Which strand the source has, for ever.
  Result<uint16_t> StrandOfSource(const Deadline& deadline);
  Result<std::map<std::string, uint16_t>> Claims(const Deadline& deadline);
  Result<uint16_t> Choose(const Deadline& deadline);
  // Whose turn it is.
  Held& Next();
  Status Commit(const Deadline& deadline);
  // After the loss of a strand. Ok: another is there.
  Status GoOn(const Status& why, const Deadline& deadline);
  // After an answer that nobody understood: whether the chunk is in.
  Result<bool> FindOut(Held& held, const Deadline& deadline);
  Bytes StateAfter(const Held& held) const;
  void NoteCommitted(Held& held);
  uint64_t CountIn(const Held& held) const;
  // Not ok if somebody else has appended steps of the source since.
  Status CheckCount(const Held& held, uint64_t expected) const;

  std::shared_ptr<StreamLog> log_;
  const AppendOptions options_;
  Random random_;
  std::vector<Held> held_;
  std::optional<uint16_t> lost_;  // the strand that was taken from us last
  int losses_ = 0;  // since the last commit
  uint64_t done_ = 0;  // of the source
  std::vector<std::vector<Body>> waiting_;
  uint64_t appended_ = 0;
  std::optional<uint64_t> first_step_;
};

}  // namespace headrace
