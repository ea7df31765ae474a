#include "produce/status_board.h"

#include "base/text.h"

namespace headrace {

Status StatusBoard::Refresh(const std::string& role, const Deadline& deadline) {
  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> entries, ListAll(store_, Cat("status/", role, "-"), deadline));
  const Instant now = clock_.Now();
  std::erase_if(seen_, [&](const auto& seen) {
    return seen.second.role == role && std::ranges::find(entries, seen.first, &ListEntry::key) == entries.end();
  });
  for (const ListEntry& entry : entries) {
    Result<std::optional<Object>> object = store_.Get(entry.key, deadline);
    if (!object.ok()) return object.status();
    if (!*object) continue;
    nlohmann::json status = nlohmann::json::parse((*object)->bytes.AsText(), nullptr, /*allow_exceptions=*/false);
    if (!status.is_object()) continue;  // somebody else's
    const uint64_t counter =
        status.contains("counter") && status["counter"].is_number_unsigned() ? status["counter"].get<uint64_t>() : 0;
    auto [seen, first] = seen_.try_emplace(entry.key, Seen{status, counter, now, role});
    if (!first && seen->second.counter != counter) seen->second = {status, counter, now, role};
  }
  return {};
}

std::vector<StatusBoard::Participant> StatusBoard::Of(const std::string& role) const {
  std::vector<Participant> participants;
  const Instant now = clock_.Now();
  for (const auto& [key, seen] : seen_) {
    if (seen.role == role) participants.push_back({key, seen.status, now - seen.since < patience_});
  }
  return participants;
}

Status StatusBoard::Write(const std::string& role, const std::string& id, nlohmann::json status, const Deadline& deadline) {
  status["role"] = role;
  status["id"] = id;
  status["counter"] = ++counter_;
  return store_.Put(Cat("status/", role, "-", id), Body(status.dump() + "\n"), deadline);
}

Status StatusBoard::Remove(const std::string& role, const std::string& id, const Deadline& deadline) {
  return store_.DeleteOne(Cat("status/", role, "-", id), deadline);
}

}  // namespace headrace
