// A stream from a program: stream_example s3://bucket/prefix, or any other URI of docs/guide/stores.md.
//
// Two threads append global batches, each through a strand of its own; a rank reads its lanes; a checkpoint pins what it needs, and the
// rest is given back.

#include <headrace/stream.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <numeric>
#include <thread>

using namespace headrace;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t kLanes = 4;
constexpr uint16_t kStrands = 2;
constexpr uint64_t kBlocks = 12;  // of 4 steps each

// One lane of one step: 8 tokens, counted through the whole stream.
CellArrays MakeCell(uint64_t step, uint32_t lane) {
  std::vector<int32_t> tokens(8);
  std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>((step * kLanes + lane) * tokens.size()));
  return {Array{Dtype::kI32, {tokens.size()}, Bytes::Copy(std::as_bytes(std::span(tokens)))}};
}

// A strand's blocks, from where whoever had the strand before has stopped.
Status Produce(Stream stream, uint16_t strand, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::unique_ptr<StrandWriter> writer, stream.Take(strand, deadline));
  while (writer->next().block < kBlocks) {
    const StrandWriter::Turn turn = writer->next();
    std::vector<std::vector<CellArrays>> steps(turn.steps);
    for (uint32_t i = 0; i < turn.steps; ++i) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) steps[i].push_back(MakeCell(turn.block * turn.steps + i, lane));
    }
    // What the next owner of the strand must know; it becomes durable together with the steps.
    Bytes state = Bytes::FromString("after block " + std::to_string(turn.block));
    HR_RETURN_IF_ERROR(writer->Append(turn, steps, std::move(state), deadline));
  }
  return writer->End(deadline);
}

// What one of two ranks sees: half of the lanes of every step, a block in one request.
Status Consume(const Stream& stream, uint32_t rank, uint64_t from, const Deadline& deadline) {
  const uint32_t first = rank * kLanes / 2, end = (rank + 1) * kLanes / 2;
  std::unique_ptr<StreamReader> reader = stream.Reader();
  uint64_t step = from;
  int64_t sum = 0;
  while (true) {
    HR_ASSIGN_OR_RETURN(bool there, reader->WaitFor(step, deadline));
    if (!there) break;  // sealed: all ranks end here
    HR_ASSIGN_OR_RETURN(StreamReader::Block block, reader->ReadBlock(step, first, end, deadline));
    for (; step < block.entry.end_step(); ++step) {
      for (uint32_t lane = first; lane < end; ++lane) {
        HR_ASSIGN_OR_RETURN(CellArrays cell, reader->CellOf(block, step, lane));
        std::vector<int32_t> tokens(cell[0].elements());
        std::memcpy(tokens.data(), cell[0].bytes.data(), cell[0].bytes.size());
        sum = std::accumulate(tokens.begin(), tokens.end(), sum);
      }
    }
  }
  std::cout << "rank " << rank << " read steps " << from << " to " << step - 1 << "; its tokens sum to " << sum << "\n";
  return {};
}

Status Tour(const std::string& uri) {
  const Deadline deadline = Deadline::After(RealClock(), 5min);
  StreamOptions options{
      .lanes = kLanes, .strands = kStrands, .blocks = BlockSizes::Even(4), .columns = {{"tokens", Dtype::kI32}}};
  HR_ASSIGN_OR_RETURN(Stream stream, Stream::Create(uri, options, deadline));

  Status produced[kStrands];
  {
    std::vector<std::jthread> threads;
    for (uint16_t strand = 0; strand < kStrands; ++strand) {
      threads.emplace_back([&, strand] { produced[strand] = Produce(stream, strand, deadline); });
    }
  }
  for (Status& status : produced) HR_RETURN_IF_ERROR(status);

  // A training job's checkpoint at step 20 needs nothing before it.
  HR_RETURN_IF_ERROR(stream.Pin("ckpt-20", 20, deadline));
  HR_ASSIGN_OR_RETURN(Collected collected, stream.Collect({.grace = 0s}, deadline));
  std::cout << "gave back " << collected.chunks << " chunks before step " << collected.trim_step << "\n";

  // Both strands have ended; whoever has one of them seals the stream.
  HR_ASSIGN_OR_RETURN(std::unique_ptr<StrandWriter> last, stream.Take(0, deadline));
  HR_RETURN_IF_ERROR(last->Finish(deadline));

  // Any process that knows the URI can read.
  HR_ASSIGN_OR_RETURN(Stream opened, Stream::Open(uri, deadline));
  HR_ASSIGN_OR_RETURN(Stream::Extent extent, opened.Refresh(deadline));
  std::cout << "steps " << extent.trim << " to " << extent.steps - 1 << (extent.sealed ? ", sealed\n" : "\n");
  for (uint32_t rank = 0; rank < 2; ++rank) HR_RETURN_IF_ERROR(Consume(opened, rank, extent.trim, deadline));
  return opened.Unpin("ckpt-20", deadline);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: stream_example URI\n";
    return 2;
  }
  Status status = Tour(argv[1]);
  if (status.ok()) return 0;
  std::cerr << "stream_example: " << status.message() << "\n";
  return 1;
}
