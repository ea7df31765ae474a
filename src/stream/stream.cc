#include "headrace/stream.h"

#include <algorithm>

#include "base/text.h"
#include "store/open.h"
#include "store/probe.h"
#include "stream/collector.h"
#include "stream/stream_log.h"

namespace headrace {
namespace {

StreamContext ContextFor(std::shared_ptr<ObjectStore> store) {
  return {std::move(store), &SharedExecutor(), Random::FromEntropy()};
}

}  // namespace

Result<Stream> Stream::Create(const std::string& uri, const StreamOptions& options, const Deadline& deadline) {
  StreamInfo info;
  info.lanes = options.lanes;
  info.strands = options.strands;
  info.order = options.order;
  info.blocks = options.blocks;
  info.window = std::min(StreamInfo::kMaxStrands, 2 * options.strands);
  info.columns = options.columns;
  info.recipe_hash = options.recipe_hash;
  Random random = Random::FromEntropy();
  for (unsigned char& byte : info.uuid) byte = static_cast<unsigned char>(random.Next());
  HR_RETURN_IF_ERROR(info.Check());

  HR_ASSIGN_OR_RETURN(StoreUri parsed, ParseStoreUri(uri));
  HR_ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenStore(parsed, options.storage, Surroundings::Process()));
  // Before the store is tried at length: there may be a stream already.
  HR_ASSIGN_OR_RETURN(std::optional<Object> there, store->Get("stream.json", deadline));
  if (there) return Status(Code::kConflict, Cat("there is a stream at ", store->Describe(), " already"));
  if (options.probe) {
    HR_ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> once, OpenStoreOnce(parsed, options.storage, Surroundings::Process()));
    ProbeOptions probe;
    probe.on_progress = options.on_probe;
    HR_RETURN_IF_ERROR(RequireSafe(*once, probe, deadline, SharedExecutor(), random.Fork("probe")));
  }
  HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, StreamLog::Create(std::move(info), ContextFor(std::move(store)), deadline));
  return Stream(std::move(log));
}

Result<Stream> Stream::Open(const std::string& uri, const Deadline& deadline, const StorageOptions& storage) {
  HR_ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenStore(uri, storage));
  HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, StreamLog::Open(ContextFor(std::move(store)), deadline));
  return Stream(std::move(log));
}

const StreamInfo& Stream::info() const { return log_->info(); }

std::string Stream::Describe() const { return log_->store().Describe(); }

Result<Stream::Extent> Stream::Refresh(const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->Refresh(deadline));
  const Manifest& manifest = state->manifest;
  return Extent{manifest.trim_step, manifest.frontier_step, manifest.finished};
}

Result<std::unique_ptr<StrandWriter>> Stream::Take(uint16_t strand, const Deadline& deadline) {
  return StrandWriter::Take(log_, strand, deadline);
}

std::unique_ptr<StreamReader> Stream::Reader() const { return std::make_unique<StreamReader>(log_); }

Status Stream::Pin(const std::string& name, uint64_t step, const Deadline& deadline, const std::string& instead_of) {
  return log_->Commit(PinEdit{{name, step, 0, 0}, instead_of}, deadline).status();
}

Status Stream::Unpin(const std::string& name, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->RefreshFully(deadline));
  if (state->manifest.FindPin(name) == nullptr)
    return Status(Code::kNotFound, Cat("there is no pin named \"", name, "\" in ", Describe()));
  return log_->Commit(UnpinEdit{name}, deadline).status();
}

Result<std::vector<headrace::Pin>> Stream::Pins(const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log_->RefreshFully(deadline));
  return state->manifest.pins;
}

Result<Collected> Stream::Collect(const CollectOptions& options, const Deadline& deadline) {
  return Collector(log_).Collect(options, deadline);
}

}  // namespace headrace
