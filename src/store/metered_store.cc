#include "store/metered_store.h"

namespace headrace {

MeteredStore::MeteredStore(std::shared_ptr<ObjectStore> inner, std::string name, Metrics& metrics, Clock& clock)
    : StoreDecorator(std::move(inner)),
      name_(std::move(name)),
      metrics_(metrics),
      clock_(clock),
      read_bytes_(
          metrics.GetCounter("headrace_store_read_bytes_total", "Bytes of objects read from a store.", {{"store", name_}})),
      written_bytes_(
          metrics.GetCounter("headrace_store_written_bytes_total", "Bytes of objects written to a store.", {{"store", name_}})) {
  for (StoreOp op : kAllStoreOps) {
    durations_[static_cast<size_t>(op)] =
        &metrics.GetHistogram("headrace_store_request_duration_seconds", "How long requests to a store took.",
                              {{"store", name_}, {"op", std::string(OpName(op))}});
  }
}

std::string MeteredStore::OutcomeName(Outcome outcome) {
  switch (outcome) {
    case kNotFound: return "not_found";
    case kCreated: return "created";
    case kExists: return "exists";
    case kUnknown: return "unknown";
    default: break;
  }
  // "OutcomeUnknown" → "outcome_unknown", as labels are written.
  std::string name;
  for (char c : CodeName(static_cast<Code>(outcome))) {
    bool capital = c >= 'A' && c <= 'Z';
    if (capital && !name.empty()) name.push_back('_');
    name.push_back(capital ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return name;
}

void MeteredStore::Count(StoreOp op, Outcome outcome, Instant began) {
  auto row = static_cast<size_t>(op);
  durations_[row]->Observe(std::chrono::duration<double>(clock_.Now() - began).count());
  std::atomic<Counter*>& slot = requests_[row][outcome];
  Counter* counter = slot.load(std::memory_order_acquire);
  if (counter == nullptr) {
    counter = &metrics_.GetCounter("headrace_store_requests_total", "Requests to a store, by operation and outcome.",
                                   {{"store", name_}, {"op", std::string(OpName(op))}, {"outcome", OutcomeName(outcome)}});
    slot.store(counter, std::memory_order_release);
  }
  counter->Add(1);
}

Result<std::optional<Object>> MeteredStore::Get(const std::string& key, const GetOptions& options, const Deadline& deadline) {
  Instant began = clock_.Now();
  auto got = inner().Get(key, options, deadline);
  Count(StoreOp::kGet, got.ok() && !*got ? kNotFound : Failed(got.code()), began);
  if (got.ok() && *got) read_bytes_.Add(static_cast<double>((*got)->bytes.size() + (*got)->landed));
  return got;
}

Result<PutOutcome> MeteredStore::PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) {
  Instant began = clock_.Now();
  auto put = inner().PutIfAbsent(key, body, deadline);
  Outcome outcome = Failed(put.code());
  if (put.ok()) outcome = put->kind == PutOutcome::kCreated ? kCreated : put->kind == PutOutcome::kExists ? kExists : kUnknown;
  Count(StoreOp::kCreate, outcome, began);
  if (outcome == kCreated) written_bytes_.Add(static_cast<double>(body.size()));
  return put;
}

Status MeteredStore::Put(const std::string& key, const Body& body, const Deadline& deadline) {
  Instant began = clock_.Now();
  Status put = inner().Put(key, body, deadline);
  Count(StoreOp::kPut, Failed(put.code()), began);
  if (put.ok()) written_bytes_.Add(static_cast<double>(body.size()));
  return put;
}

Result<ListPage> MeteredStore::List(const ListOptions& options, const Deadline& deadline) {
  Instant began = clock_.Now();
  auto page = inner().List(options, deadline);
  Count(StoreOp::kList, Failed(page.code()), began);
  return page;
}

Status MeteredStore::Delete(std::span<const std::string> keys, const Deadline& deadline) {
  Instant began = clock_.Now();
  Status deleted = inner().Delete(keys, deadline);
  Count(StoreOp::kDelete, Failed(deleted.code()), began);
  return deleted;
}

}  // namespace headrace
