// Creating a stream, and finding the newest manifest of one that is there.
#include "base/text.h"
#include "store/create.h"
#include "stream/stream_log.h"

namespace headrace {
namespace {

constexpr std::string_view kInfoKey = "stream.json";

Status AlreadyThere(const ObjectStore& store) {
  return {Code::kConflict, Cat("there is a stream at ", store.Describe(), " already")};
}

// A stream that has lost its stream.json is damaged, but may be whole otherwise; another one in its place would be the end of it.
Status CheckNoLog(ObjectStore& store, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(const ListPage page, store.List({.prefix = "log/", .limit = 1}, deadline));
  if (page.entries.empty()) return {};
  HR_ASSIGN_OR_RETURN(const std::optional<Object> info, store.Get(std::string(kInfoKey), deadline));
  if (info) return AlreadyThere(store);
  return {Code::kCorrupt,
          Cat("there was a stream at ", store.Describe(), ": its log is there, but ", store.Describe(std::string(kInfoKey)),
              " is gone. Put that object back, as it was, and all is well again; a new stream goes to another place, or to this "
              "one once all that is left of the old one was deleted")};
}

}  // namespace

Result<std::shared_ptr<StreamLog>> StreamLog::Create(StreamInfo info, StreamContext context, const Deadline& deadline) {
  HR_RETURN_IF_ERROR(info.Check());
  Random random = context.random.Fork("create");
  Clock& clock = context.executor->clock();
  HR_RETURN_IF_ERROR(CheckNoLog(*context.store, deadline));
  HR_ASSIGN_OR_RETURN(CreateResult created,
                      headrace::Create(*context.store, std::string(kInfoKey), Body(info.ToJson()), deadline, clock, random));
  if (created.kind == CreateResult::kUnknown) return Status(Code::kOutcomeUnknown, created.reason.message());
  if (created.kind == CreateResult::kLost) {
    return AlreadyThere(*context.store);
  }
  Manifest first = Manifest::First(info, random.Next());
  std::string encoded = first.Encode();
  HR_ASSIGN_OR_RETURN(created, headrace::Create(*context.store, SlotKey(0), Body(encoded), deadline, clock, random));
  if (created.kind == CreateResult::kUnknown) return Status(Code::kOutcomeUnknown, created.reason.message());
  // Whoever opened the stream before its first manifest was there may have written it; it says the same.
  return Open(std::move(context), deadline);
}

Result<std::shared_ptr<StreamLog>> StreamLog::Open(StreamContext context, const Deadline& deadline) {
  std::optional<uint64_t> hint;
  Result<std::optional<Object>> read = std::optional<Object>();
  Status hinted;
  {
    TaskGroup beside(*context.executor);
    beside.Spawn([&] {
      Result<std::optional<uint64_t>> found = Log::ReadHint(*context.store, deadline);
      if (found.ok()) hint = *found;
      hinted = std::move(found).status();
    });
    read = context.store->Get(std::string(kInfoKey), deadline);
    beside.Wait();
  }
  HR_ASSIGN_OR_RETURN(std::optional<Object> json, std::move(read));
  if (!json) return Status(Code::kNotFound, Cat("there is no stream at ", context.store->Describe()));
  Result<StreamInfo> info = StreamInfo::FromJson(json->bytes.AsText());
  if (!info.ok()) return info.status().Annotate(context.store->Describe(std::string(kInfoKey)));
  HR_RETURN_IF_ERROR(hinted);
  std::shared_ptr<StreamLog> stream(new StreamLog(*std::move(info), std::move(context), nullptr));
  HR_ASSIGN_OR_RETURN(std::optional<Slot> slot, stream->log_.FindNewest(hint, deadline));
  if (!slot) {
    // Its creator died between the two writes. Anybody can write the first manifest: it holds nothing but what stream.json says.
    Random random = stream->context_.random.Fork("first");
    std::string encoded = Manifest::First(stream->info_, random.Next()).Encode();
    HR_ASSIGN_OR_RETURN(CreateResult created,
                        headrace::Create(stream->store(), SlotKey(0), Body(encoded), deadline, stream->clock(), random));
    if (created.kind == CreateResult::kUnknown) return Status(Code::kUnavailable, created.reason.message());
    HR_ASSIGN_OR_RETURN(slot, stream->log_.FindNewest(std::nullopt, deadline));
    if (!slot)
      return Status(Code::kCorrupt,
                    Cat("the log of ", stream->store().Describe(), " is empty although its first manifest was written"));
  }
  HR_ASSIGN_OR_RETURN(StatePtr state, stream->Decode(slot->number, std::move(slot->body)));
  HR_RETURN_IF_ERROR(stream->Learn(std::move(state)));
  return stream;
}

}  // namespace headrace
