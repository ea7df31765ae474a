// A stream: one totally ordered sequence of steps under a prefix of a store.
//
// A step is one global batch, cut into lanes; each lane of a step is a cell with the stream's columns. Writers append blocks of steps
// through strands; each strand has one writer at a time, and any process may take it over. Whatever crashes or races: a step
// is visible whole or not at all, steps are dense, and every reader sees the same bytes for the same step.
//
//   HR_ASSIGN_OR_RETURN(Stream stream, Stream::Create("/data/live", {.lanes = 8, .strands = 4, .columns = {{"tokens"}}}, deadline));
//   HR_ASSIGN_OR_RETURN(std::unique_ptr<StrandWriter> writer, stream.Take(0, deadline));  // headrace/strand_writer.h
//   std::unique_ptr<StreamReader> reader = stream.Reader();                               // headrace/stream_reader.h
//
// examples/cpp has a whole program, docs/guide/streams.md the same from the shell.
//
// Thread-safe; copies are the same stream. Holds one manifest (64 KiB at the most) and a few pieces of the index, however long the stream is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/blocks.h"
#include "headrace/deadline.h"
#include "headrace/result.h"
#include "headrace/retention.h"
#include "headrace/store.h"
#include "headrace/strand_writer.h"
#include "headrace/stream_info.h"
#include "headrace/stream_reader.h"

namespace headrace {

// What a new stream shall be like. Lanes, strands, order, blocks and columns are fixed for its life.
struct StreamOptions {
  uint32_t lanes = 1;  // shares of a step: readers that take equal shares are a divisor of this
  uint32_t strands = 1;  // the most writers that can ever work at once
  Order order = Order::kPlanned;
  BlockSizes blocks = {};  // how many steps are committed together
  std::vector<Column> columns = {};
  std::string recipe_hash = {};  // of whatever decides the content; empty where nothing does

  StorageOptions storage = {};
  // Tries first whether the store keeps its promises (docs/guide/stores.md), and refuses one that does not. Some 2,000 small requests.
  bool probe = true;
  // Called from the caller's thread while that goes on.
  std::function<void(std::string_view title, int done, int of)> on_probe = {};
};

class Stream {
 public:
  // Which steps can be read: [trim, steps).
  struct Extent {
    uint64_t trim = 0;  // those before were given up
    uint64_t steps = 0;
    bool sealed = false;  // no step will follow
  };

  // kConflict: there is a stream already. The reason in words: the store failed its probe.
  static Result<Stream> Create(const std::string& uri, const StreamOptions& options, const Deadline& deadline);
  // kNotFound: there is none. A hint, a probe, and one get.
  static Result<Stream> Open(const std::string& uri, const Deadline& deadline, const StorageOptions& storage = {});

  const StreamInfo& info() const;
  std::string Describe() const;  // its URI

  // How far the stream is. Asks the store.
  Result<Extent> Refresh(const Deadline& deadline);

  // Takes the strand, from whoever has it; that one is fenced.
  Result<std::unique_ptr<StrandWriter>> Take(uint16_t strand, const Deadline& deadline);
  // Several readers of one stream share what they learn about it.
  std::unique_ptr<StreamReader> Reader() const;

  // Holds a step and all that follow; a pin that is there already is moved. kTrimmed: the step was given up before.
  // `instead_of`: lets go of another pin in the same commit, as a checkpoint that replaces one does.
  Status Pin(const std::string& name, uint64_t step, const Deadline& deadline, const std::string& instead_of = {});
  // kNotFound: there is no such pin.
  Status Unpin(const std::string& name, const Deadline& deadline);
  Result<std::vector<headrace::Pin>> Pins(const Deadline& deadline);

  // Gives back what no pin needs, and what crashes left. Any number may run at once, and be killed.
  Result<Collected> Collect(const CollectOptions& options, const Deadline& deadline);

  // For the other parts of Headrace.
  explicit Stream(std::shared_ptr<StreamLog> log) : log_(std::move(log)) {}
  const std::shared_ptr<StreamLog>& log() const { return log_; }

 private:
  std::shared_ptr<StreamLog> log_;
};

}  // namespace headrace
